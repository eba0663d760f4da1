"""The rows that arrive at a window operator: their key and pane, without late ones.

The results of windows that fire: merged states become rows with the times of their window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from headrace.core.api.state import NO_CLOCK_US, SLOT
from headrace.core.operators.folds import ROW_TIME, Fold
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import MAX_OUTPUT_ROWS, Output
from headrace.core.operators.result_rows import WINDOW_END, WINDOW_START, ResultRows
from headrace.core.operators.windows.grid import Grid
from headrace.core.plan import nodes
from headrace.core.plan.nodes.windows import Window
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US
from headrace.core.types.frames import add_columns, concat_chunks, sort_by_column
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


class WindowClock:
    """The clock by which windows fire: the watermark or the wall clock; it never goes back."""

    def __init__(self, window: Window, context: KeyedContext) -> None:
        self._lateness_us = window.lateness_us
        self._processing = window.uses_processing_time
        self._context = context

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


MIN_RESULT_ROWS = 8192
"""The number of rows below which windows are finished together with others."""


class WindowResults:
    """The emitter of window results; SLOT is the end of each window.

    Windows without bounds have the event time that their fold computed.
    """

    def __init__(
        self,
        operation: nodes.WindowedOperation,
        grid: Grid,
        grouping: GroupingKey,
        fold: Fold,
        out: ResultRows,
    ) -> None:
        self._fold = fold
        self._out = out
        self._times = _build_time_columns(operation, grid)
        self._has_fold_time = operation.window is not None and not operation.window.has_bounds
        self._group_columns = (*grouping.internal_names, *self._times)

    def emit(self, windows: Iterable[pl.DataFrame]) -> Iterator[Output]:
        """Emit the rows of these windows in the order of their ends, in bounded batches."""
        for states in _combine_frames(windows):
            states = sort_by_column(states, SLOT)
            for start in range(0, states.height, MAX_OUTPUT_ROWS):
                yield from self._emit_chunk(states.slice(start, MAX_OUTPUT_ROWS))

    def emit_in_order(self, firings: Iterable[pl.DataFrame]) -> Iterator[Output]:
        """Emit the rows of these firings in their order, in bounded batches."""
        for states in firings:
            for start in range(0, states.height, MAX_OUTPUT_ROWS):
                yield from self._emit_chunk(states.slice(start, MAX_OUTPUT_ROWS))

    def _emit_chunk(self, states: pl.DataFrame) -> Iterator[Output]:
        if self._times:
            states = add_columns(states, *self._times.values())
        rows = self._fold.finish(states, self._group_columns)
        if self._has_fold_time and rows[EVENT_TIME].null_count():
            rows = rows.drop(EVENT_TIME)  # the rows that came had none
        yield from self._out.emit(rows)


def _combine_frames(windows: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Combine small frames into larger ones: finishing a frame takes several calls."""
    waiting: list[pl.DataFrame] = []
    for states in windows:
        waiting.append(states)
        if sum(frame.height for frame in waiting) >= MIN_RESULT_ROWS:
            yield concat_chunks(waiting)
            waiting = []
    if waiting:
        yield concat_chunks(waiting)


def _build_time_columns(operation: nodes.WindowedOperation, grid: Grid) -> dict[str, pl.Expr]:
    """Return the event time of a window's rows, its last instant, and its bounds, if shown.

    With processing time, rows have no event time. The rows of `top` have their own columns, which
    may even be named like the bounds.
    """
    import polars as pl

    window = operation.window
    assert window is not None
    if not window.has_bounds:
        return {}
    time, end = to_polars(TIMESTAMP), pl.col(SLOT)
    last = (
        {} if window.uses_processing_time else {EVENT_TIME: (end - 1).cast(time).alias(EVENT_TIME)}
    )
    if isinstance(operation, nodes.Top):
        return last
    bounds = ((WINDOW_START, grid.window_start(end)), (WINDOW_END, end))
    return {**{name: at.cast(time).alias(name) for name, at in bounds}, **last}
