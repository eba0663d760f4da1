"""Panes of time windows, expanded to the windows that contain them, in batches of limited size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.api.state import NO_CLOCK_US, SLOT
from headrace.core.operators.result_rows import WINDOW_END, WINDOW_START
from headrace.core.operators.windows.grid import Grid, SeparateGrid, build_grid
from headrace.core.operators.windows.pane_expander import CHUNK_ROWS, expand_panes
from headrace.core.plan.nodes.windows import Window
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import MAX_WATERMARK_US

if TYPE_CHECKING:
    import polars as pl


PART = "__part"


class PaneReader:
    """The panes and windows of a step with time windows, or with one global window."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._panes = build_grid(window.shape)
        apart = window.trigger is not None and window.trigger.depends_on_rows
        self._grid: Grid = SeparateGrid(self._panes) if apart else self._panes

    @property
    def is_one_to_one(self) -> bool:
        """Whether each pane is a window."""
        return self._grid.is_one_to_one

    def expand_windows(
        self, panes: pl.DataFrame, key: Sequence[str], clock_us: int
    ) -> Iterator[pl.DataFrame]:
        """Yield the panes with the ends of their windows, for windows that may still be emitted.

        All rows of a key and window are in one frame.
        """
        import polars as pl

        after = NO_CLOCK_US
        if clock_us != MAX_WATERMARK_US:
            after = max(clock_us - self._window.lateness_us, NO_CLOCK_US)
        if self._grid.is_one_to_one:
            yield panes.filter(pl.col(SLOT) > after)
            return
        lowest = self._grid.first_window_end(after + 1)
        for part in self._split_by_key(panes, key):
            yield expand_panes(self._grid, part, lowest, MAX_WATERMARK_US)

    def build_bounds(self) -> list[pl.Expr]:
        """Return the start and the end of each window, if it has any."""
        import polars as pl

        if not self._window.has_bounds:
            return []
        time, end = to_polars(TIMESTAMP), pl.col(SLOT)
        start = self._panes.window_start(end)
        return [start.cast(time).alias(WINDOW_START), end.cast(time).alias(WINDOW_END)]

    def _split_by_key(self, panes: pl.DataFrame, key: Sequence[str]) -> list[pl.DataFrame]:
        """Split the panes by key, so that each part expands to few enough rows."""
        import polars as pl

        first, last = (
            self._grid.first_window_end(pl.col(SLOT)),
            self._grid.last_window_end(pl.col(SLOT)),
        )
        each = ((last - first) // self._grid.every_us + 1).sum()
        parts = int(panes.select(each).item()) // CHUNK_ROWS + 1
        if parts == 1 or not key:
            return [panes]
        part = (pl.struct(key).hash() % parts).alias(PART)
        return panes.with_columns(part).partition_by(PART, include_key=False)
