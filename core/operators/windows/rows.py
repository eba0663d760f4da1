"""The rows that arrive at a window operator: their key and pane, without late ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, MAX_WATERMARK_US
from headrace.core.operators.folds import ROW_TIME, Fold
from headrace.core.operators.grouping import GroupingKey
from headrace.core.operators.place import KeyedContext
from headrace.core.operators.windows.grid import Grid
from headrace.core.plan.windows import Window
from headrace.core.state import NO_CLOCK_US, SLOT
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl


class WindowClock:
    """The clock by which windows fire: the watermark or the wall clock; it never goes back."""

    def __init__(self, window: Window, place: KeyedContext) -> None:
        self._lateness_us = window.lateness_us
        self._processing = window.uses_processing_time
        self._context = place

    @property
    def now_us(self) -> int:
        """The current time."""
        return self._context.state.clock_us

    @now_us.setter
    def now_us(self, now_us: int) -> None:
        self._context.state.clock_us = now_us

    @property
    def closed_end_us(self) -> int:
        """The end up to which windows take no more rows."""
        return max(self.now_us - self._lateness_us, NO_CLOCK_US)

    def find_closed_pane(self, grid: Grid) -> int:
        """Return the last pane of a grid that no open window needs."""
        if self.now_us == MAX_WATERMARK_US:
            return MAX_WATERMARK_US
        closed = grid.window_start(grid.first_window_end(self.closed_end_us + 1))
        return max(closed, NO_CLOCK_US)

    def get_row_times(self, frame: pl.DataFrame) -> pl.Expr:
        """Return the event time of the rows, or their arrival time (microseconds)."""
        import polars as pl

        if self._processing:
            now_us = self._context.now_us()
            self.now_us = now_us if self.now_us == NO_CLOCK_US else self.now_us
            return pl.repeat(max(now_us, self.now_us), pl.len(), dtype=pl.Int64)
        if EVENT_TIME in frame.columns:
            return pl.col(EVENT_TIME).cast(pl.Int64)
        return pl.repeat(0, pl.len(), dtype=pl.Int64)


@dataclass(frozen=True, slots=True)
class ArrivedRows:
    """Rows to store, with the first pane among them, and late rows as they arrived."""

    rows: pl.DataFrame
    first_pane: int
    late_rows: pl.DataFrame | None


class WindowRows:
    """The projection of input rows to the columns that are stored."""

    def __init__(self, grid: Grid, clock: WindowClock, grouping: GroupingKey, fold: Fold) -> None:
        self._grid = grid
        self._clock = clock
        self._grouping = grouping
        self._input_columns = fold.input_columns - {ROW_TIME}
        self._needs_time = ROW_TIME in fold.input_columns

    def split_late(self, frame: pl.DataFrame) -> ArrivedRows:
        """Split a batch into rows to store and late rows."""
        import polars as pl

        rows = self._project_rows(frame)
        if self._grid.has_gaps:
            inside = rows.select(
                self._grid.last_window_end(pl.col(SLOT)) >= pl.col(SLOT)
            ).to_series()
            frame, rows = frame.filter(inside), rows.filter(inside)
        least, closed = _find_first_pane(rows), self._clock.find_closed_pane(self._grid)
        if least > closed:
            return ArrivedRows(rows, least, None)
        late = rows[SLOT] <= closed
        rows = rows.filter(~late)
        return ArrivedRows(rows, _find_first_pane(rows), frame.filter(late))

    def _project_rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        time = self._clock.get_row_times(frame)
        more = [self._grid.pane_end(time).alias(SLOT)]
        if self._needs_time:
            more.append(time.alias(ROW_TIME))
        reads = self._input_columns
        if EVENT_TIME in reads and EVENT_TIME not in frame.columns:
            reads -= {EVENT_TIME}
            more.append(pl.repeat(None, pl.len(), dtype=to_polars(TIMESTAMP)).alias(EVENT_TIME))
        return self._grouping.project_columns(frame, reads, *more)


def _find_first_pane(rows: pl.DataFrame) -> int:
    return int(rows[SLOT].min()) if rows.height else MAX_WATERMARK_US  # type: ignore[arg-type]
