"""The rows of a step with `match`, from the matches in the rows of a key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from headrace.core.api.window_classes import EPOCH
from headrace.core.plan import nodes
from headrace.core.testing.reference.match_finder import (
    NEVER_US,
    FoundMatch,
    MatchFinder,
    compute_over_match,
)
from headrace.core.testing.reference.rows import Rows, TimedRow, Value


def match_rows(
    operation: nodes.Match, key: Mapping[str, Value], rows: Sequence[TimedRow]
) -> tuple[Rows, Rows]:
    """Return the rows for the matches in the rows of a key, and those for incomplete matches."""
    rows = sorted(rows, key=lambda row: row.order)
    complete: Rows = []
    incomplete: Rows = []
    for number, found in enumerate(MatchFinder(operation, rows).find()):
        # What only the end of the input decides has the time of its last row.
        time_us = found.decided_us
        if time_us == NEVER_US:
            time_us = rows[found.taken[-1][1]].time or 0
        made = _list_columns(operation, key, rows, found)
        target = complete if found.is_complete else incomplete
        target += [
            TimedRow(values, time_us, (time_us, *rows[found.taken[0][1]].order[1:], number, at))
            for at, values in enumerate(made)
        ]
    return complete, incomplete


def _list_columns(
    operation: nodes.Match,
    key: Mapping[str, Value],
    rows: Sequence[TimedRow],
    found: FoundMatch,
) -> Iterator[dict[str, Value]]:
    """Yield the columns of each row that is emitted for a match."""
    taken = found.taken
    start, end = ((rows[taken[place][1]].time or 0) for place in (0, -1))
    bounds: dict[str, Value] = {
        "match_start": _to_timestamp(start),
        "match_end": _to_timestamp(end),
    }
    if found.is_complete and operation.all_rows:
        for variable, at in taken:
            yield {**key, **bounds, "variable": variable, **rows[at].values}
        return
    if not found.is_complete:
        progress = {"reached": taken[-1][0], "rows": len(taken)}
        bounds = {"match_start": bounds["match_start"], **progress}
    emitted = {
        each.name: compute_over_match(each.expression, rows, taken, key) for each in operation.emit
    }
    yield {**key, **bounds, **emitted}


def _to_timestamp(time_us: int) -> datetime:
    return EPOCH + timedelta(microseconds=time_us)
