"""What has gone through a subtask, as plain data: part of a checkpoint, so that a row counts once.

The places of dead letters in the order of all rows go by it as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.core.state import Document

if TYPE_CHECKING:
    from headrace.core.assembly import Subtask


def tally(subtask: Subtask) -> Document:
    """All that is counted, as it is now."""
    flow, compiled, intake = subtask.flow, subtask.compiled, subtask.intake
    return {
        "rows": flow.rows_in,
        "out": dict(flow.foot.rows_out),
        "put_out": dict(flow.chain.put_out) if flow.chain else {},
        "passed": [dict(columns.passed) for columns in compiled.columns],
        "failed": dict(compiled.failed),
        "read": [intake.rows_in, intake.bad] if intake else [],
        "windows": {
            step: [counts.late, counts.unfilled]
            for step in compiled.states
            for counts in [compiled.late_and_unfilled(step)]
        },
    }


def count_on(subtask: Subtask, before: Mapping[str, Any], *, with_states: bool) -> None:
    """Go on counting from what was counted `before`.

    States count for themselves, where they are restored too.
    """
    flow, compiled, intake = subtask.flow, subtask.compiled, subtask.intake
    if not before:
        return
    flow.rows_in = int(before["rows"])
    flow.foot.rows_out.update(before["out"])
    if flow.chain is not None:
        flow.chain.put_out.update(before["put_out"])
    for columns, passed in zip(compiled.columns, before["passed"], strict=False):
        columns.passed.update(passed)
    compiled.failed.update(before["failed"])
    if intake is not None and before["read"]:
        intake.rows_in, intake.bad = before["read"]
    for step, (late, unfilled) in before["windows"].items():
        states = () if with_states else compiled.states.get(step, ())
        for state in states[:1]:
            state.counts.late, state.counts.unfilled = late, unfilled
