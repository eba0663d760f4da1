"""Classes through crashes, failures, stops and rescales: the output is the expected one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.operators.process.test_snapshots import ODD, RETURNS, step
from tests.support.paths import PROCESS_CLASSES
from tests.support.reference import random_pipelines
from tests.support.runtime import expected_rows

SOURCE = (
    f"{{memory: {{data: %s}}, schema: {random_pipelines.SCHEMA}, event_time: at,"
    f" watermark: {{delay: {random_pipelines.SPREAD_S}s}}}}"
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
    splits = data.draw(random_pipelines.SPLITS)
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
    left, right = (data.draw(random_pipelines.SPLITS) for _ in range(2))
    text = (
        f"sources:\n  a: {SOURCE % 'left'}\n  b: {SOURCE % 'right'}\n"
        f"steps:\n  step: {{{TWO[name]}, process: {{python: {PROCESS_CLASSES}:{name},"
        f" {RETURNS}}}}}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )
    survive(data, text, a=left, b=right)


def survive(data: st.DataObject, text: str, **came: expected_rows.Splits) -> None:
    """Run a job through random events, with ordered or unordered rows."""
    text, sides = expected_rows.perhaps_in_order(data, text, *came.values())
    expected_rows.survive(data, text, dict(zip(came, sides, strict=True)))
