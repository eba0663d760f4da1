"""Classes through crashes, failures, stops and rescales: the rows are those that they mean."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.process.test_process_freezing import ODD, step
from tests.reference import pipelines
from tests.runtime.test_surviving import compare

CLASSES = {
    "Totals": step("Totals").replace("n: bigint", "n: int"),
    "Two": step("Two"),
    "Suspicious": step("Suspicious", ODD),
}


@pytest.mark.parametrize("name", CLASSES)
@settings(max_examples=12, deadline=None)
@given(st.data())
def test_whatever_happens_a_class_gives_the_rows_that_it_means(
    name: str, data: st.DataObject
) -> None:
    parallelism = data.draw(st.sampled_from([1, 2, 3]))
    splits = data.draw(pipelines.SPLITS)
    delay = pipelines.SPREAD_S
    if data.draw(st.booleans()):
        delay = 0
        splits = [sorted(rows, key=lambda row: row["at"]) for rows in splits]
    chance = random.Random(data.draw(st.integers(0, 9999)))
    text = (
        f"settings: {{parallelism: {parallelism}}}\n"
        f"sources:\n  rows: {{memory: {{data: in}}, schema: {pipelines.SCHEMA}, event_time: at,"
        f" watermark: {{delay: {delay}s}}}}\n"
        f"steps:\n  step: {{from: rows, {CLASSES[name]}}}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )
    compare(text, splits, chance)
