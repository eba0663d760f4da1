"""The windows of a row, by brute force: no panes, no state, no watermark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from headrace.core.api.window_classes import EPOCH
from headrace.core.api.window_classes import Trigger as TriggerClass
from headrace.core.api.window_classes import Window as Named
from headrace.core.plan.nodes.windows import (
    Count,
    Cumulate,
    Evict,
    Global,
    Session,
    Slide,
    Trigger,
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
        gap = window.shape.gap_us
        fired = list(_session_firings(window, gap, rows))
        lasting = (
            fired if every_firing or not window.keeps_rows else _last_of_each(gap, fired, rows)
        )
        for whole in lasting:
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
    calls: TriggerCalls | None = None


def _session_firings(window: Window, gap: int, rows: Sequence[Row]) -> Iterator[Found]:
    """Return the firings of the sessions of a key, row by row, then those up to their ends."""
    trigger, sessions = window.trigger, list[_OpenSession]()
    assert trigger is not None
    for row in rows:
        time = row.time or 0
        near = [each for each in sessions if each.start - gap <= time <= each.end + gap]
        near.sort(key=lambda each: each.start)
        sessions = [each for each in sessions if each not in near]
        joined = _OpenSession(
            min([time, *(each.start for each in near)]),
            max([time, *(each.end for each in near)]),
            [*(old for each in near for old in each.rows), row],
            [*(old for each in near for old in each.new), row],
            TriggerCalls.merged(trigger, [each.calls for each in near]),
        )
        sessions.append(joined)
        fires = (
            joined.calls.add_row(row) if joined.calls else len(joined.new) >= (trigger.count or 0)
        )
        if fires:
            yield _fire_session(window, gap, joined)
    for session in sorted(sessions, key=lambda each: each.end):
        closes = session.end + gap + 1
        while session.calls and (rings := session.calls.fire_timer(closes)) is not None:
            if rings:
                yield _fire_session(window, gap, session)
        if session.new and window.fires_at_end:
            yield _fire_session(window, gap, session)


def _fire_session(window: Window, gap: int, session: _OpenSession) -> Found:
    fired = session.rows if window.keeps_rows else session.new
    session.new = []
    if session.calls and not window.keeps_rows:
        session.calls.reset()
    return Found(session.start, session.end + gap, tuple(fired))


def _last_of_each(gap: int, fired: Sequence[Found], rows: Sequence[Row]) -> Iterator[Found]:
    """Return the last firings of the sessions that have no rows since: the others are deleted."""
    last = {(found.start, found.end, len(found.rows)): found for found in fired}
    for whole in _sessions(gap, rows):
        name = (whole.start, whole.end, len(whole.rows))
        if name in last:
            yield last[name]


def _parts(window: Window, found: Found, *, every_firing: bool) -> Iterator[tuple[Row, ...]]:
    """Return the rows of each firing: row by row, then by timers, then at the end.

    At the end, a window with a count trigger fires only if rows came since it last fired, and one
    whose trigger replaces that firing never.
    """
    firings, fired = list[tuple[Row, ...]](), 0
    for at in _fires(window, found):
        firings.append(found.rows[0 if window.keeps_rows else fired : at])
        fired = at
    repeats = window.keeps_rows and (window.trigger is None or window.trigger.count is None)
    if window.fires_at_end and (repeats or fired < len(found.rows)):
        firings.append(found.rows[0 if window.keeps_rows else fired :])
    yield from firings if every_firing or not window.keeps_rows else firings[-1:]


def _fires(window: Window, found: Found) -> Iterator[int]:
    """Return after how many rows the window fires, each time that it does."""
    trigger = window.trigger
    if trigger is None or not trigger.depends_on_rows:
        return
    calls = None if trigger.code is None else TriggerCalls(trigger)
    for at, row in enumerate(found.rows, 1):
        if at % trigger.count == 0 if trigger.count else calls is not None and calls.add_row(row):
            yield at
            if calls is not None and not window.keeps_rows:
                calls.reset()
    while calls is not None and (fires := calls.fire_timer(found.end)) is not None:
        if fires:
            yield len(found.rows)
            if not window.keeps_rows:
                calls.reset()


class TriggerCalls:
    """The calls of a trigger class for one window; all rows come before all timers."""

    def __init__(self, trigger: Trigger) -> None:
        assert trigger.code is not None and trigger.state is not None
        self._trigger = trigger
        self._object = trigger.code.load()()
        if isinstance(self._object, TriggerClass):
            self._object._set_context(self)
        self._names = trigger.state.names
        self._named = Named({}, None, None)
        self.state = dict[str, Any]()
        self.is_used = False
        """Whether there was a row since it was reset."""
        self.timer: str | None = None
        self.watermark_us = None
        self.reset()

    @classmethod
    def merged(cls, trigger: Trigger, calls: Sequence[TriggerCalls | None]) -> TriggerCalls | None:
        """Return the calls for a session that a row makes of others."""
        if trigger.code is None:
            return None
        made, states = cls(trigger), [each.state for each in calls if each and each.is_used]
        if states and made._names:
            made.state = states[0] if len(states) == 1 else made._object.merge(states)
            made.is_used = True
        return made

    def now_us(self) -> int:
        """Refuse: there is no clock."""
        raise NotImplementedError("what depends on how time passes has no single answer")

    def reset(self) -> None:
        """Begin with empty state."""
        self.state = dict.fromkeys(self._names)
        self.is_used = False

    def add_row(self, row: Row) -> bool:
        """Return whether the window fires with a row."""
        assert self._trigger.input_columns is not None
        self.is_used = True
        shown = {name: row.values[name] for name in self._trigger.input_columns.names}
        return bool(self._object.on_row(shown, self.state, self._named))

    def fire_timer(self, end: int | None) -> bool | None:
        """Return whether the window fires with its first timer; None: it has none."""
        set_to = {
            name: self.state[name]
            for name, _ in self._trigger.timers
            if self.state[name] is not None
        }
        if not set_to:
            return None
        first = min(set_to, key=lambda name: set_to[name])
        at, self.state[first] = set_to[first], None
        if end is not None and (at - EPOCH) // timedelta(microseconds=1) >= end:
            return None
        self.timer = first
        fires = self._object.on_timer(at, self.state, self._named)
        self.timer = None
        return bool(fires)


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
