"""Sessions with a trigger that goes by rows: every firing is emitted, in the order of these rows.

The rows of a batch are grouped with the stored sessions that they touch. Where nothing can fire,
they are stored as fragments. The others are taken one by one, in the order of their arrival.

A session that fired is stored with its rows, and its result is deleted when another row touches
it. A discarding session is stored with its times only: they are those of its next results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.core.operators.folds import ROW_COUNT, ROW_TIME
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import MAX_OUTPUT_ROWS, Output, request_offload
from headrace.core.operators.sessions.fragments import (
    FRAGMENT_END,
    FRAGMENT_START,
    ROW_NUMBER,
    SESSION_NUMBER,
    merge_fragments,
    number_sessions,
)
from headrace.core.operators.sessions.late_rows import OWN_END, OWN_START
from headrace.core.operators.sessions.open_sessions import EmittedSessions
from headrace.core.operators.sessions.row_sessions import CountTrigger, SessionTrigger
from headrace.core.operators.sessions.session_operator import SessionWindowOperator
from headrace.core.operators.sessions.session_results import (
    COMPONENT,
    IS_DELETED,
    MergedSessions,
    SessionMerger,
    TouchedSessions,
)
from headrace.core.operators.windows.row_trigger_windows import MAX_FIRING_BYTES
from headrace.core.plan.nodes import WindowedOperation
from headrace.core.types.elements import DELETE

if TYPE_CHECKING:
    import polars as pl

ORIGIN = "__from"
"""The number of the frame that a fragment is from."""


class TriggerSessionOperator(SessionWindowOperator, ABC):
    """The operator of sessions with a trigger that goes by rows."""

    def __init__(
        self, operation: WindowedOperation, context: KeyedContext, types: Mapping[str, pl.DataType]
    ) -> None:
        super().__init__(operation, context, types)
        self._fired = self._emitted or EmittedSessions(
            context.state, self._window, self._open, keeps_rows=False
        )
        self._emitted = self._fired
        states = self._fold.state_columns.values()
        self._may_grow = self._window.keeps_rows and any(type.is_nested() for type in states)

    _rows_per_firing = 1
    """The least number of rows of a session that has not ended between two firings."""

    @abstractmethod
    def _find_firing(self, found: TouchedSessions) -> pl.Series:
        """Return the components with a session that may fire."""

    @abstractmethod
    def _build_trigger(self, found: TouchedSessions) -> SessionTrigger:
        """Build the trigger of sessions to which these rows are added."""

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Add rows to their sessions; rows too late for any session are left out."""
        if not frame.height:
            return
        yield from request_offload(self._count_deferred_rows(for_lookup=True))
        late = list[int]()
        yield from self._add_rows(self._number_rows(frame), late)
        if late:
            yield from self._context.emit_late_rows(self._window.late_to, frame[late])

    def _add_rows(self, rows: pl.DataFrame, late: list[int]) -> Iterator[Output]:
        """Add rows, and append the numbers of those that are too late."""
        found = self._take_touched(rows)
        if self._is_too_much(found):
            self._put_back(found)
            yield from self._add_rows(rows.head(rows.height // 2), late)
            yield from self._add_rows(rows.tail(-(rows.height // 2)), late)
            return
        firing = self._find_firing(found)
        yield from self._store_quiet(found.select(firing, inverted=True))
        if firing.len():
            yield from self._fire_rows(found.select(firing), late)

    def _take_touched(self, rows: pl.DataFrame) -> TouchedSessions:
        """Return rows with the sessions that they touch, which are removed from the state."""
        import polars as pl

        by = self._group_columns
        pieces = merge_fragments(rows, self._open.key, self._gap_us)
        bounds = pieces.select(by).unique()
        frames = [bounds, self._open.take_touched(bounds), self._fired.take_touched(bounds)]
        own = (pl.col(FRAGMENT_START).alias(OWN_START), pl.col(FRAGMENT_END).alias(OWN_END))
        both = pl.concat(
            frame.select(*by, *own, pl.lit(at).alias(ORIGIN)) for at, frame in enumerate(frames)
        )
        whole = number_sessions(merge_fragments(both, self._open.key, self._gap_us), self._open.key)
        names = {OWN_START: FRAGMENT_START, OWN_END: FRAGMENT_END, SESSION_NUMBER: COMPONENT}
        numbered = whole.drop(FRAGMENT_START, FRAGMENT_END).rename(names)
        found = [
            frame.join(numbered.filter(pl.col(ORIGIN) == at).drop(ORIGIN), on=by, nulls_equal=True)
            for at, frame in enumerate((pieces, *frames[1:]))
        ]
        return TouchedSessions(found[0].sort(ROW_NUMBER), *found[1:])

    def _put_back(self, found: TouchedSessions) -> None:
        self._open.add_fragments(found.open.drop(COMPONENT))
        self._fired.add(found.fired.drop(COMPONENT))

    def _is_too_much(self, found: TouchedSessions) -> bool:
        """Whether the states of all firings with these rows may take too much memory."""
        if not self._may_grow or found.rows.height < 2:
            return False
        most = found.rows.group_by(COMPONENT).len()["len"].max()
        assert isinstance(most, int)
        size = sum(frame.estimated_size() for frame in (found.rows, found.open, found.fired))
        return most > 1 and most * size > MAX_FIRING_BYTES * self._rows_per_firing

    def _store_quiet(self, found: TouchedSessions) -> Iterator[Output]:
        """Store rows with which nothing fires; the results of what they touch are deleted."""
        self._open.add_fragments(found.open.drop(COMPONENT))
        yield from self._reopen(found.fired.drop(COMPONENT))
        if found.rows.height:
            self._open.add_fragments(self._open.fold_fragments(found.rows.drop(COMPONENT)))

    def _fire_rows(self, found: TouchedSessions, late: list[int]) -> Iterator[Output]:
        """Take rows one by one, emit all results, and store the sessions as they are then."""
        merged = self._merge_rows(found)
        late += merged.late_rows
        self._open.add_sessions(merged.open)
        self._fired.add(merged.fired)
        yield from self._emit_results(merged.results)

    def _emit_results(self, results: pl.DataFrame) -> Iterator[Output]:
        """Emit results, which may be deleted, in their order."""
        for part in results.iter_slices(MAX_OUTPUT_ROWS):
            yield from self._out.emit(self._finish_results(part))

    def _merge_rows(self, found: TouchedSessions) -> MergedSessions:
        """Add rows to the sessions that they touch, one by one."""
        trigger = self._build_trigger(found)
        return SessionMerger(self._build_rules(), trigger, self._open.key, self._fold).merge(found)

    def _finish_results(self, results: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of results, which may be deleted."""
        import polars as pl

        done = self._finish_states(results, (*self._group_columns, IS_DELETED))
        if not self._window.keeps_rows:
            return done.drop(IS_DELETED)
        deleted = pl.col(IS_DELETED)
        if DELETE in done.columns:  # there is no row where `apply` returned none
            deleted = deleted | pl.col(DELETE)
        return done.with_columns(deleted.alias(DELETE)).drop(IS_DELETED)


class CountTriggerSessions(TriggerSessionOperator):
    """Sessions that also fire after a number of rows; those of joined sessions add up."""

    def __init__(
        self, operation: WindowedOperation, context: KeyedContext, types: Mapping[str, pl.DataType]
    ) -> None:
        super().__init__(operation, context, types)
        trigger = self._window.trigger
        assert trigger is not None and trigger.count is not None
        self._count = self._rows_per_firing = trigger.count

    def _find_firing(self, found: TouchedSessions) -> pl.Series:
        """Return the components with enough new rows, with late rows, or without their times."""
        import polars as pl

        new = found.rows.select(COMPONENT, pl.lit(1, pl.Int64).alias(ROW_COUNT))
        count = pl.concat([new, found.open.select(COMPONENT, ROW_COUNT)])
        count = count.group_by(COMPONENT).sum().filter(pl.col(ROW_COUNT) >= self._count)
        firing = [count[COMPONENT]]
        if not self._window.uses_processing_time:
            over = pl.col(ROW_TIME) <= self._state.clock_us - (self._gap_us + 1)
            firing.append(found.rows.filter(over)[COMPONENT])
        if not self._window.keeps_rows:
            firing.append(found.fired[COMPONENT])
        return pl.concat(firing).unique()

    def _build_trigger(self, found: TouchedSessions) -> SessionTrigger:
        return CountTrigger(self._count)
