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
from headrace.core.testing.reference.firings import (
    FiredWindow,
    SessionFirings,
    WindowFirings,
    find_bounds,
)
from headrace.core.testing.reference.rows import TimedRow
from headrace.core.testing.reference.timeline import AT_ONCE, Timeline
from headrace.core.testing.reference.user_functions import call_evictor


def find_windows(
    window: Window,
    rows: Sequence[TimedRow],
    timeline: Timeline = AT_ONCE,
    *,
    every_firing: bool = False,
    late_rows: list[TimedRow] | None = None,
) -> Iterator[FiredWindow]:
    """Return the windows of the rows of one key; rows that are too late are added to `late_rows`.

    A window is found once for each of its results; with `every_firing` also for those that later
    ones replace, in their order.
    """
    if isinstance(window.shape, Count) or (window.trigger is None and timeline is AT_ONCE):
        found = _find_windows_once(window.shape, rows)
    else:
        kind = SessionFirings if isinstance(window.shape, Session) else WindowFirings
        followed = kind(window)
        firings = followed.follow(rows, timeline)
        if late_rows is not None:
            late_rows.extend(followed.late_rows)
        keeps_all = every_firing or not window.keeps_rows
        found = iter(firings if keeps_all else _last_of_each(firings))
    for whole in found:
        if not whole.is_deleted:
            yield replace(whole, rows=_evict_rows(window.evict, whole))


def _last_of_each(firings: Sequence[FiredWindow]) -> Sequence[FiredWindow]:
    """Return the last result of each window, or that it was deleted."""
    return [*{(found.start, found.end): found for found in firings}.values()]


def _find_windows_once(shape: WindowShape, rows: Sequence[TimedRow]) -> Iterator[FiredWindow]:
    match shape:
        case Global():
            yield FiredWindow(None, None, tuple(rows))
        case Count(size, every):
            for last in range(every, len(rows) + 1, every):
                yield FiredWindow(None, None, tuple(rows[max(0, last - size) : last]))
        case Session(gap):
            yield from _find_sessions(gap, rows)
        case _:
            bounds = sorted({b for row in rows for b in find_bounds(shape, row.time or 0)})
            for start, end in bounds:
                assert start is not None and end is not None
                inside = tuple(row for row in rows if start <= (row.time or 0) < end)
                yield FiredWindow(start, end, inside)


def _find_sessions(gap: int, rows: Sequence[TimedRow]) -> Iterator[FiredWindow]:
    by_time = sorted(rows, key=lambda row: row.time or 0)
    session: list[TimedRow] = []
    for row in by_time:
        if session and (row.time or 0) - (session[-1].time or 0) > gap:
            yield _build_session(gap, session, rows)
            session = []
        session.append(row)
    if session:
        yield _build_session(gap, session, rows)


def _build_session(gap: int, session: list[TimedRow], rows: Sequence[TimedRow]) -> FiredWindow:
    members = {row.order for row in session}
    came = tuple(row for row in rows if row.order in members)
    return FiredWindow(session[0].time, (session[-1].time or 0) + gap, came)


def _evict_rows(evict: Evict | None, found: FiredWindow) -> tuple[TimedRow, ...]:
    rows = found.rows
    if evict is None:
        return rows
    if evict.code is not None:
        return call_evictor(evict, rows)
    in_order = sorted(rows, key=lambda row: row.order)
    if evict.last is not None:
        return tuple(in_order[-evict.last :])
    assert evict.within_us is not None
    newest = max(row.time or 0 for row in rows)
    return tuple(row for row in in_order if (row.time or 0) >= newest - evict.within_us)
