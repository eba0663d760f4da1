"""The expansion of panes to windows: a state is copied into each window of its pane, and merged.

Windows are built in chunks of a bounded number of rows, so that neither many windows nor large ones
make a huge frame; only windows with rows are considered, however far apart they are. A window of
many rows is merged on its own, which saves copying its rows; small ones are merged together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.api.state import SLOT
from headrace.core.operators.windows.grid import Grid
from headrace.core.operators.windows.pane_state import PaneState
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.frames import count_up_to, sort_by_column
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

CHUNK_ROWS = 262_144
"""The approximate number of rows merged at once."""
SINGLE_WINDOW_ROWS = 4096
"""The number of rows above which a window is merged on its own."""
CHUNK_WINDOWS = 65_536
"""The maximal number of windows considered at once."""
MAX_STRETCH_US = 1 << 60
"""Longer than any stretch of time that has rows."""
CALL_COST_ROWS = 20_000
"""The fixed cost of merging from window to window, in rows merged in the same time."""


@dataclass(slots=True)
class MergeCost:
    """The sizes of the last windows, and whether merging from one to the next would be faster.

    That takes a handful of calls per window, and several merges of a row per key.
    """

    is_dense: bool = False

    def record(self, windows: int, read: int, made: int) -> None:
        """Record that `read` rows were merged to `made` rows, for this many windows."""
        bound = windows * CALL_COST_ROWS + 10 * made
        self.is_dense = read > (bound // 2 if self.is_dense else bound)


@dataclass(frozen=True, slots=True)
class PaneExpander:
    """The expander of pane states; `SLOT`, the end of a pane, becomes the end of a window."""

    grid: Grid
    pane_state: PaneState

    def expand_windows(
        self, panes: pl.DataFrame, after: int, until: int, cost: MergeCost | None = None
    ) -> Iterator[pl.DataFrame]:
        """Return the windows that end after the first time and up to the second, oldest first."""
        if self.grid.is_one_to_one:
            yield from self._merge_single(panes, after, until)
            return
        panes = sort_by_column(panes, SLOT)
        for first, last, count, rows in split_windows(self.grid, panes[SLOT], after, until):
            part = slice_panes(panes, self.grid.window_start(first), last)
            alone = first == last
            states = (
                self.pane_state.merge_window(part, last)
                if alone
                else self.pane_state.merge_panes(expand_panes(self.grid, part, first, last))
            )
            if cost is not None:
                cost.record(count, rows, states.height)
            yield states

    def expand_changed(
        self, panes: pl.DataFrame, changed: pl.DataFrame, after: int, until: int
    ) -> Iterator[pl.DataFrame]:
        """Return those of these windows that contain one of the changed keys and panes."""
        on = self.pane_state.group_columns
        if self.grid.is_one_to_one:
            yield from self._merge_single(
                panes.join(changed, on=on, how="semi", nulls_equal=True), after, until
            )
            return
        panes, changed = sort_by_column(panes, SLOT), sort_by_column(changed.unique(), SLOT)
        for first, last, _, _ in split_windows(self.grid, panes[SLOT], after, until):
            start = self.grid.window_start(first)
            wanted = expand_panes(self.grid, slice_panes(changed, start, last), first, last)
            if wanted.height:
                spread = expand_panes(self.grid, slice_panes(panes, start, last), first, last)
                yield self.pane_state.merge_panes(
                    spread.join(wanted, on=on, how="semi", nulls_equal=True)
                )

    def find_empty(
        self, panes: pl.DataFrame | None, changed: pl.DataFrame, after: int, until: int
    ) -> Iterator[pl.DataFrame]:
        """Return those windows of the changed keys and panes that contain none of these panes."""
        import polars as pl

        on = [*self.pane_state.group_columns]
        changed = sort_by_column(changed.unique(), SLOT)
        there = changed.clear() if panes is None else self.pane_state.merge_panes(panes)[on]
        there = sort_by_column(there, SLOT)
        if self.grid.is_one_to_one:
            wanted = changed.filter(pl.col(SLOT).is_between(after, until, closed="right"))
            yield wanted.join(there, on=on, how="anti", nulls_equal=True)
            return
        for first, last, _, _ in split_windows(self.grid, changed[SLOT], after, until):
            start = self.grid.window_start(first)
            wanted, full = (
                expand_panes(self.grid, slice_panes(each, start, last), first, last)
                for each in (changed, there)
            )
            yield wanted.unique().join(full, on=on, how="anti", nulls_equal=True)

    def _merge_single(self, panes: pl.DataFrame, after: int, until: int) -> Iterator[pl.DataFrame]:
        import polars as pl

        panes = panes.filter(pl.col(SLOT).is_between(after, until, closed="right"))
        if panes.height:
            yield self.pane_state.merge_panes(panes)


def split_windows(
    grid: Grid, slots: pl.Series, after: int, until: int
) -> Iterator[tuple[int, int, int, int]]:
    """Return chunks of the windows that end after the first time and up to the second.

    The panes are sorted. A chunk is its first and last window, and its numbers of windows and rows.
    """
    import polars as pl

    for ends in _find_window_ends(grid, slots.unique(maintain_order=True), after, until):
        starts = pl.select(grid.window_start(pl.lit(ends))).to_series()
        rows = _count_until(slots, ends) - _count_until(slots, starts)
        alone = rows > SINGLE_WINDOW_ROWS
        cuts = (alone | alone.shift(1, fill_value=False)).cast(pl.Int64)
        of = cuts.cum_sum() + rows.cum_sum() // CHUNK_ROWS
        end, piece = pl.col("end"), pl.DataFrame({"end": ends, "rows": rows, "of": of})
        bounds = piece.group_by("of").agg(
            end.min(), end.max().alias("last"), end.len().alias("count"), pl.col("rows").sum()
        )
        yield from bounds.sort("end").drop("of").iter_rows()


def _find_window_ends(grid: Grid, slots: pl.Series, after: int, until: int) -> Iterator[pl.Series]:
    """Return the ends of the windows that contain one of these panes, in bounded series."""
    import polars as pl

    every = grid.every_us
    first, last = pl.col("first"), pl.col("last")
    reach = slots.to_frame().select(
        grid.first_window_end(pl.col(SLOT))
        .clip(lower_bound=grid.first_window_end(after + 1))
        .alias("first"),
        grid.last_window_end(pl.col(SLOT)).clip(upper_bound=until).alias("last"),
    )
    # Both increase from pane to pane: windows reached by the previous pane are skipped.
    reached = last.shift() - (last.shift() - first) % every
    reach = reach.filter(first <= last).with_columns(pl.max_horizontal(first, reached + every))
    stretch = every * max(1, min(CHUNK_WINDOWS, MAX_STRETCH_US // every))
    reach = reach.filter(first <= last)
    reach = reach.with_columns(pl.int_ranges(first, last + 1, stretch)).explode("first")
    reach = reach.with_columns(pl.min_horizontal(last, first + (stretch - every)))
    many = ((last - first) // every + 1).cum_sum() // CHUNK_WINDOWS
    for piece in reach.with_columns(many.alias("of")).partition_by("of", maintain_order=True):
        yield piece.select(pl.int_ranges(first, last + 1, every).explode()).to_series()


def expand_panes(grid: Grid, panes: pl.DataFrame, lowest: int, highest: int) -> pl.DataFrame:
    """Repeat each row for each window between these ends that contains its pane."""
    import polars as pl

    first = grid.first_window_end(pl.col(SLOT)).clip(lower_bound=lowest)
    last = grid.last_window_end(pl.col(SLOT)).clip(upper_bound=highest)
    ends = pl.int_ranges(first, last + 1, grid.every_us)
    return panes.with_columns(ends.alias(SLOT)).explode(SLOT, empty_as_null=False)


def expand_rows(grid: Grid, rows: pl.DataFrame, closed_us: int) -> Iterator[pl.DataFrame]:
    """Repeat rows for each of their windows that end after a time, in chunks of bounded size."""
    import polars as pl

    pane = pl.col(SLOT)
    if grid.is_one_to_one:
        yield rows
        return
    windows = (grid.last_window_end(pane) - grid.first_window_end(pane)) // grid.every_us + 1
    max_windows = int(rows.select(windows.max()).item())
    lowest = grid.first_window_end(closed_us + 1)
    for part in rows.iter_slices(max(1, CHUNK_ROWS // max_windows)):
        yield expand_panes(grid, part, lowest, MAX_WATERMARK_US)


def _count_until(slots: pl.Series, until: pl.Series) -> pl.Series:
    """Return the number of sorted panes up to each of these."""
    import polars as pl

    return slots.search_sorted(until, "right").cast(pl.Int64)


def slice_panes(panes: pl.DataFrame, after: int, until: int) -> pl.DataFrame:
    """Return the rows of sorted panes after the first and up to the second."""
    start, end = count_up_to(panes[SLOT], after), count_up_to(panes[SLOT], until)
    return panes.slice(start, end - start)
