"""Random queries over tables give at each checkpoint the query over the rows before its barrier.

The jobs are killed, stopped and rescaled, and some of their tasks are slow, so that what takes
different ways arrives in any order. Thousands more:
`python -m tests.core.operators.changelog.test_random_tables 5000`; it prints the seed that fails.
"""

from __future__ import annotations

import random
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.reference import (
    duckdb_tables,
    random_pipelines,
    random_table_steps,
    random_tables,
)
from tests.support.runtime import checkpointed_output, expected_rows
from tests.support.runtime.checkpointed_output import CheckpointRecorder
from tests.support.runtime.crashing_jobs import FlakyMemory

LIVES = 6
SPLITS = st.lists(st.lists(random_pipelines.ROW, min_size=6, max_size=30), min_size=1, max_size=3)
COMPARED = 4
"""The most checkpoints that are compared of a job, besides its end."""


@settings(max_examples=30)
@given(st.data())
def test_a_query_over_tables_is_right_at_each_checkpoint(data: st.DataObject) -> None:
    survive(data)


@settings(max_examples=20)
@given(st.data())
def test_duckdb_gives_the_same_final_tables(data: st.DataObject) -> None:
    duckdb_tables.hold(data)


def survive(data: st.DataObject) -> None:
    """Draw a query, rows, and what happens to it; compare its output at some checkpoints."""
    pipelines = st.one_of(random_table_steps.pipelines(), random_tables.pipelines())
    text, sides = expected_rows.of_two_inputs(data, pipelines, SPLITS)
    full = expected_rows.without_empty(sides)
    chance = random.Random(data.draw(st.integers(0, 9999)))
    came = {expected_rows.DATA[n]: expected_rows.paced(rows, chance) for n, rows in full.items()}
    memory = FlakyMemory(came)
    recorder = CheckpointRecorder(memory)
    settings_text = f"settings: {{parallelism: {data.draw(st.sampled_from([1, 3]))}}}"
    plan, _ = expected_rows.survived(
        f"{settings_text}\n{checkpointed_output.add_full_sinks(text)}",
        memory,
        chance,
        chance.randrange(LIVES),
        slow_share=chance.choice([0.0, 0.3]),
        on_committed=recorder.record,
    )
    checkpointed_output.compare_sinks(plan, recorder, recorder.end, full)
    if not checkpointed_output.waits_for_watermarks(plan):
        for checkpoint in recorder.draw(chance, COMPARED):
            inputs = recorder.read_input(expected_rows.DATA, full, checkpoint)
            checkpointed_output.compare_sinks(plan, recorder, checkpoint, inputs)


if __name__ == "__main__":
    expected_rows.more(survive, sys.argv[1:])
