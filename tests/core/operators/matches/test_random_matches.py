"""Random patterns and rules over random rows give the matches that the reference matcher finds.

The rows are cut anywhere, and the jobs are killed, stopped and rescaled. Thousands more:
`python -m tests.core.operators.matches.test_random_matches 2000 [SEED]`; it prints the seed that
fails.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData
from headrace.core.api.kernel_executor import KernelExecutor
from tests.support.reference import random_patterns, random_pipelines
from tests.support.runtime import expected_rows
from tests.support.runtime.crashing_jobs import FlakyMemory
from tests.support.runtime.memory_pipelines import bounds_of, cut, job_of, run_simulated

LIVES = 6
DATA = {"rows": "in", "rules": "rules"}
"""By source: what its rows are called in memory."""
FRAMES = {"rows": random_pipelines.frame, "rules": random_patterns.rule_frame}
RULES = st.lists(random_patterns.rules(), min_size=1, max_size=6)
SPLITS = st.lists(st.lists(random_pipelines.ROW, min_size=5, max_size=25), min_size=1, max_size=2)


@settings(max_examples=30)
@given(st.data())
def test_matches_are_those_that_the_pattern_means(data: st.DataObject) -> None:
    compare(data)


def compare(data: st.DataObject) -> None:
    """Draw a pipeline, rows, and what happens to it; compare all of its output."""
    drawn = data.draw(st.sampled_from([_draw_pattern, _draw_rules]))(data)
    way = data.draw(st.sampled_from([run, survive]))
    way(data, *drawn)


def run(data: st.DataObject, text: str, came: Mapping[str, expected_rows.Splits]) -> None:
    """Run a pipeline over rows in pieces, and compare all of its output."""
    number, size = data.draw(st.integers(0, 99)), data.draw(st.sampled_from([1, 4, 50]))
    memory = InMemoryData(
        {
            DATA[name]: {
                str(at): [*cut(FRAMES[name](rows), size)] for at, rows in enumerate(splits)
            }
            for name, splits in came.items()
        }
    )
    with TemporaryDirectory() as folder:
        job = job_of(Path(folder), text, memory, KernelExecutor(), bounds_of(number))
        outcome = run_simulated(job, number)
    assert outcome.failure is None, outcome.failure
    expected_rows.compare_sinks(job.plan, memory, came)


def survive(data: st.DataObject, text: str, came: Mapping[str, expected_rows.Splits]) -> None:
    """Run a pipeline through whatever happens, and compare all of its output."""
    chance = random.Random(data.draw(st.integers(0, 9999)))
    memory = FlakyMemory(
        {
            DATA[name]: expected_rows.paced(splits, chance, FRAMES[name])
            for name, splits in came.items()
        }
    )
    plan, _ = expected_rows.survived(text, memory, chance, chance.randrange(LIVES))
    expected_rows.compare_sinks(plan, memory, came)


def _draw_pattern(data: st.DataObject) -> tuple[str, dict[str, expected_rows.Splits]]:
    text, splits = data.draw(random_patterns.pipelines()), data.draw(SPLITS)
    text, (splits,) = expected_rows.perhaps_in_order(data, text, splits)
    return _set_parallelism(data, text), {"rows": splits}


def _draw_rules(data: st.DataObject) -> tuple[str, dict[str, expected_rows.Splits]]:
    text, splits = data.draw(random_patterns.rule_pipelines()), data.draw(SPLITS)
    rules = data.draw(st.lists(RULES, min_size=1, max_size=2))
    text, (splits, rules) = expected_rows.perhaps_in_order(data, text, splits, rules)
    return _set_parallelism(data, text), {"rows": splits, "rules": rules}


def _set_parallelism(data: st.DataObject, text: str) -> str:
    return f"settings: {{parallelism: {data.draw(st.sampled_from([1, 3]))}}}\n{text}"


if __name__ == "__main__":
    expected_rows.more(compare, sys.argv[1:])
