"""The results of windows that fire: merged states become rows with the times of their window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME
from headrace.core.frames import add_columns, concat_chunks, sort_by_column
from headrace.core.operators.folds import Fold
from headrace.core.operators.grouping import GroupingKey
from headrace.core.operators.operator import MAX_OUTPUT_ROWS, Output
from headrace.core.operators.outgoing import WINDOW_END, WINDOW_START, ResultRows
from headrace.core.operators.windows.grid import Grid
from headrace.core.plan import nodes
from headrace.core.state import SLOT
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

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
