"""The windows of a row, by brute force: no panes, no state, no watermark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.core.api.user_code import get_instance
from headrace.core.api.window_classes import Window as Named
from headrace.core.plan.nodes.windows import (
    Count,
    Cumulate,
    Evict,
    Global,
    Session,
    Slide,
    Tumble,
    Window,
    WindowShape,
)
from tests.support.reference.rows import Row
from tests.support.reference.user_functions import left_by_user


@dataclass(frozen=True)
class Found:
    """A window of one key: its bounds, if it has any, and its rows in the order of arrival."""

    start: int | None
    end: int | None
    rows: tuple[Row, ...]


def windows(window: Window, rows: Sequence[Row], *, every_firing: bool = False) -> Iterator[Found]:
    """Return the windows of the rows of one key.

    A window is found once for each of its results; with `every_firing` also for those that later
    ones replace, in their order.
    """
    if isinstance(window.shape, Session) and window.trigger and window.trigger.depends_on_rows:
        fired = list(_session_firings(window, window.shape.gap_us, rows))
        for whole in fired if every_firing or not window.keeps_rows else _last_of_each(fired):
            yield replace(whole, rows=_kept(window.evict, whole))
        return
    for found in _found(window.shape, rows):
        for part in _parts(window, found, every_firing=every_firing):
            whole = Found(found.start, found.end, part)
            yield replace(whole, rows=_kept(window.evict, whole))


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
            bounds = sorted({b for row in rows for b in _bounds(shape, row.time or 0)})
            for start, end in bounds:
                inside = tuple(row for row in rows if start <= (row.time or 0) < end)
                yield Found(start, end, inside)


def _bounds(shape: Tumble | Slide | Cumulate, time: int) -> Iterator[tuple[int, int]]:
    """Return the windows that contain a time."""
    match shape:
        case Tumble(size, offset):
            start = (time - offset) // size * size + offset
            yield start, start + size
        case Slide(size, every, offset):
            start = (time - offset) // every * every + offset
            while start + size > time:
                yield start, start + size
                start -= every
        case Cumulate(size, every, offset):
            start = (time - offset) // size * size + offset
            for end in range(start + every, start + size + 1, every):
                if time < end:
                    yield start, end


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


@dataclass
class _OpenSession:
    """A session while rows are added to it."""

    start: int
    end: int
    """The times of its first and its last row."""
    rows: list[Row]
    new: list[Row]
    """The rows since it last fired."""


def _session_firings(window: Window, gap: int, rows: Sequence[Row]) -> Iterator[Found]:
    """Return the firings of the sessions of a key, row by row, then those at their ends."""
    trigger, sessions = window.trigger, list[_OpenSession]()
    assert trigger is not None
    for row in rows:
        time = row.time or 0
        near = [each for each in sessions if each.start - gap <= time <= each.end + gap]
        sessions = [each for each in sessions if each not in near]
        joined = _OpenSession(
            min([time, *(each.start for each in near)]),
            max([time, *(each.end for each in near)]),
            [*(old for each in near for old in each.rows), row],
            [*(old for each in near for old in each.new), row],
        )
        sessions.append(joined)
        if len(joined.new) >= (trigger.count or 0):
            yield _fire_session(window, gap, joined)
    for session in sorted(sessions, key=lambda each: each.end):
        if session.new:
            yield _fire_session(window, gap, session)


def _fire_session(window: Window, gap: int, session: _OpenSession) -> Found:
    fired = session.rows if window.keeps_rows else session.new
    session.new = []
    return Found(session.start, session.end + gap, tuple(fired))


def _last_of_each(fired: Sequence[Found]) -> Iterator[Found]:
    """Return the firings that no later one replaces, by the sessions that there are at the end."""
    for at, found in enumerate(fired):
        assert found.start is not None and found.end is not None
        if not any(_touch(found, later) for later in fired[at + 1 :]):
            yield found


def _touch(one: Found, other: Found) -> bool:
    assert one.start is not None and one.end is not None
    assert other.start is not None and other.end is not None
    return one.start <= other.end and other.start <= one.end


def _parts(window: Window, found: Found, *, every_firing: bool) -> Iterator[tuple[Row, ...]]:
    """Return the rows of each firing: row by row, then at the end.

    At the end, a window with a count trigger fires only if rows came since it last fired, and one
    whose trigger replaces that firing never.
    """
    firings, fired = list[tuple[Row, ...]](), 0
    for at, fires in enumerate(_fires(window, found), 1):
        if fires:
            firings.append(found.rows[0 if window.keeps_rows else fired : at])
            fired = at
    repeats = window.keeps_rows and (window.trigger is None or window.trigger.count is None)
    if window.fires_at_end and (repeats or fired < len(found.rows)):
        firings.append(found.rows[0 if window.keeps_rows else fired :])
    yield from firings if every_firing or not window.keeps_rows else firings[-1:]


def _fires(window: Window, found: Found) -> Iterator[bool]:
    """Return for each row whether the window fires with it."""
    trigger, state = window.trigger, dict[str, Any]()
    for at, row in enumerate(found.rows, 1):
        if trigger is None or not trigger.depends_on_rows:
            yield False
        elif trigger.count is not None:
            yield at % trigger.count == 0
        else:
            assert trigger.code and trigger.state is not None and trigger.input_columns is not None
            state = state or dict.fromkeys(trigger.state.names)
            shown = {name: row.values[name] for name in trigger.input_columns.names}
            fires = get_instance(trigger.code).on_row(shown, state, Named({}, None, None))
            yield fires
            state = {} if fires and not window.keeps_rows else state


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
