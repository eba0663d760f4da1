"""Session windows: rows of a key that follow each other at most the gap apart make one window.

A row exactly at the end of a session still belongs to it, so a session closes when the watermark is
past its end, and not at its end. Its output is then that much older than the watermark, and that of
late rows by the allowed lateness: `watermark_delay_us`.

A window that may change after it was emitted (`lateness`, `trigger`) is stored among the emitted
sessions. A row that touches it retracts it: its row is deleted, and the session is emitted again
when it is due. So a window's row is deleted as soon as the window no longer exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.api.state import NO_CLOCK_US, SLOT
from headrace.core.operators.folds import ROW_COUNT, ROW_TIME
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import Output, WriteThroughOperator, request_offload
from headrace.core.operators.result_rows import ResultRows
from headrace.core.operators.sessions.fragments import (
    FRAGMENT_END,
    FRAGMENT_START,
    ROW_NUMBER,
    merge_fragments,
)
from headrace.core.operators.sessions.late_rows import find_late_rows
from headrace.core.operators.sessions.open_sessions import EmittedSessions, OpenSessions
from headrace.core.operators.sessions.row_sessions import SessionRules
from headrace.core.operators.sessions.session_rows import SessionRowBuilder
from headrace.core.operators.windows.factory import build_fold
from headrace.core.operators.windows.periodic_trigger import PeriodicTrigger
from headrace.core.operators.windows.trigger_calls import TriggerStateFold
from headrace.core.plan.nodes import WindowedOperation
from headrace.core.plan.nodes.windows import Session, Window
from headrace.core.types.elements import DELETE, EVENT_TIME, MAX_WATERMARK_US

if TYPE_CHECKING:
    import polars as pl


class SessionWindowOperator(WriteThroughOperator):
    """The operator of `window: {session: ...}`."""

    def __init__(
        self, operation: WindowedOperation, context: KeyedContext, types: Mapping[str, pl.DataType]
    ) -> None:
        """`types` are the types of the input columns; only `top` keeps all of them."""
        window, state = operation.window, context.state
        assert window is not None and isinstance(window.shape, Session)
        self._window = window
        self._gap_us = window.shape.gap_us
        self._context, self._state = context, state
        self._grouping = grouping = GroupingKey(operation.key)
        self._fold = fold = build_fold(operation, grouping, types)
        self._row_builder = SessionRowBuilder(operation, fold)
        self._out = ResultRows(operation, context.stream, ordered=context.is_ordered)
        trigger = window.trigger
        has_state = trigger is not None and trigger.code is not None
        self._stored_fold = TriggerStateFold(fold, trigger) if trigger and has_state else fold
        """The fold of stored sessions: the other one, perhaps with the state of a trigger class."""
        self._open = OpenSessions(state, grouping, self._stored_fold, self._gap_us)
        self._emitted = (
            EmittedSessions(state, window, self._open) if window.can_fire_again else None
        )
        self._group_columns = self._open.group_columns
        self.watermark_delay_us = compute_session_delay(window)
        self._trigger = PeriodicTrigger(window, context.now_us)
        if self._open.find_first_due() is not None:
            self._trigger.record_arrival()

    @property
    def pending_rows(self) -> int:
        """The number of fragments of open sessions."""
        return self._open.fragment_count

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Store rows as fragments; rows too late for any session are left out."""
        import polars as pl

        if not frame.height:
            return
        rows, rules = self._number_rows(frame), self._build_rules()
        may_be_late = not rows.filter(pl.col(ROW_TIME) <= rules.last_late_us).is_empty()
        yield from request_offload(self._count_deferred_rows(for_lookup=may_be_late))
        late = find_late_rows(rows, self._read_keys, self._open.key, rules) if may_be_late else []
        if late:
            yield from self._context.emit_late_rows(self._window.late_to, frame[late])
            rows = rows.filter(~pl.col(ROW_NUMBER).is_in(late))
        if rows.height:
            self._trigger.record_arrival()
            pieces = merge_fragments(rows, self._open.key, self._gap_us)
            yield from self._store_fragments(self._open.fold_fragments(pieces))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the sessions whose gap has passed."""
        if self._window.uses_processing_time and watermark_us < MAX_WATERMARK_US:
            return
        before_us = self._state.clock_us
        self._state.clock_us = max(before_us, watermark_us)
        yield from self._emit_closed(watermark_us)
        if self._trigger.fires_between(before_us, watermark_us):
            yield from self._emit_sessions(self._open.take_all())
        if self._emitted is not None:
            self._emitted.drop(watermark_us)

    def next_tick_us(self) -> int | None:
        """Return the wall-clock time at which a session closes or the trigger fires."""
        closes = self._open.find_first_due() if self._window.uses_processing_time else None
        due = [at for at in (closes, self._trigger.next_firing_us()) if at is not None]
        return min(due, default=None)

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        if self._window.uses_processing_time:
            yield from self._emit_closed(now_us)
            if self._emitted is not None:
                self._emitted.drop(now_us)
        if self._trigger.fire_if_due(now_us):
            yield from self._emit_sessions(self._open.take_all())

    def _number_rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return each row as a fragment, with its number."""
        import polars as pl

        rows = self._grouping.project_rows(frame, self._stored_fold.input_columns)
        if self._window.uses_processing_time:
            time = pl.lit(self._context.now_us(), dtype=pl.Int64)
        else:
            time = pl.col(EVENT_TIME).cast(pl.Int64)
        times = (time.alias(FRAGMENT_START), time.alias(FRAGMENT_END), time.alias(ROW_TIME))
        return rows.with_columns(*times, pl.int_range(pl.len()).alias(ROW_NUMBER))

    def _count_deferred_rows(self, *, for_lookup: bool) -> int:
        """Return the number of earlier rows that the arrival of rows works on."""
        rows = self._open.count_deferred_rows(for_lookup=for_lookup)
        return rows if self._emitted is None else rows + self._emitted.deferred_rows

    def _build_rules(self) -> SessionRules:
        by_wall = self._window.uses_processing_time
        clock_us = NO_CLOCK_US if by_wall else self._state.clock_us
        lateness_us, keeps_rows = self._window.lateness_us, self._window.keeps_rows
        return SessionRules(self._gap_us, lateness_us, clock_us, keeps_rows)

    def _read_keys(self, keys: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Yield the fragments of keys in sessions that are not over."""
        for each in (self._open, self._emitted):
            found = None if each is None else each.read_keys(keys)
            if found is not None:
                yield found

    def _store_fragments(self, pieces: pl.DataFrame) -> Iterator[Output]:
        """Store fragments, and emit the changes that they cause at once."""
        if self._emitted is not None and self._emitted.session_count:
            yield from self._reopen(self._emitted.take_touched(pieces))
        self._open.add_fragments(pieces)
        if not self._window.uses_processing_time:
            yield from self._emit_closed(self._state.clock_us)

    def _reopen(self, sessions: pl.DataFrame) -> Iterator[Output]:
        """Store emitted sessions as open ones, and delete their results."""
        if sessions.height:
            self._open.reopen(sessions)
            yield from self._out.emit(self._finish_sessions(sessions, deleted=True))

    def _emit_closed(self, until_us: int) -> Iterator[Output]:
        """Remove the sessions that closed up to this time, and emit them if they fire then."""
        first = self._open.find_first_due()
        if first is not None and first <= until_us:
            yield from request_offload(self._open.deferred_closing_rows)
            closed = self._open.take_closed(until_us)
            yield from self._emit_sessions(closed if self._window.fires_at_end else None)

    def _emit_sessions(self, sessions: pl.DataFrame | None) -> Iterator[Output]:
        """Emit sessions, and store those that may still change."""
        if sessions is None or not sessions.height:
            return
        yield from self._out.emit(self._finish_sessions(sessions, deleted=False))
        if self._emitted is not None:
            self._emitted.add(sessions)

    def _finish_sessions(self, sessions: pl.DataFrame, *, deleted: bool) -> pl.DataFrame:
        """Return the results of complete sessions."""
        import polars as pl

        done = self._finish_states(sessions.drop(SLOT, ROW_COUNT), self._group_columns)
        return done.with_columns(pl.lit(deleted).alias(DELETE)) if deleted else done

    def _finish_states(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the results of states; `by` are the key, the bounds, and columns to keep."""
        return self._row_builder.build(states, by)


def compute_session_delay(window: Window) -> int:
    """Return how much older than the watermark the rows of sessions may be."""
    return 1 + window.lateness_us
