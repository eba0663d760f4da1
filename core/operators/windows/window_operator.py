"""The operator of time windows: rows are stored by pane, and emitted when time passes a window.

Its clock is the watermark, or the wall clock for processing-time windows: then a row belongs to the
instant of its arrival. A row is late when all its windows have ended, including their allowed
lateness; late rows are counted, and emitted on their own stream if it is declared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.api.state import SLOT
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Output, request_offload
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
from headrace.core.types.elements import MAX_WATERMARK_US

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
        self._trigger = PeriodicTrigger(window, parts.context.now_us)
        if self._pane_state.find_first_pane() is not None:
            self._trigger.record_arrival()
        self.watermark_delay_us = compute_watermark_delay(window)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Store the rows that are not late."""
        if not frame.height:
            return
        came = self._parts.window_rows.split_late(frame)
        if came.late_rows is not None:
            yield from self._parts.context.emit_late_rows(self._window.late_to, came.late_rows)
        if came.rows.height:
            self._trigger.record_arrival()
            yield from self._store_rows(came)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the windows that have ended; with processing time, only at the end of input."""
        if not self._window.uses_processing_time or watermark_us == MAX_WATERMARK_US:
            yield from self._advance_clock(watermark_us)

    def next_tick_us(self) -> int | None:
        """Return the wall-clock time when windows end or the trigger fires."""
        rings, first = self._trigger.next_firing_us(), self._pane_state.find_first_pane()
        if first is None or not self._window.uses_processing_time:
            return rings
        grid = self._parts.grid
        end = max(grid.first_window_end(self._clock.now_us + 1), grid.first_window_end(first))
        due = end if rings is None else min(end, rings)
        return None if due == MAX_WATERMARK_US else due

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        if self._window.uses_processing_time:
            yield from self._advance_clock(now_us)
        if self._trigger.fire_if_due(now_us):
            yield from self._emit_early()

    def flush_to_state(self) -> None:
        """Flush buffered rows to the state."""
        self._pane_state.flush()

    @property
    def pending_rows(self) -> int:
        """The number of stored and buffered rows."""
        return self._pane_state.row_count

    def _advance_clock(self, now_us: int) -> Iterator[Output]:
        """Advance the window clock, and emit the windows that end."""
        before = self._clock.now_us
        if now_us <= before:
            return
        self._clock.now_us = now_us
        first = self._pane_state.find_first_pane()
        if first is None:
            return
        if self._pane_state.should_flush:
            self._pane_state.flush()
        grid = self._parts.grid
        if max(grid.first_window_end(before + 1), grid.first_window_end(first)) <= now_us:
            yield from self._parts.results.emit(
                self._parts.ended_windows.find_ended(before, now_us)
            )
        closed_us = self._clock.find_closed_pane(grid)
        self._pane_state.runs.drop(closed_us)
        if self._parts.dirty_panes is not None:
            self._parts.dirty_panes.drop(closed_us)
        if self._trigger.fires_between(before, now_us):
            yield from self._emit_early()

    def _store_rows(self, came: ArrivedRows) -> Iterator[Output]:
        """Store rows; rows within the allowed lateness change windows that were emitted."""
        ends = self._parts.grid.first_window_end(came.first_pane)
        in_time = not self._window.lateness_us or ends > self._clock.now_us
        yield from request_offload(self._pane_state.count_deferred_rows(asking=not in_time))
        if in_time:
            self._pane_state.add(came.rows, came.first_pane)
        elif self._window.keeps_rows:
            yield from self._emit_changed(came)
        else:
            yield from self._emit_late_rows(came)

    def _emit_changed(self, came: ArrivedRows) -> Iterator[Output]:
        """Emit the ended windows that have changed again, with all their rows."""
        import polars as pl

        self._pane_state.add(came.rows, came.first_pane)
        now = self._clock.now_us
        late = came.rows.filter(self._parts.grid.first_window_end(pl.col(SLOT)) <= now)
        yield from self._emit_windows(
            late.select(self._pane_state.group_columns), self._clock.closed_end_us, now
        )

    def _emit_late_rows(self, came: ArrivedRows) -> Iterator[Output]:
        """Emit results of late rows alone: their windows have been emitted and cleared."""
        import polars as pl

        now, grid, slot = self._clock.now_us, self._parts.grid, pl.col(SLOT)
        late = self._pane_state.fold.begin(
            came.rows.filter(grid.first_window_end(slot) <= now), self._pane_state.group_columns
        )
        open_rows = came.rows.filter(grid.last_window_end(slot) > now)
        if open_rows.height:
            self._pane_state.add(open_rows, came.first_pane)
        windows = self._parts.expander.expand_windows(late, self._clock.closed_end_us, now)
        yield from self._parts.results.emit(windows)

    def _emit_early(self) -> Iterator[Output]:
        """Emit windows that have not ended: the changed ones, or all."""
        self._pane_state.flush()
        now = self._clock.now_us
        if self._parts.dirty_panes is not None:
            changed = self._parts.dirty_panes.take()
            if changed is not None:
                yield from self._emit_windows(changed, now, MAX_WATERMARK_US)
            return
        states = self._pane_state.runs.take(MAX_WATERMARK_US)
        self._parts.ended_windows.clear()
        if states is not None:
            windows = self._parts.expander.expand_windows(states, now, MAX_WATERMARK_US)
            yield from self._parts.results.emit(windows)

    def _emit_windows(self, changed: pl.DataFrame, after: int, until: int) -> Iterator[Output]:
        """Emit the windows in this range of these keys and panes, with all their rows."""
        self._pane_state.flush()
        keys = changed.select(self._pane_state.key).unique()
        states = self._pane_state.runs.read_keys(
            keys, self._clock.find_closed_pane(self._parts.grid)
        )
        if states is not None:
            windows = self._parts.expander.expand_changed(states, changed, after, until)
            yield from self._parts.results.emit(windows)


def compute_watermark_delay(window: Window) -> int:
    """Return how much older than the watermark the rows of a window may be."""
    return window.lateness_us if window.has_bounds else UNBOUNDED_DELAY_US
