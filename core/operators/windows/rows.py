"""The rows that arrive at a window operator: their key and pane, without late ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, FOREVER_US
from headrace.core.operators.folds import AT, Fold
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.place import Place
from headrace.core.operators.windows.grid import Grid
from headrace.core.plan.windows import Window
from headrace.core.state import NO_CLOCK_US, SLOT
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl


class Clock:
    """The clock by which windows fire: the watermark or the wall clock; it never goes back."""

    def __init__(self, window: Window, place: Place) -> None:
        self._lateness_us = window.lateness_us
        self._processing = window.processing
        self._context = place

    @property
    def us(self) -> int:
        """The current time."""
        return self._context.state.clock_us

    @us.setter
    def us(self, now_us: int) -> None:
        self._context.state.clock_us = now_us

    @property
    def over_us(self) -> int:
        """The end up to which windows take no more rows."""
        return max(self.us - self._lateness_us, NO_CLOCK_US)

    def closed_us(self, grid: Grid) -> int:
        """Return the last pane of a grid that no open window needs."""
        if self.us == FOREVER_US:
            return FOREVER_US
        closed = grid.start(grid.first(self.over_us + 1))
        return max(closed, NO_CLOCK_US)

    def time(self, frame: pl.DataFrame) -> pl.Expr:
        """Return the event time of the rows, or their arrival time (microseconds)."""
        import polars as pl

        if self._processing:
            now_us = self._context.now_us()
            self.us = now_us if self.us == NO_CLOCK_US else self.us
            return pl.repeat(max(now_us, self.us), pl.len(), dtype=pl.Int64)
        if EVENT_TIME in frame.columns:
            return pl.col(EVENT_TIME).cast(pl.Int64)
        return pl.repeat(0, pl.len(), dtype=pl.Int64)


@dataclass(frozen=True, slots=True)
class Arrived:
    """Rows to store, with the first pane among them, and late rows as they arrived."""

    rows: pl.DataFrame
    least: int
    late: pl.DataFrame | None


class Rows:
    """The projection of input rows to the columns that are stored."""

    def __init__(self, grid: Grid, clock: Clock, grouping: Grouping, fold: Fold) -> None:
        self._grid = grid
        self._clock = clock
        self._grouping = grouping
        self._input_columns = fold.reads - {AT}
        self._needs_time = AT in fold.reads

    def arrived(self, frame: pl.DataFrame) -> Arrived:
        """Split a batch into rows to store and late rows."""
        import polars as pl

        rows = self._projected(frame)
        if self._grid.gaps:
            inside = rows.select(self._grid.last(pl.col(SLOT)) >= pl.col(SLOT)).to_series()
            frame, rows = frame.filter(inside), rows.filter(inside)
        least, closed = _least(rows), self._clock.closed_us(self._grid)
        if least > closed:
            return Arrived(rows, least, None)
        late = rows[SLOT] <= closed
        rows = rows.filter(~late)
        return Arrived(rows, _least(rows), frame.filter(late))

    def _projected(self, frame: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        time = self._clock.time(frame)
        more = [self._grid.pane(time).alias(SLOT)]
        if self._needs_time:
            more.append(time.alias(AT))
        reads = self._input_columns
        if EVENT_TIME in reads and EVENT_TIME not in frame.columns:
            reads -= {EVENT_TIME}
            more.append(pl.repeat(None, pl.len(), dtype=to_polars(TIMESTAMP)).alias(EVENT_TIME))
        return self._grouping.picked(frame, reads, *more)


def _least(rows: pl.DataFrame) -> int:
    return int(rows[SLOT].min()) if rows.height else FOREVER_US  # type: ignore[arg-type]
