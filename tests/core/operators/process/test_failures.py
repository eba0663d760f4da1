"""Rows and timers on which a class fails: skipped, undone, counted, and sent to dead letters."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.core.api.user_code import UserCodeError
from headrace.core.types.elements import MAX_WATERMARK_US
from tests.core.operators.process.test_snapshots import step
from tests.support.paths import PROCESS_CLASSES
from tests.support.reference.random_pipelines import BEGIN, SCHEMA
from tests.support.runtime.operator_subtasks import Event, Subtasks, plan_of, planned


def rows(*values: tuple[int, int]) -> Event:
    """Build rows of key 1 from values and times."""
    made = (
        {"k": 1, "s": "a", "v": v, "x": 0.0, "at": BEGIN + timedelta(seconds=t)} for v, t in values
    )
    return Event(0, tuple(made))


END = Event(0, (), MAX_WATERMARK_US)


def out(said: object) -> list[str]:
    return sorted(f"{stream}: {row}" for stream, row in said)  # type: ignore[attr-defined]


def test_what_a_row_did_that_failed_is_undone() -> None:
    clean = Subtasks(plan_of(step("Picky", on_error=", on_error: skip")), 1)
    other = Subtasks(plan_of(step("Picky", on_error=", on_error: skip")), 1)
    clean.said(rows((1, 0), (3, 2)))
    other.said(rows((1, 0), (2, 1), (3, 2), (2, 3)))
    assert out(clean.said(END)) == out(other.said(END)) != []
    assert [each.failed_rows for each in other.compiled] == [{"step": 2}]


def test_a_timer_that_failed_is_reported_with_its_key() -> None:
    clauses = step("Picky", on_error=", on_error: {to: failed}")
    subtasks = Subtasks(
        planned(
            f"sources:\n  rows: {{memory: {{data: in}}, schema: {SCHEMA}, event_time: at}}\n"
            f"steps:\n  step: {{from: rows, {clauses}}}\n"
            "sinks:\n  out: {from: step, memory: {data: out}}\n"
            "  bad: {from: failed, memory: {data: bad}}\n"
        ),
        1,
    )
    subtasks.said(rows((1, 0), (1, 0), (1, 0), (1, 0), (2, 0)))
    found = out(subtasks.said(END))
    failed = [each for each in found if each.startswith("failed: ")]
    assert len(failed) == 2
    assert any("ValueError: two is too many" in each and '"v":2' in each for each in failed)
    timer = next(each for each in failed if "four is too many" in each)
    assert '"key":1' in timer and '"timer":"stop"' in timer and "process_classes.py:" in timer


def test_state_of_another_type_is_reported_where_it_is_set() -> None:
    subtasks = Subtasks(plan_of(step("Alien")), 1)
    subtasks.said(rows((1, 0)))
    message = (
        "process_classes.py:270: TypeError: "
        "state \"n\" is a value of bigint, and was set to 'x' (str)"
    )
    with pytest.raises(UserCodeError, match=rf"^{re.escape(message)} \(in the row .* key 1\)"):
        subtasks.said(END)


def test_a_row_that_sets_state_of_another_type_is_left_out() -> None:
    subtasks = Subtasks(plan_of(step("Alien", on_error=", on_error: skip")), 1)
    subtasks.said(rows((1, 0)))
    subtasks.said(END)
    assert [each.failed_rows for each in subtasks.compiled] == [{"step": 1}]
    subtasks.freeze()


def test_a_row_that_cannot_be_made_is_left_out_and_those_after_it_are_not() -> None:
    subtasks = Subtasks(plan_of(step("Looking", on_error=", on_error: skip")), 1)
    clean = Subtasks(plan_of(step("Looking", on_error=", on_error: skip")), 1)
    clean.said(rows((1, 0), (2, 3), (0, 5)))
    subtasks.said(rows((1, 0), (7, 1), (8, 2), (2, 3), (9, 4), (0, 5)))
    assert out(clean.said(END)) == out(subtasks.said(END)) != []
    assert [each.failed_rows for each in subtasks.compiled] == [{"step": 3}]


LEAVING = """
import sys
from headrace import Process, timer

class Leaving(Process):
    stop = timer()

    def on_row(self, row, state, out):
        state.stop = self.event_time
        if row.v == 1:
            sys.exit(1)

    def on_timer(self, at, state, out):
        sys.exit(2)
"""


@pytest.mark.parametrize("on_error", ["", ", on_error: skip"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1, r"^leaving\.py:11: SystemExit: 1 \(in the row .* of the key 1\)"),
        (2, r'^leaving\.py:14: SystemExit: 2 \(in timer "stop" at .* of the key 1\)'),
    ],
)
def test_a_class_that_ends_the_process_is_reported_whatever_becomes_of_rows_that_fail(
    tmp_path: Path, on_error: str, value: int, message: str
) -> None:
    file = tmp_path / "leaving.py"
    file.write_text(LEAVING)
    clauses = step("Leaving", on_error=on_error).replace(str(PROCESS_CLASSES), str(file))
    subtasks = Subtasks(plan_of(clauses), 1)
    subtasks.said(rows((value, 0)))
    with pytest.raises(UserCodeError, match=message):
        subtasks.said(END)


FAR = """
import polars as pl
from headrace import Process, timer, value

class Far(Process):
    seen = value("timestamp")
    stop = timer()

    def on_rows(self, rows, state, out):
        far = pl.Series([10**18] * rows.height, dtype=pl.Int64)
        state.seen.set(far.cast(pl.Datetime("us", "UTC")))
        state.stop.set(self.event_times)

    def on_timer(self, at, state, out): ...
"""


def test_a_state_that_columns_have_and_python_has_not_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "far.py"
    file.write_text(FAR)
    subtasks = Subtasks(plan_of(step("Far").replace(str(PROCESS_CLASSES), str(file))), 1)
    subtasks.said(rows((1, 0)))
    with pytest.raises(UserCodeError, match=r"^state seen: .* out of range$"):
        subtasks.said(END)
