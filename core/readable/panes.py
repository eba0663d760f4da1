"""Panes of time windows, expanded to the windows that contain them, in batches of limited size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import FOREVER_US
from headrace.core.operators.outgoing import WINDOW_END, WINDOW_START
from headrace.core.operators.windows.grid import Apart, Grid, grid_of
from headrace.core.operators.windows.spread import PIECE_ROWS, expanded
from headrace.core.plan.windows import Window
from headrace.core.state import NO_CLOCK_US, SLOT
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl


PART = "__part"


class Panes:
    """The panes and windows of a step with time windows, or with one global window."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._panes = grid_of(window.shape)
        apart = window.trigger is not None and window.trigger.looks_at_rows
        self._grid: Grid = Apart(self._panes) if apart else self._panes

    @property
    def one_to_one(self) -> bool:
        """Whether each pane is a window."""
        return self._grid.one_to_one

    def windows(
        self, panes: pl.DataFrame, key: Sequence[str], clock_us: int
    ) -> Iterator[pl.DataFrame]:
        """Yield the panes with the ends of their windows, for windows that may still be emitted.

        All rows of a key and window are in one frame.
        """
        import polars as pl

        after = NO_CLOCK_US
        if clock_us != FOREVER_US:
            after = max(clock_us - self._window.lateness_us, NO_CLOCK_US)
        if self._grid.one_to_one:
            yield panes.filter(pl.col(SLOT) > after)
            return
        lowest = self._grid.first(after + 1)
        for part in self._parts(panes, key):
            yield expanded(self._grid, part, lowest, FOREVER_US)

    def bounds(self) -> list[pl.Expr]:
        """Return the start and the end of each window, if it has any."""
        import polars as pl

        if not self._window.bounded:
            return []
        time, end = to_polars(TIMESTAMP), pl.col(SLOT)
        start = self._panes.start(end)
        return [start.cast(time).alias(WINDOW_START), end.cast(time).alias(WINDOW_END)]

    def _parts(self, panes: pl.DataFrame, key: Sequence[str]) -> list[pl.DataFrame]:
        """Split the panes by key, so that each part expands to few enough rows."""
        import polars as pl

        first, last = self._grid.first(pl.col(SLOT)), self._grid.last(pl.col(SLOT))
        each = ((last - first) // self._grid.every_us + 1).sum()
        parts = int(panes.select(each).item()) // PIECE_ROWS + 1
        if parts == 1 or not key:
            return [panes]
        part = (pl.struct(key).hash() % parts).alias(PART)
        return panes.with_columns(part).partition_by(PART, include_key=False)
