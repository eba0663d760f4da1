"""The operator of time windows: rows are stored by pane, and emitted when time passes a window.

Its clock is the watermark, or the wall clock for processing-time windows: then a row belongs to the
instant of its arrival. A row is late when all its windows have ended, including their allowed
lateness; late rows are counted, and emitted on their own stream if it is declared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.elements import FOREVER_US
from headrace.core.operators.operator import Output, aside
from headrace.core.operators.place import Place
from headrace.core.operators.windows.due import Due
from headrace.core.operators.windows.filing import Filed
from headrace.core.operators.windows.grid import Grid
from headrace.core.operators.windows.results import Results
from headrace.core.operators.windows.rows import Arrived, Clock, Rows
from headrace.core.operators.windows.spread import Spread
from headrace.core.operators.windows.triggers import Changed, Rings
from headrace.core.plan.windows import Window
from headrace.core.state import SLOT

if TYPE_CHECKING:
    import polars as pl

AGES_US = 1 << 62
"""Rows of unbounded windows may have any event time, so the watermark is held back."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The components of a window operator."""

    window: Window
    grid: Grid
    clock: Clock
    rows: Rows
    filed: Filed
    spread: Spread
    due: Due
    results: Results
    place: Place
    changed: Changed | None


class Windows:
    """Windows that fire as time advances: at their end, again for late rows, periodically."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        window = parts.window
        self._window = window
        self._clock = parts.clock
        self._pane_state = parts.filed
        self._trigger = Rings(window, parts.place.now_us)
        if self._pane_state.first() is not None:
            self._trigger.came()
        self.behind_us = behind_us(window)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Store the rows that are not late."""
        if not frame.height:
            return
        came = self._parts.rows.arrived(frame)
        if came.late is not None:
            yield from self._parts.place.left_out(self._window.late_to, came.late)
        if came.rows.height:
            self._trigger.came()
            yield from self._file(came)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the windows that have ended; with processing time, only at the end of input."""
        if not self._window.processing or watermark_us == FOREVER_US:
            yield from self._reach(watermark_us)

    def due_us(self) -> int | None:
        """Return the wall-clock time when windows end or the trigger fires."""
        rings, first = self._trigger.due_us(), self._pane_state.first()
        if first is None or not self._window.processing:
            return rings
        grid = self._parts.grid
        end = max(grid.first(self._clock.us + 1), grid.first(first))
        due = end if rings is None else min(end, rings)
        return None if due == FOREVER_US else due

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        if self._window.processing:
            yield from self._reach(now_us)
        if self._trigger.rings(now_us):
            yield from self._early()

    def settle(self) -> None:
        """Flush buffered rows to the state."""
        self._pane_state.settle()

    @property
    def held(self) -> int:
        """The number of stored and buffered rows."""
        return self._pane_state.rows

    def _reach(self, now_us: int) -> Iterator[Output]:
        """Advance the window clock, and emit the windows that end."""
        before = self._clock.us
        if now_us <= before:
            return
        self._clock.us = now_us
        first = self._pane_state.first()
        if first is None:
            return
        if self._pane_state.many:
            self._pane_state.settle()
        grid = self._parts.grid
        if max(grid.first(before + 1), grid.first(first)) <= now_us:
            yield from self._parts.results.rows(self._parts.due.between(before, now_us))
        closed_us = self._clock.closed_us(grid)
        self._pane_state.runs.drop(closed_us)
        if self._parts.changed is not None:
            self._parts.changed.drop(closed_us)
        if self._trigger.passes(before, now_us):
            yield from self._early()

    def _file(self, came: Arrived) -> Iterator[Output]:
        """Store rows; rows within the allowed lateness change windows that were emitted."""
        ends = self._parts.grid.first(came.least)
        in_time = not self._window.lateness_us or ends > self._clock.us
        yield from aside(self._pane_state.owed(asking=not in_time))
        if in_time:
            self._pane_state.add(came.rows, came.least)
        elif self._window.accumulate:
            yield from self._again(came)
        else:
            yield from self._besides(came)

    def _again(self, came: Arrived) -> Iterator[Output]:
        """Emit the ended windows that have changed again, with all their rows."""
        import polars as pl

        self._pane_state.add(came.rows, came.least)
        now = self._clock.us
        late = came.rows.filter(self._parts.grid.first(pl.col(SLOT)) <= now)
        yield from self._whole(late.select(self._pane_state.by), self._clock.over_us, now)

    def _besides(self, came: Arrived) -> Iterator[Output]:
        """Emit results of late rows alone: their windows have been emitted and cleared."""
        import polars as pl

        now, grid, slot = self._clock.us, self._parts.grid, pl.col(SLOT)
        late = self._pane_state.fold.begin(
            came.rows.filter(grid.first(slot) <= now), self._pane_state.by
        )
        open_rows = came.rows.filter(grid.last(slot) > now)
        if open_rows.height:
            self._pane_state.add(open_rows, came.least)
        windows = self._parts.spread.windows(late, self._clock.over_us, now)
        yield from self._parts.results.rows(windows)

    def _early(self) -> Iterator[Output]:
        """Emit windows that have not ended: the changed ones, or all."""
        self._pane_state.settle()
        now = self._clock.us
        if self._parts.changed is not None:
            changed = self._parts.changed.taken()
            if changed is not None:
                yield from self._whole(changed, now, FOREVER_US)
            return
        states = self._pane_state.runs.take(FOREVER_US)
        self._parts.due.clear()
        if states is not None:
            windows = self._parts.spread.windows(states, now, FOREVER_US)
            yield from self._parts.results.rows(windows)

    def _whole(self, changed: pl.DataFrame, after: int, until: int) -> Iterator[Output]:
        """Emit the windows in this range of these keys and panes, with all their rows."""
        self._pane_state.settle()
        keys = changed.select(self._pane_state.key).unique()
        states = self._pane_state.runs.of_keys(keys, self._clock.closed_us(self._parts.grid))
        if states is not None:
            windows = self._parts.spread.changed(states, changed, after, until)
            yield from self._parts.results.rows(windows)


def behind_us(window: Window) -> int:
    """Return how much older than the watermark the rows of a window may be."""
    return window.lateness_us if window.bounded else AGES_US
