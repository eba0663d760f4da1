"""Classes through crashes, failures, stops and rescales: the output is the expected one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.process.test_process_freezing import CLASSES as FILE
from tests.process.test_process_freezing import ODD, RETURNS, step
from tests.reference import pipelines
from tests.runtime import meant

SOURCE = (
    f"{{memory: {{data: %s}}, schema: {pipelines.SCHEMA}, event_time: at,"
    f" watermark: {{delay: {pipelines.SPREAD_S}s}}}}"
)
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
    splits = data.draw(pipelines.SPLITS)
    text = (
        f"sources:\n  rows: {SOURCE % 'in'}\n"
        f"steps:\n  step: {{from: rows, {CLASSES[name]}}}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )
    survive(data, text, rows=splits)


TWO = {
    "Matched": "key: k, connect: {left: a, right: b}",
    "Limited": "key: k, from: a, broadcast: {rules: b}",
}


@pytest.mark.parametrize("name", TWO)
@settings(max_examples=12, deadline=None)
@given(st.data())
def test_whatever_happens_a_class_of_two_inputs_gives_the_rows_that_it_means(
    name: str,
    data: st.DataObject,
) -> None:
    left, right = (data.draw(pipelines.SPLITS) for _ in range(2))
    text = (
        f"sources:\n  a: {SOURCE % 'left'}\n  b: {SOURCE % 'right'}\n"
        f"steps:\n  step: {{{TWO[name]}, process: {{python: {FILE}:{name}, {RETURNS}}}}}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )
    survive(data, text, a=left, b=right)


def survive(data: st.DataObject, text: str, **came: meant.Splits) -> None:
    """Run a job through random events, with ordered or unordered rows."""
    text, sides = meant.perhaps_in_order(data, text, *came.values())
    meant.survive(data, text, dict(zip(came, sides, strict=True)))
