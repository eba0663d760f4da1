"""The expansion of panes to windows: a state is copied into each window of its pane, and merged.

Windows are built in chunks of a bounded number of rows, so that neither many windows nor large ones
make a huge frame; only windows with rows are considered, however far apart they are. A window of
many rows is merged on its own, which saves copying its rows; small ones are merged together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.frames import sorted_by, up_to
from headrace.core.operators.windows.filing import Filed
from headrace.core.operators.windows.grid import Grid
from headrace.core.state import SLOT

if TYPE_CHECKING:
    import polars as pl

PIECE_ROWS = 262_144
"""The approximate number of rows merged at once."""
ALONE_ROWS = 4096
"""The number of rows above which a window is merged on its own."""
PIECE_WINDOWS = 65_536
"""The maximal number of windows considered at once."""
FAR_US = 1 << 60
"""Longer than any stretch of time that has rows."""
CALL_ROWS = 20_000
"""The fixed cost of merging from window to window, in rows merged in the same time."""


@dataclass(slots=True)
class Cost:
    """The sizes of the last windows, and whether merging from one to the next would be faster.

    That takes a handful of calls per window, and several merges of a row per key.
    """

    dense: bool = False

    def add(self, windows: int, read: int, made: int) -> None:
        """Record that `read` rows were merged to `made` rows, for this many windows."""
        bound = windows * CALL_ROWS + 10 * made
        self.dense = read > (bound // 2 if self.dense else bound)


@dataclass(frozen=True, slots=True)
class Spread:
    """The expander of pane states; `SLOT`, the end of a pane, becomes the end of a window."""

    grid: Grid
    filed: Filed

    def windows(
        self, panes: pl.DataFrame, after: int, until: int, cost: Cost | None = None
    ) -> Iterator[pl.DataFrame]:
        """Return the windows that end after the first time and up to the second, oldest first."""
        if self.grid.one_to_one:
            yield from self._same(panes, after, until)
            return
        panes = sorted_by(panes, SLOT)
        for first, last, count, rows in pieces(self.grid, panes[SLOT], after, until):
            part = between(panes, self.grid.start(first), last)
            alone = first == last
            states = (
                self.filed.window(part, last)
                if alone
                else self.filed.merged(expanded(self.grid, part, first, last))
            )
            if cost is not None:
                cost.add(count, rows, states.height)
            yield states

    def changed(
        self, panes: pl.DataFrame, changed: pl.DataFrame, after: int, until: int
    ) -> Iterator[pl.DataFrame]:
        """Return those of these windows that contain one of the changed keys and panes."""
        on = self.filed.by
        if self.grid.one_to_one:
            yield from self._same(
                panes.join(changed, on=on, how="semi", nulls_equal=True), after, until
            )
            return
        panes, changed = sorted_by(panes, SLOT), sorted_by(changed.unique(), SLOT)
        for first, last, _, _ in pieces(self.grid, panes[SLOT], after, until):
            start = self.grid.start(first)
            wanted = expanded(self.grid, between(changed, start, last), first, last)
            if wanted.height:
                spread = expanded(self.grid, between(panes, start, last), first, last)
                yield self.filed.merged(spread.join(wanted, on=on, how="semi", nulls_equal=True))

    def _same(self, panes: pl.DataFrame, after: int, until: int) -> Iterator[pl.DataFrame]:
        import polars as pl

        panes = panes.filter(pl.col(SLOT).is_between(after, until, closed="right"))
        if panes.height:
            yield self.filed.merged(panes)


def pieces(
    grid: Grid, slots: pl.Series, after: int, until: int
) -> Iterator[tuple[int, int, int, int]]:
    """Return chunks of the windows that end after the first time and up to the second.

    The panes are sorted. A chunk is its first and last window, and its numbers of windows and rows.
    """
    import polars as pl

    for ends in _with_rows(grid, slots.unique(maintain_order=True), after, until):
        starts = pl.select(grid.start(pl.lit(ends))).to_series()
        rows = _count(slots, ends) - _count(slots, starts)
        alone = rows > ALONE_ROWS
        cuts = (alone | alone.shift(1, fill_value=False)).cast(pl.Int64)
        of = cuts.cum_sum() + rows.cum_sum() // PIECE_ROWS
        end, piece = pl.col("end"), pl.DataFrame({"end": ends, "rows": rows, "of": of})
        bounds = piece.group_by("of").agg(
            end.min(), end.max().alias("last"), end.len().alias("count"), pl.col("rows").sum()
        )
        yield from bounds.sort("end").drop("of").iter_rows()


def _with_rows(grid: Grid, slots: pl.Series, after: int, until: int) -> Iterator[pl.Series]:
    """Return the ends of the windows that contain one of these panes, in bounded series."""
    import polars as pl

    every = grid.every_us
    first, last = pl.col("first"), pl.col("last")
    reach = slots.to_frame().select(
        grid.first(pl.col(SLOT)).clip(lower_bound=grid.first(after + 1)).alias("first"),
        grid.last(pl.col(SLOT)).clip(upper_bound=until).alias("last"),
    )
    # Both increase from pane to pane: windows reached by the previous pane are skipped.
    reached = last.shift() - (last.shift() - first) % every
    reach = reach.filter(first <= last).with_columns(pl.max_horizontal(first, reached + every))
    stretch = every * max(1, min(PIECE_WINDOWS, FAR_US // every))
    reach = reach.filter(first <= last)
    reach = reach.with_columns(pl.int_ranges(first, last + 1, stretch)).explode("first")
    reach = reach.with_columns(pl.min_horizontal(last, first + (stretch - every)))
    many = ((last - first) // every + 1).cum_sum() // PIECE_WINDOWS
    for piece in reach.with_columns(many.alias("of")).partition_by("of", maintain_order=True):
        yield piece.select(pl.int_ranges(first, last + 1, every).explode()).to_series()


def expanded(grid: Grid, panes: pl.DataFrame, lowest: int, highest: int) -> pl.DataFrame:
    """Repeat each row for each window between these ends that contains its pane."""
    import polars as pl

    first = grid.first(pl.col(SLOT)).clip(lower_bound=lowest)
    last = grid.last(pl.col(SLOT)).clip(upper_bound=highest)
    ends = pl.int_ranges(first, last + 1, grid.every_us)
    return panes.with_columns(ends.alias(SLOT)).explode(SLOT, empty_as_null=False)


def _count(slots: pl.Series, until: pl.Series) -> pl.Series:
    """Return the number of sorted panes up to each of these."""
    import polars as pl

    return slots.search_sorted(until, "right").cast(pl.Int64)


def between(panes: pl.DataFrame, after: int, until: int) -> pl.DataFrame:
    """Return the rows of sorted panes after the first and up to the second."""
    start, end = up_to(panes[SLOT], after), up_to(panes[SLOT], until)
    return panes.slice(start, end - start)
