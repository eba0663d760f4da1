"""Random pipelines are simulated: the interpreter and both runs must come to the same rows.

Thousands more: `python -m tests.cli.simulation.test_random_pipelines 5000 [SEED]`;
it prints the seed that fails.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cli.pipeline_tests.checked_tests import Suite, check_suite
from headrace.cli.pipeline_tests.report import format_mismatch
from headrace.cli.simulation.simulation import Simulation
from tests.support.reference import random_joins, random_pipelines, random_table_steps
from tests.support.reference.random_pipelines import SPREAD_S
from tests.support.runtime import expected_rows

PIPELINES = st.one_of(
    random_pipelines.pipelines(one_split=True),
    random_joins.pipelines(),
    random_table_steps.pipelines(),
)
KAFKA = "kafka: {brokers: 'localhost:9092', group: t, topic: "


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_random_pipeline_passes(data: st.DataObject) -> None:
    simulate(data)


def simulate(data: st.DataObject) -> None:
    """Draw a pipeline, and run a few of its seeds."""
    head, _, sinks = data.draw(PIPELINES).partition("sinks:\n")
    text = head.replace("memory: {data: ", KAFKA) + "sinks:\n"
    text += re.sub("memory: {data: [^}]*}", "console: {}", sinks)
    text = text.replace(f"delay: {SPREAD_S}s", f"delay: {data.draw(st.sampled_from([0, 2, 40]))}s")
    text = text.replace(f"delay: {SPREAD_S + 1}s", "delay: 3s")
    seed = data.draw(st.integers(0, 9999))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "p.yaml"
        file.write_text(f"name: t\n{text}", "utf-8")
        checked = check_suite(Suite(str(file), with_section=True), ())
        assert checked.is_valid, [each.message for each in checked.problems]
        simulation = Simulation(checked, 60, {})
        for each in (seed, seed + 1):
            found = "\n".join(
                line for m in simulation.run_seed(each) for line in format_mismatch(m)
            )
            assert not found, f"seed {each} of\n{text}\n{found}"


if __name__ == "__main__":
    expected_rows.more(simulate, sys.argv[1:])
