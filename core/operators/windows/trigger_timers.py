"""The timers of trigger classes: the windows whose timers are due, and the order of these timers.

The time that a timer is set to is in the state of its window. An index has a time for each key that
has timers, at most that of its first one; it is looked up when a clock passes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from headrace.core.api.state import SLOT, RunsLayout, StepState
from headrace.core.api.user_code import UserCodeError
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.operators.process.row_calls import ENDLESS_TIMER_HINT, MAX_FIRINGS
from headrace.core.operators.windows.trigger_calls import STATE_PREFIX, OpenWindow, TriggerCaller
from headrace.core.plan.states import EVENT_TIMERS, WALL_CLOCK_TIMERS
from headrace.core.types.elements import MAX_WATERMARK_US, MIN_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

FIRST_TIMER = "__first"
"""The time of the first timer of a key."""
FIRING_TIME = "__fires_at"
"""The time at which a window fires, by a timer or at its end."""


class TimerIndex:
    """The times at which keys have timers by one clock; stored in the state."""

    def __init__(
        self, state: StepState, grouping: GroupingKey, names: Sequence[str], *, by_clock: bool
    ) -> None:
        self._key = grouping.internal_names
        self.names = tuple(names)
        """The names of the timers, in the order of their declaration."""
        layout = RunsLayout(grouping.types, self._key, lambda entries: entries.unique())
        self._runs = state.open_runs(WALL_CLOCK_TIMERS if by_clock else EVENT_TIMERS, layout)

    @classmethod
    def open_all(
        cls, state: StepState, grouping: GroupingKey, timers: Mapping[str, bool]
    ) -> dict[bool, TimerIndex]:
        """Return the indexes of timers, by whether they are by the wall clock."""
        found = {}
        for by_clock in (False, True):
            names = [name for name, of in timers.items() if of == by_clock]
            if names:
                found[by_clock] = cls(state, grouping, names, by_clock=by_clock)
        return found

    @property
    def rows(self) -> int:
        """The number of entries."""
        return self._runs.rows

    @property
    def first_us(self) -> int | None:
        """A time before which no timer is due."""
        return self._runs.get_first_slot()

    def take_keys(self, before_us: int) -> pl.DataFrame | None:
        """Remove the entries before a time, and return their keys."""
        first = self._runs.get_first_slot()
        if first is None or first >= before_us:
            return None
        due = self._runs.take(before_us - 1)
        return None if due is None else due.select(self._key).unique()

    def drop(self) -> None:
        """Remove all entries."""
        self._runs.drop(MAX_WATERMARK_US)

    def find_first(self, windows: pl.DataFrame) -> pl.DataFrame:
        """Return the FIRST_TIMER of each key that has timers in these windows."""
        import polars as pl

        times = [pl.col(f"{STATE_PREFIX}{name}").dt.epoch("us") for name in self.names]
        found = windows.select(*self._key, pl.min_horizontal(times).alias(FIRST_TIMER))
        first = pl.col(FIRST_TIMER).min()
        found = found.group_by(self._key).agg(first) if self._key else found.select(first)
        return found.drop_nulls(FIRST_TIMER)

    def add(self, first: pl.DataFrame, known: pl.DataFrame | None = None) -> None:
        """Add the first timers of keys, except where an earlier one is `known`."""
        import polars as pl

        if known is not None and known.height:
            before = known.rename({FIRST_TIMER: SLOT})
            if self._key:
                first = first.join(before, on=self._key, how="left", nulls_equal=True)
            else:
                first = first.with_columns(pl.lit(before[SLOT][0]).alias(SLOT))
            earlier = pl.col(FIRST_TIMER) < pl.col(SLOT)
            first = first.filter(earlier | pl.col(SLOT).is_null()).drop(SLOT)
        self._runs.add(first.rename({FIRST_TIMER: SLOT}).select(*self._key, SLOT))


def record_timers(
    indexes: Iterable[TimerIndex],
    now: pl.DataFrame,
    known: pl.DataFrame | None,
    taken: TimerIndex | None = None,
) -> None:
    """Record the first timers of keys, by both clocks, after calls of the class.

    `now` and `known` are the open windows after and before the calls. The timers of `known` are
    recorded, except in the index from which the keys were `taken`.
    """
    for timers in indexes:
        before = None if known is None or timers is taken else timers.find_first(known)
        timers.add(timers.find_first(now), before)


@dataclass(frozen=True, slots=True)
class TimerFiring:
    """A window that fires as its timer is due."""

    at_us: int
    """The time of the timer, or of an earlier one that set it to a time in the past."""
    window: int
    """The number of the window."""


@dataclass(frozen=True, slots=True)
class DueTimers:
    """The timers that are due: those of these names before a time."""

    names: Sequence[str]
    before_us: int
    by_window_clock: bool
    """Whether they are by the clock by which windows end: then none is due after the end."""
    keeps_rows: bool

    def fire(self, windows: Sequence[OpenWindow], caller: TriggerCaller) -> list[TimerFiring]:
        """Call the class for timers in the order of their times; return the windows that fire.

        A window that discards its rows has no state after it fired, and no timers.
        """
        heap: list[tuple[int, int, int, str]] = []
        for number, window in enumerate(windows):
            self._push_due(heap, number, window, caller)
        firings, calls, now_us = list[TimerFiring](), _CallCount(), MIN_WATERMARK_US
        while heap:
            at_us, number, _, name = heappop(heap)
            window = windows[number]
            if caller.get_timer_us(window.state, name) != at_us:
                continue
            now_us = max(now_us, at_us)
            calls.add(number, window, at_us, caller, is_end=self.before_us == MAX_WATERMARK_US)
            if caller.call_timer(window, name):
                firings.append(TimerFiring(now_us, number))
                if not self.keeps_rows:
                    window.state, window.firings = caller.create_state(), 1
            self._push_due(heap, number, window, caller)
        return firings

    def _push_due(
        self,
        heap: list[tuple[int, int, int, str]],
        number: int,
        window: OpenWindow,
        caller: TriggerCaller,
    ) -> None:
        if window.has_ended:
            return
        until_us = min(self.before_us, window.end_us) if self.by_window_clock else self.before_us
        for rank, name in enumerate(self.names):
            at_us = caller.get_timer_us(window.state, name)
            if at_us is not None and at_us < until_us:
                heappush(heap, (at_us, number, rank, name))


class _CallCount:
    """The number of calls for each window, which is limited: a timer may always be set again."""

    def __init__(self) -> None:
        self._counts: dict[int, tuple[int, int]] = {}
        """By window, a time and the number of calls at it; of any time, at the end of input."""

    def add(
        self, number: int, window: OpenWindow, at_us: int, caller: TriggerCaller, *, is_end: bool
    ) -> None:
        """Count a call. Raises UserCodeError at the limit."""
        last_us, count = self._counts.get(number, (at_us, 0))
        count = count + 1 if is_end or at_us <= last_us else 1
        self._counts[number] = (max(at_us, last_us), count)
        if count > MAX_FIRINGS:
            message = f"the timers of a window fired {MAX_FIRINGS} times"
            when = "at the end of the input" if is_end else "at one time"
            error = UserCodeError(f"{message} {when}", ENDLESS_TIMER_HINT)
            raise caller.add_context(error, window.bounds)
