"""Sessions with a user trigger: its class is called for each row, and for its timers.

The state of the class is stored with each session, and merged by the class when a row joins two.
Sessions are stored whole, since all rows are taken one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.core.api.state import NO_CLOCK_US, SLOT
from headrace.core.operators.group_error_context import GroupErrorContext
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Output, request_offload
from headrace.core.operators.sessions.fragments import FRAGMENT_END, FRAGMENT_START
from headrace.core.operators.sessions.row_sessions import RowSession, SessionTrigger
from headrace.core.operators.sessions.session_results import (
    COMPONENT,
    IS_DELETED,
    MergedSessions,
    SessionMerger,
    TouchedSessions,
)
from headrace.core.operators.sessions.trigger_sessions import TriggerSessionOperator
from headrace.core.operators.windows.trigger_calls import (
    OpenWindow,
    TriggerCaller,
)
from headrace.core.operators.windows.trigger_timers import (
    FIRING_TIME,
    DueTimers,
    TimerIndex,
    record_timers,
)
from headrace.core.plan.nodes import WindowedOperation
from headrace.core.types.elements import MAX_WATERMARK_US

if TYPE_CHECKING:
    import polars as pl

WAS_FIRED = "__was_fired"
"""Whether a stored session has no rows since it fired."""


class UserTrigger:
    """A trigger class that is called for rows of a batch."""

    def __init__(self, caller: TriggerCaller, key: Sequence[str], rows: pl.DataFrame) -> None:
        self._caller = caller
        self._rows = list(caller.iterate_rows(rows))
        self._keys = rows.select(key).to_dicts() if key else [{}] * rows.height

    def join_states(self, sessions: Sequence[RowSession], into: RowSession, row: int) -> None:
        """Merge the states of sessions that a row joins; one that discarded its rows has none."""
        states = [each.trigger_state for each in sessions if each.trigger_state is not None]
        if len(states) > 1:
            window = self._open_window(into, row)
            into.trigger_state = self._caller.merge_states(states, window)
        else:
            into.trigger_state = states[0] if states else None

    def fires(self, session: RowSession, row: int) -> bool:
        """Whether the class says that a session fires with a row."""
        if session.trigger_state is None:
            session.trigger_state = self._caller.create_state()
        return self._caller.call_row(self._open_window(session, row), self._rows[row])

    def _open_window(self, session: RowSession, row: int) -> OpenWindow:
        times = {FRAGMENT_START: session.start_us, FRAGMENT_END: session.end_us}
        bounds = {**self._keys[row], **times}
        named = self._caller.build_window(bounds)
        return OpenWindow(bounds, named, session.end_us, False, session.trigger_state)


class UserTriggerSessions(TriggerSessionOperator):
    """The operator of sessions with a user trigger."""

    def __init__(
        self, operation: WindowedOperation, context: KeyedContext, types: Mapping[str, pl.DataType]
    ) -> None:
        super().__init__(operation, context, types)
        error_context = GroupErrorContext(self._grouping, self._window)
        self._caller = TriggerCaller(self._window, error_context, context)
        self._timers = TimerIndex.open_all(context.state, self._grouping, self._caller.timers)
        self._ended_us = NO_CLOCK_US
        """The time up to which sessions had ended before the clock last advanced."""

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit what timers fire, and the sessions whose gap has passed, in the order of time."""
        self._ended_us = self._state.clock_us
        yield from super().advance(watermark_us)
        if watermark_us == MAX_WATERMARK_US:  # with the sessions, their timers are gone
            for each in self._timers.values():
                each.drop()

    def next_tick_us(self) -> int | None:
        """Return the wall-clock time at which a session closes or a timer is due."""
        clocks = self._timers.get(True)
        due = (super().next_tick_us(), None if clocks is None else clocks.first_us)
        return min((at for at in due if at is not None), default=None)

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        yield from super().tick(now_us)
        if not self._window.uses_processing_time and True in self._timers:
            self._ended_us = self._state.clock_us
            yield from request_offload(self._count_deferred_rows(for_lookup=True))
            fired = self._fire_timers(self._timers[True], now_us + 1, self._ended_us)
            if fired is not None:
                yield from self._emit_results(fired)

    @property
    def pending_rows(self) -> int:
        """The number of stored sessions and of timers of event time."""
        return super().pending_rows + (self._timers[False].rows if False in self._timers else 0)

    def _find_firing(self, found: TouchedSessions) -> pl.Series:
        return found.rows[COMPONENT].unique()

    def _build_trigger(self, found: TouchedSessions) -> SessionTrigger:
        return UserTrigger(self._caller, self._open.key, found.rows)

    def _merge_rows(self, found: TouchedSessions) -> MergedSessions:
        self._ended_us = self._state.clock_us
        trigger, key, read = self._build_trigger(found), self._open.key, self._caller.read_states
        merged = SessionMerger(self._build_rules(), trigger, key, self._fold, read).merge(found)
        opened, fired = self._add_states(merged.open, merged), merged.fired
        before, now = found.open, opened
        if self._window.keeps_rows:
            fired = self._add_states(fired, merged)
            before, now = _append(before, found.fired), _append(now, fired)
        self._record_timers(now, before, self._ended_us)
        return replace(merged, open=opened, fired=fired)

    def _record_timers(
        self,
        now: pl.DataFrame,
        before: pl.DataFrame,
        ended_us: int,
        taken: TimerIndex | None = None,
    ) -> None:
        """Record the first timers of keys in sessions that close after a time."""
        import polars as pl

        if not self._timers:
            return
        is_open = pl.col(FRAGMENT_END) + (self._gap_us + 1) > ended_us
        record_timers(self._timers.values(), now.filter(is_open), before.filter(is_open), taken)

    def _add_states(self, sessions: pl.DataFrame, merged: MergedSessions) -> pl.DataFrame:
        """Add what the class stores of each session."""
        states = [state or self._caller.create_state() for state in merged.get_states(sessions)]
        return self._caller.replace_states(sessions, self._open_windows(sessions, states))

    def _open_windows(
        self, sessions: pl.DataFrame, states: Sequence[dict[str, Any]]
    ) -> list[OpenWindow]:
        """Return sessions with the state of the class."""
        times, windows = sessions.select(self._group_columns).to_dicts(), list[OpenWindow]()
        for bounds, state in zip(times, states, strict=True):
            closes_us = bounds[FRAGMENT_END] + self._gap_us + 1
            named, has_ended = self._caller.build_window(bounds), closes_us <= self._ended_us
            windows.append(OpenWindow(bounds, named, closes_us, has_ended, state))
        return windows

    def _emit_closed(self, until_us: int) -> Iterator[Output]:
        """Emit what timers fire and the sessions that close up to a time, in the order of time."""
        import polars as pl

        by_wall, has_ended = self._window.uses_processing_time, until_us == MAX_WATERMARK_US
        timers = self._timers.get(by_wall)
        fired = None
        if timers is not None and not (by_wall and has_ended):
            yield from request_offload(self._count_deferred_rows(for_lookup=True))
            fired = self._fire_timers(timers, until_us + by_wall, until_us)
        if fired is None:
            yield from super()._emit_closed(until_us)
            return
        closed = self._open.take_closed(until_us)
        results = [fired]
        if closed is not None and self._window.fires_at_end:
            time, kept = pl.col(SLOT).alias(FIRING_TIME), pl.lit(False).alias(IS_DELETED)
            results.append(closed.with_columns(time, kept).select(fired.columns))
            self._fired.add(closed)
        yield from self._emit_results(pl.concat(results).sort(FIRING_TIME, maintain_order=True))

    def _fire_timers(
        self, timers: TimerIndex, before_us: int, ended_us: int
    ) -> pl.DataFrame | None:
        """Fire the timers before a time; return the results of sessions, with FIRING_TIME.

        Sessions that close up to `ended_us` have no timers afterwards.
        """
        import polars as pl

        keys = timers.take_keys(before_us)
        if keys is None:
            return None
        stored = self._take_sessions(keys)
        windows = self._open_windows(stored, self._caller.read_states(stored))
        keeps_rows, own = self._window.keeps_rows, self._window.uses_processing_time
        due = DueTimers(timers.names, before_us, timers is self._timers.get(own), keeps_rows)
        firings = due.fire(windows, self._caller)
        numbers = {each.window for each in firings}
        fires = pl.Series([at in numbers for at in range(stored.height)], dtype=pl.Boolean())
        now = self._caller.replace_states(stored, windows)
        now = now.with_columns(pl.col(WAS_FIRED) | fires)
        self._open.add_sessions(now.filter(~pl.col(WAS_FIRED)))
        self._fired.add(now.filter(WAS_FIRED))
        self._record_timers(now, stored, ended_us, taken=timers)
        if not firings:
            return None
        # A timer fires before a session that closes in the next microsecond.
        times = pl.Series(FIRING_TIME, [each.at_us + 1 for each in firings], pl.Int64)
        rows = stored[[each.window for each in firings]]
        names = (*self._group_columns, *self._fold.state_columns)
        return rows.select(*names, times, pl.lit(False).alias(IS_DELETED))

    def _take_sessions(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Remove and return the sessions of keys that have states, in the order of their ends."""
        import polars as pl

        opened = self._open.take_keys(keys).with_columns(pl.lit(False).alias(WAS_FIRED))
        if not self._window.keeps_rows:
            return opened.sort(FRAGMENT_END)
        fired = self._fired.take_keys(keys).with_columns(pl.lit(True).alias(WAS_FIRED))
        return pl.concat([opened, fired.select(opened.columns)]).sort(FRAGMENT_END)


def _append(sessions: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    return sessions.vstack(others.select(sessions.columns))
