"""The windows of a row, by brute force: no panes, no state, no batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headrace.core.plan.nodes.windows import (
    Count,
    Evict,
    Global,
    Session,
    Window,
    WindowShape,
)
from tests.support.reference.firings import Found, SessionFirings, WindowFirings, find_bounds
from tests.support.reference.rows import Row
from tests.support.reference.timeline import AT_ONCE, Timeline
from tests.support.reference.user_functions import left_by_user


def windows(
    window: Window,
    rows: Sequence[Row],
    timeline: Timeline = AT_ONCE,
    *,
    every_firing: bool = False,
) -> Iterator[Found]:
    """Return the windows of the rows of one key.

    A window is found once for each of its results; with `every_firing` also for those that later
    ones replace, in their order.
    """
    if isinstance(window.shape, Count) or (window.trigger is None and timeline is AT_ONCE):
        found = _found(window.shape, rows)
    else:
        kind = SessionFirings if isinstance(window.shape, Session) else WindowFirings
        firings = kind(window).follow(rows, timeline)
        keeps_all = every_firing or not window.keeps_rows
        found = iter(firings if keeps_all else _last_of_each(firings))
    for whole in found:
        if not whole.is_deleted:
            yield replace(whole, rows=_kept(window.evict, whole))


def _last_of_each(firings: Sequence[Found]) -> Sequence[Found]:
    """Return the last result of each window, or that it was deleted."""
    return [*{(found.start, found.end): found for found in firings}.values()]


def _found(shape: WindowShape, rows: Sequence[Row]) -> Iterator[Found]:
    match shape:
        case Global():
            yield Found(None, None, tuple(rows))
        case Count(size, every):
            for last in range(every, len(rows) + 1, every):
                yield Found(None, None, tuple(rows[max(0, last - size) : last]))
        case Session(gap):
            yield from _sessions(gap, rows)
        case _:
            bounds = sorted({b for row in rows for b in find_bounds(shape, row.time or 0)})
            for start, end in bounds:
                assert start is not None and end is not None
                inside = tuple(row for row in rows if start <= (row.time or 0) < end)
                yield Found(start, end, inside)


def _sessions(gap: int, rows: Sequence[Row]) -> Iterator[Found]:
    by_time = sorted(rows, key=lambda row: row.time or 0)
    session: list[Row] = []
    for row in by_time:
        if session and (row.time or 0) - (session[-1].time or 0) > gap:
            yield _session(gap, session, rows)
            session = []
        session.append(row)
    if session:
        yield _session(gap, session, rows)


def _session(gap: int, session: list[Row], rows: Sequence[Row]) -> Found:
    members = {row.order for row in session}
    came = tuple(row for row in rows if row.order in members)
    return Found(session[0].time, (session[-1].time or 0) + gap, came)


def _kept(evict: Evict | None, found: Found) -> tuple[Row, ...]:
    rows = found.rows
    if evict is None:
        return rows
    if evict.code is not None:
        return left_by_user(evict, rows)
    in_order = sorted(rows, key=lambda row: row.order)
    if evict.last is not None:
        return tuple(in_order[-evict.last :])
    assert evict.within_us is not None
    newest = max(row.time or 0 for row in rows)
    return tuple(row for row in in_order if (row.time or 0) >= newest - evict.within_us)
