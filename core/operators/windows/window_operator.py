"""The operator of time windows: rows are stored by pane, and emitted when time passes a window.

Its clock is the watermark, or the wall clock for processing-time windows: then a row belongs to the
instant of its arrival. A row is late when all its windows have ended, including their allowed
lateness; late rows are counted, and emitted on their own stream if it is declared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.api.state import NO_CLOCK_US, SLOT
from headrace.core.operators.changelog.weighted_rows import make_change_rows
from headrace.core.operators.folds import WeightedFold
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Output, request_offload
from headrace.core.operators.windows.due_windows import (
    DueWindows,
    FiringRows,
    find_due_windows,
    find_early_windows,
    find_late_windows,
    find_next_end,
)
from headrace.core.operators.windows.ended_windows import EndedWindows
from headrace.core.operators.windows.grid import Grid
from headrace.core.operators.windows.pane_expander import PaneExpander
from headrace.core.operators.windows.pane_state import PaneState
from headrace.core.operators.windows.periodic_trigger import DirtyPanes, PeriodicTrigger
from headrace.core.operators.windows.window_rows import (
    ArrivedRows,
    WindowClock,
    WindowResults,
    WindowRows,
)
from headrace.core.plan.nodes.windows import Window
from headrace.core.types.elements import MAX_WATERMARK_US, WEIGHT
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

UNBOUNDED_DELAY_US = 1 << 62
"""Rows of unbounded windows may have any event time, so the watermark is held back."""


@dataclass(frozen=True, slots=True)
class WindowComponents:
    """The components of a window operator."""

    window: Window
    grid: Grid
    clock: WindowClock
    window_rows: WindowRows
    pane_state: PaneState
    expander: PaneExpander
    ended_windows: EndedWindows
    results: WindowResults
    context: KeyedContext
    dirty_panes: DirtyPanes | None


class WindowOperator:
    """Windows that fire as time advances: at their end, again for late rows, periodically."""

    def __init__(self, parts: WindowComponents) -> None:
        self._parts = parts
        window = parts.window
        self._window = window
        self._clock = parts.clock
        self._pane_state = parts.pane_state
        # A window of rows that may be removed is deleted with the last of them.
        self._deletes_windows = isinstance(self._pane_state.fold, WeightedFold)
        self._trigger = PeriodicTrigger(window, parts.context.now_us)
        if self._pane_state.find_first_pane() is not None:
            self._trigger.record_arrival()
        self.watermark_delay_us = compute_watermark_delay(window)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Store the rows that are not late."""
        if not frame.height:
            return
        arrived_rows = self._parts.window_rows.split_late(frame)
        if arrived_rows.late_rows is not None:
            late = arrived_rows.late_rows
            yield from self._parts.context.emit_late_rows(
                self._window.late_to, make_change_rows(late) if WEIGHT in late.columns else late
            )
        if arrived_rows.rows.height:
            self._trigger.record_arrival()
            yield from self._store_rows(arrived_rows)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the windows that have ended; with processing time, only at the end of input."""
        if not self._window.uses_processing_time or watermark_us == MAX_WATERMARK_US:
            yield from self._advance_clock(watermark_us)

    def next_tick_us(self) -> int | None:
        """Return the wall-clock time when windows end or the trigger fires."""
        rings, first = self._trigger.next_firing_us(), self._pane_state.find_first_pane()
        if first is None or not self._window.uses_processing_time:
            return rings
        end = find_next_end(self._parts.grid, self._clock.now_us, first)
        due = end if rings is None else min(end, rings)
        return None if due == MAX_WATERMARK_US else due

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        if self._window.uses_processing_time:
            yield from self._advance_clock(now_us)
        if self._trigger.fire_if_due(now_us):
            keeps_rows = self._window.keeps_rows
            yield from self._emit(find_early_windows(self._clock.now_us, keeps_rows=keeps_rows))

    def flush_to_state(self) -> None:
        """Flush buffered rows to the state."""
        self._pane_state.flush()

    @property
    def pending_rows(self) -> int:
        """The number of stored and buffered rows."""
        return self._pane_state.row_count

    def _advance_clock(self, now_us: int) -> Iterator[Output]:
        """Advance the window clock, and emit the windows that are due."""
        before_us, grid = self._clock.now_us, self._parts.grid
        if now_us <= before_us:
            return
        self._clock.now_us = now_us
        first = self._pane_state.find_first_pane()
        if first is None:
            return
        if self._pane_state.should_flush:
            self._pane_state.flush()
        fires, keeps_rows = self._trigger.fires_between(before_us, now_us), self._window.keeps_rows
        due = find_due_windows(grid, first, before_us, now_us, fires=fires, keeps_rows=keeps_rows)
        for each in due:
            if each.rows is not FiringRows.ALL:
                self._drop_closed()  # early results need only open windows
            yield from self._emit(each)
        self._drop_closed()

    def _drop_closed(self) -> None:
        """Forget the panes that no open window needs."""
        closed_us = self._clock.find_closed_pane(self._parts.grid)
        self._pane_state.runs.drop(closed_us)
        if self._parts.dirty_panes is not None:
            self._parts.dirty_panes.drop(closed_us)

    def _store_rows(self, arrived_rows: ArrivedRows) -> Iterator[Output]:
        """Store rows; rows within the allowed lateness change windows that were emitted."""
        import polars as pl

        grid, clock, keeps_rows = self._parts.grid, self._clock, self._window.keeps_rows
        due = find_late_windows(
            grid, arrived_rows.first_pane, clock.closed_end_us, clock.now_us, keeps_rows=keeps_rows
        )
        yield from request_offload(self._pane_state.count_deferred_rows(for_lookup=due is not None))
        rows = arrived_rows.rows
        if due is not None and not keeps_rows:  # ended windows have been emitted and cleared
            rows = rows.filter(grid.last_window_end(pl.col(SLOT)) > clock.now_us)
        if rows.height:
            self._pane_state.add(rows, arrived_rows.first_pane)
        if due is not None:
            late = arrived_rows.rows.filter(grid.first_window_end(pl.col(SLOT)) <= clock.now_us)
            yield from self._emit(due, late)

    def _emit(self, due: DueWindows, late: pl.DataFrame | None = None) -> Iterator[Output]:
        """Emit due windows; `late` are the new rows, if not those since the last firing."""
        return self._parts.results.emit(self._read_windows(due, late))

    def _read_windows(self, due: DueWindows, late: pl.DataFrame | None) -> Iterator[pl.DataFrame]:
        """Read the states of due windows."""
        match due.rows:
            case FiringRows.ALL:
                return self._read_ended(due)
            case FiringRows.CHANGED:
                return self._read_changed(due, late)
            case FiringRows.NEW:
                states = self._take_states() if late is None else self._fold_rows(late)
                if states is None:
                    return iter(())
                return self._parts.expander.expand_windows(states, due.after_us, due.until_us)

    def _read_ended(self, due: DueWindows) -> Iterator[pl.DataFrame]:
        """Read the windows that have ended, and those that have lost all rows since they fired."""
        dirty = self._parts.dirty_panes if self._deletes_windows else None
        if dirty is not None:
            self._pane_state.flush()
            changed = dirty.read()
            if changed is not None:
                states = self._read_keys(changed, NO_CLOCK_US)
                yield from self._read_empty(states, changed, due)
        yield from self._parts.ended_windows.find_ended(due.after_us, due.until_us)

    def _read_changed(self, due: DueWindows, late: pl.DataFrame | None) -> Iterator[pl.DataFrame]:
        """Read the windows with new or removed rows, with all their rows."""
        self._pane_state.flush()
        dirty = self._parts.dirty_panes
        changed = late if dirty is None or late is not None else dirty.take()
        if changed is None:
            return
        changed = changed.select(self._pane_state.group_columns)
        states = self._read_keys(changed, self._clock.find_closed_pane(self._parts.grid))
        if states is not None:
            yield from self._parts.expander.expand_changed(
                states, changed, due.after_us, due.until_us
            )
        if self._deletes_windows:
            yield from self._read_empty(states, changed, due)

    def _read_keys(self, changed: pl.DataFrame, after: int) -> pl.DataFrame | None:
        """Read the panes of the changed keys that end after a time."""
        keys = changed.select(self._pane_state.key).unique()
        return self._pane_state.runs.read_keys(keys, after)

    def _read_empty(
        self, states: pl.DataFrame | None, changed: pl.DataFrame, due: DueWindows
    ) -> Iterator[pl.DataFrame]:
        """Return the windows of changed panes that have no rows, each with an empty list."""
        import polars as pl

        nothing = [
            pl.lit([], dtype=type).alias(name)
            for name, type in self._pane_state.fold.state_columns.items()
        ]
        expander = self._parts.expander
        for empty in expander.find_empty(states, changed, due.after_us, due.until_us):
            if empty.height:
                yield empty.with_columns(nothing)

    def _fold_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        return self._pane_state.fold.begin(rows, self._pane_state.group_columns)

    def _take_states(self) -> pl.DataFrame | None:
        """Remove and return the states of all rows since the last firing."""
        self._pane_state.flush()
        states = self._pane_state.runs.take(MAX_WATERMARK_US)
        self._parts.ended_windows.clear()
        return states


def compute_watermark_delay(window: Window) -> int:
    """Return how much older than the watermark the rows of a window may be."""
    return window.lateness_us if window.has_bounds else UNBOUNDED_DELAY_US
