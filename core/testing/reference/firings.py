"""The firings of the windows of one key, row by row: no batches, no panes, no stored state.

Rows, watermarks and the wall clock come in the order of a timeline. Every window is an object of
its own with all its rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import timedelta
from typing import Any

from headrace.core.api.state import NO_CLOCK_US
from headrace.core.api.window_classes import EPOCH
from headrace.core.api.window_classes import Trigger as TriggerClass
from headrace.core.api.window_classes import Window as Named
from headrace.core.plan.nodes.windows import (
    Cumulate,
    Global,
    Session,
    Slide,
    Trigger,
    Tumble,
    Window,
)
from headrace.core.testing.reference.rows import TimedRow
from headrace.core.testing.reference.timeline import Timeline, TimelinePoint
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True)
class FiredWindow:
    """A window of one key when it fires: its bounds, if any, and its rows in arrival order."""

    start: int | None
    end: int | None
    rows: tuple[TimedRow, ...]
    clock_us: int = 0
    """The time of the wall clock at which it fires."""
    is_deleted: bool = False
    """Whether its result is deleted, and not emitted."""


@dataclass(slots=True)
class ReferenceWindow:
    """A window while rows are added to it; `last` is the time of a session's last row."""

    start: int | None
    end: int | None
    closes: int
    """The time from which it has ended."""
    calls: TriggerCalls | None
    rows: list[TimedRow] = field(default_factory=list)
    """All of its rows, or, if it discards them, those since it last fired."""
    new_rows: int = 0
    """The number of rows since it last fired."""
    last: int = 0
    has_ended: bool = False
    result: FiredWindow | None = None
    """The result of a session that its next row deletes."""


class Firings(ABC):
    """The windows of a key, and what they have fired."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._trigger = window.trigger
        self._open = list[ReferenceWindow]()
        self._since_us: int | None = None
        """The time from which a trigger by the wall clock waits for its next multiple."""
        self.clock_us = 0
        self.watermark_us = NO_CLOCK_US
        self.found = list[FiredWindow]()
        self.late_rows = list[TimedRow]()
        """The rows that came too late for all of their windows."""

    def follow(self, rows: Sequence[TimedRow], timeline: Timeline) -> list[FiredWindow]:
        """Return the firings of these rows, in their order."""
        for moment in timeline.moments:
            self._pass_time(moment)
            for row in rows:
                if row.clock_us == moment.clock_us:
                    own_time = row.time if not self.is_by_wall else row.clock_us
                    self._add(replace(row, time=own_time or 0))
            if moment.watermark_us is not None and moment.watermark_us > self.watermark_us:
                self._advance_watermark(moment.watermark_us)
        return self.found

    @property
    def is_by_wall(self) -> bool:
        """Whether windows end by the wall clock."""
        return self._window.uses_processing_time

    @abstractmethod
    def _add(self, row: TimedRow) -> None:
        """Add a row, with its time by the clock of windows, or record that it is too late."""

    @abstractmethod
    def _find_shown_end(self, window: ReferenceWindow) -> int | None:
        """Return the end of a window as its results show it."""

    @property
    def _own_clock_us(self) -> int:
        return self.clock_us if self.is_by_wall else self.watermark_us

    def _is_too_late(self, closes: int) -> bool:
        return closes + self._window.lateness_us <= self._own_clock_us

    def _record_arrival(self) -> None:
        if self._since_us is None:
            self._since_us = self.clock_us

    def _fire_after_row(self, window: ReferenceWindow, row: TimedRow) -> None:
        """Fire a window with a row that was added to it, if its trigger says so or it has ended."""
        count = self._trigger.count if self._trigger else None
        if window.closes <= self._own_clock_us:
            window.has_ended = True
            self._fire(window)
        elif window.new_rows >= count if count else window.calls and window.calls.add_row(row):
            self._fire(window)

    def _fire(self, window: ReferenceWindow) -> None:
        found = FiredWindow(
            window.start, self._find_shown_end(window), tuple(window.rows), self.clock_us
        )
        self.found.append(found)
        window.new_rows = 0
        if self._window.keeps_rows:
            window.result = found
            return
        window.rows = []
        if window.calls is not None:
            window.calls.reset()

    def _pass_time(self, moment: TimelinePoint) -> None:
        """Advance the wall clock; whatever is due until then fires at its time."""
        if moment.is_resumed:
            self.clock_us = moment.clock_us
            self._since_us = self.clock_us if self._open else None
            self._tick()
        while (due_us := self._find_next_tick()) is not None and due_us <= moment.clock_us:
            self.clock_us = max(self.clock_us, due_us)
            self._tick()
        self.clock_us = moment.clock_us

    def _find_next_tick(self) -> int | None:
        """Return the next time of the wall clock at which something is due."""
        timer = self._find_timer(True, MAX_WATERMARK_US)
        due = [self._find_periodic_firing(), timer[0] if timer else None]
        if self.is_by_wall:
            due += [each.closes for each in self._open if not each.has_ended and each.rows]
        known = (at for at in due if at is not None and at < MAX_WATERMARK_US)
        return min(known, default=None)

    def _find_periodic_firing(self) -> int | None:
        trigger = self._trigger
        if trigger is None or trigger.every_us is None or self._since_us is None:
            return None
        if not (trigger.uses_processing_time or self.is_by_wall):
            return None
        return (self._since_us // trigger.every_us + 1) * trigger.every_us

    def _tick(self) -> None:
        if self.is_by_wall:
            self._advance(self.clock_us, self.clock_us + 1)
        else:
            while (timer := self._find_timer(True, self.clock_us + 1)) is not None:
                self._call_timer(timer)
        due_us = self._find_periodic_firing()
        if due_us is not None and due_us <= self.clock_us:
            self._since_us = None
            self._fire_early()

    def _advance_watermark(self, at_us: int) -> None:
        before_us, self.watermark_us = self.watermark_us, at_us
        has_ended = at_us == MAX_WATERMARK_US
        if self.is_by_wall:
            if has_ended:
                self._advance(at_us, NO_CLOCK_US)
            return
        self._advance(at_us, at_us)
        trigger = self._trigger
        every_us = trigger.every_us if trigger and not trigger.uses_processing_time else None
        if every_us and not has_ended and at_us // every_us > before_us // every_us:
            self._fire_early()

    def _advance(self, until_us: int, timers_before_us: int) -> None:
        """Fire the timers and the ends of windows by the clock of windows, in the order of time."""
        now_us = NO_CLOCK_US
        while True:
            timer = self._find_timer(self.is_by_wall, timers_before_us)
            ends = [w for w in self._open if not w.has_ended and w.closes <= until_us]
            first = min(ends, key=lambda each: each.closes, default=None)
            if timer and (first is None or max(now_us, timer[0]) + 1 <= first.closes):
                now_us = max(now_us, timer[0])
                self._call_timer(timer)
            elif first is not None:
                self._end(first)
            else:
                break
        lateness_us = self._window.lateness_us
        self._open = [w for w in self._open if w.closes + lateness_us > until_us]

    def _end(self, window: ReferenceWindow) -> None:
        window.has_ended = True
        has_result = bool(window.rows if self._repeats_at_end else window.new_rows)
        if self._window.fires_at_end and has_result:
            self._fire(window)

    @property
    def _repeats_at_end(self) -> bool:
        """Whether a window fires at its end even if no row has come since it last fired."""
        return self._window.keeps_rows and not (self._trigger and self._trigger.count)

    def _fire_early(self) -> None:
        """Fire the windows that have not ended, and have new rows."""
        for window in sorted(self._open, key=lambda each: each.closes):
            if not window.has_ended and window.new_rows:
                self._fire(window)

    def _find_timer(self, by_wall: bool, before_us: int) -> tuple[int, ReferenceWindow, str] | None:
        """Return the first timer by a clock that is due before a time."""
        found = []
        for window in sorted(self._open, key=lambda each: each.closes):
            for name, of_wall in self._trigger.timers if self._trigger else ():
                at_us = window.calls.get_timer_us(name) if window.calls else None
                if of_wall != by_wall or window.has_ended or at_us is None or at_us >= before_us:
                    continue
                if by_wall != self.is_by_wall or at_us < window.closes:
                    found.append((at_us, window, name))
        return min(found, key=lambda each: each[0], default=None)

    def _call_timer(self, timer: tuple[int, ReferenceWindow, str]) -> None:
        _, window, name = timer
        assert window.calls is not None
        if window.calls.call_timer(name):
            self._fire(window)

    def _open_window(self, start: int | None, end: int | None, closes: int) -> ReferenceWindow:
        trigger = self._trigger
        calls = TriggerCalls(trigger, self) if trigger and trigger.code else None
        return ReferenceWindow(start, end, closes, calls)


class WindowFirings(Firings):
    """Windows that a row is in by its time alone."""

    def _add(self, row: TimedRow) -> None:
        assert row.time is not None
        bounds = sorted(find_bounds(self._window.shape, row.time))
        ends = [MAX_WATERMARK_US if end is None else end for _, end in bounds]
        if all(map(self._is_too_late, ends)):
            self.late_rows.append(row)
        for (start, end), closes in zip(bounds, ends, strict=True):
            if self._is_too_late(closes):
                continue
            self._record_arrival()
            known = (each for each in self._open if each.start == start and each.end == end)
            window = next(known, None)
            if window is None:
                window = self._open_window(start, end, closes)
                self._open.append(window)
            window.rows.append(row)
            window.new_rows += 1
            self._fire_after_row(window, row)

    def _find_shown_end(self, window: ReferenceWindow) -> int | None:
        return window.end


class SessionFirings(Firings):
    """Sessions: a row starts one, extends one, or joins two. Their `end` is not used."""

    def _add(self, row: TimedRow) -> None:
        shape, time = self._window.shape, row.time
        assert isinstance(shape, Session) and time is not None
        gap = shape.gap_us
        near = [w for w in self._open if (w.start or 0) - gap <= time <= w.last + gap]
        near.sort(key=lambda each: each.start or 0)
        if not near and self._is_too_late(time + gap + 1):
            self.late_rows.append(row)
            return
        self._record_arrival()
        for each in near:
            if each.result is not None:
                self.found.append(replace(each.result, is_deleted=True))
        last = max([time, *(each.last for each in near)])
        start = min([time, *(each.start or 0 for each in near)])
        joined = self._open_window(start, None, last + gap + 1)
        joined.last = last
        joined.rows = [*(old for each in near for old in each.rows), row]
        joined.new_rows = sum(each.new_rows for each in near) + 1
        if joined.calls is not None:
            joined.calls.join([each.calls for each in near])
        self._open = [each for each in self._open if each not in near] + [joined]
        self._fire_after_row(joined, row)

    def _find_shown_end(self, window: ReferenceWindow) -> int | None:
        return window.closes - 1

    @property
    def _repeats_at_end(self) -> bool:
        return False

    def _fire_early(self) -> None:
        super()._fire_early()
        if not self._window.keeps_rows:
            self._open = [each for each in self._open if each.new_rows]


def find_bounds(shape: object, time: int) -> Iterator[tuple[int | None, int | None]]:
    """Return the windows that contain a time."""
    match shape:
        case Global():
            yield None, None
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


class TriggerCalls:
    """The calls of a trigger class for one window."""

    def __init__(self, trigger: Trigger, clocks: Firings) -> None:
        assert trigger.code is not None and trigger.state is not None
        self._trigger = trigger
        self._clocks = clocks
        self._object = trigger.code.load()()
        if isinstance(self._object, TriggerClass):
            self._object._set_context(self)
        self._names = trigger.state.names
        self._named = Named({}, None, None)
        self.state = dict[str, Any]()
        self.is_used = False
        """Whether there was a row since it was reset."""
        self.timer: str | None = None
        self.reset()

    @property
    def watermark_us(self) -> int | None:
        """The current watermark, as the class sees it."""
        watermark_us = self._clocks.watermark_us
        return None if self._clocks.is_by_wall or watermark_us == NO_CLOCK_US else watermark_us

    def now_us(self) -> int:
        """Return the time of the wall clock."""
        return self._clocks.clock_us

    def reset(self) -> None:
        """Begin with empty state."""
        self.state = dict.fromkeys(self._names)
        self.is_used = False

    def join(self, others: Sequence[TriggerCalls | None]) -> None:
        """Take over the states of sessions that a row joins."""
        states = [each.state for each in others if each and each.is_used]
        if states and self._names:
            merged = states[0] if len(states) == 1 else self._object.merge(states)
            self.state = dict(merged)
            self.is_used = True

    def add_row(self, row: TimedRow) -> bool:
        """Return whether the window fires with a row."""
        assert self._trigger.input_columns is not None
        self.is_used = True
        shown: Mapping[str, Any] = {n: row.values[n] for n in self._trigger.input_columns.names}
        return bool(self._object.on_row(shown, self.state, self._named))

    def get_timer_us(self, name: str) -> int | None:
        """Return the time to which a timer is set."""
        at = self.state[name]
        return None if at is None else (at - EPOCH) // timedelta(microseconds=1)

    def call_timer(self, name: str) -> bool:
        """Return whether the window fires with a timer."""
        at, self.state[name], self.timer = self.state[name], None, name
        fires = self._object.on_timer(at, self.state, self._named)
        self.timer = None
        return bool(fires)
