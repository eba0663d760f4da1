"""Joins of the rows of one window: they are stored by pane, and joined when the window has ended.

A row is late when all its windows have ended, including their allowed lateness. A row that is late
for some of its windows, but within the lateness, is joined with their stored rows at once: their
other pairs have been emitted. (Only inner joins allow lateness: an unmatched row would have to be
retracted.) A row with a null in its key matches nothing and is not stored: it is emitted at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import FOREVER_US
from headrace.core.frames import sorted_by
from headrace.core.operators.joins.both_sides import BothSides
from headrace.core.operators.joins.kept import Kept
from headrace.core.operators.joins.sides import LEFT, RIGHT
from headrace.core.operators.joins.whole import Whole
from headrace.core.operators.operator import Clockless, Filed, Output, aside
from headrace.core.operators.place import Place
from headrace.core.operators.windows.grid import grid_of
from headrace.core.operators.windows.rows import Clock
from headrace.core.operators.windows.spread import PIECE_ROWS, between, expanded, pieces
from headrace.core.operators.windows.windows import behind_us
from headrace.core.plan import nodes
from headrace.core.plan.windows import Window
from headrace.core.state import SLOT

if TYPE_CHECKING:
    import polars as pl


class WindowJoin(BothSides, Clockless, Filed):
    """The operator of a join over time windows, or over one window of all rows."""

    def __init__(self, operation: nodes.Join, window: Window, place: Place) -> None:
        import polars as pl

        self._late_to = operation.late_to
        self._context, self._window = place, window
        self._grid = grid_of(window.shape)
        self._clock = Clock(window, place)
        self._buffers = tuple(
            Kept(operation, which, place, "lost" if window.bounded else "kept")
            for which in (LEFT, RIGHT)
        )
        self._join_columns = (*self._buffers[LEFT].key, SLOT)
        end = pl.col(SLOT)
        bounds = (self._grid.start(end), end) if window.bounded else None
        self._output = Whole(operation, place, self._buffers, self._join_columns, bounds)
        self.behind_us = behind_us(window)

    @property
    def held(self) -> int:
        """The number of stored rows."""
        return sum(kept.rows for kept in self._buffers)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the windows that have ended, and forget rows that are in no other window."""
        before = self._clock.us
        if watermark_us <= before:
            return
        self._clock.us = watermark_us
        first = min((at for k in self._buffers if (at := k.runs.first()) is not None), default=None)
        if first is None:
            return
        begin = max(self._grid.first(before + 1), self._grid.first(first))
        if begin <= watermark_us:
            after = self._grid.start(begin)
            panes = [kept.runs.read(after, watermark_us) for kept in self._buffers]
            yield from self._put_out(*self._both(*panes), before, watermark_us)
        closed_us = self._clock.closed_us(self._grid)
        for kept in self._buffers:
            kept.runs.drop(closed_us)

    def _take(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        """Store the rows that are not too late."""
        import polars as pl

        kept, pane = self._buffers[which], pl.col(SLOT)
        rows = kept.of(frame, self._grid.pane(pl.col(kept.side.time)))
        if self._grid.gaps:
            inside = rows.select(self._grid.last(pane) >= pane).to_series()
            frame, rows = frame.filter(inside), rows.filter(inside)
        late = rows[SLOT] <= self._clock.closed_us(self._grid)
        if late.any():
            yield from self._context.left_out(self._late_to[which], frame.filter(late))
            rows = rows.filter(~late)
        lacks = kept.side.lacks_key(rows)
        if lacks is not None:
            if which in self._output.alone_of:
                yield from self._keyless(which, rows.filter(lacks))
            rows = rows.filter(~lacks)
        if rows.height:
            yield from self._again(which, rows)
            yield from aside(kept.runs.owed(asking=False))
            kept.runs.add(rows)

    def _keyless(self, which: int, rows: pl.DataFrame) -> Iterator[Output]:
        """Emit unmatched rows, once for each of their windows."""
        import polars as pl

        grid, pane = self._grid, pl.col(SLOT)
        if grid.one_to_one:
            yield from self._output.out(which, rows)
            return
        windows = (grid.last(pane) - grid.first(pane)) // grid.every_us + 1
        most = int(rows.select(windows.max()).item())
        for part in rows.iter_slices(max(1, PIECE_ROWS // most)):
            lowest = grid.first(self._clock.over_us + 1)
            yield from self._output.out(which, expanded(grid, part, lowest, FOREVER_US))

    def _again(self, which: int, rows: pl.DataFrame) -> Iterator[Output]:
        """Emit the pairs of late rows with stored ones."""
        import polars as pl

        if not self._window.lateness_us:
            return
        now = self._clock.us
        late_rows = rows.filter(self._grid.first(pl.col(SLOT)) <= now)
        if late_rows.height:
            other = self._buffers[1 - which].runs
            yield from aside(other.owed(asking=True))
            keys = late_rows.select(self._join_columns[:-1]).unique()
            there = other.of_keys(keys, self._clock.closed_us(self._grid))
            sides = (late_rows, there) if which == LEFT else (there, late_rows)
            yield from self._put_out(*self._both(*sides), self._clock.over_us, now)

    def _put_out(
        self, lefts: pl.DataFrame, rights: pl.DataFrame, after: int, until: int
    ) -> Iterator[Output]:
        """Emit the windows of these rows that end after the first time and up to the second."""
        import polars as pl

        if self._grid.one_to_one:
            ends = pl.col(SLOT).is_between(after, until, closed="right")
            yield from self._output.fired((lefts.filter(ends), rights.filter(ends)))
            return
        lefts, rights = sorted_by(lefts, SLOT), sorted_by(rights, SLOT)
        slots = lefts[SLOT].append(rights[SLOT]).sort()
        for first, last, _, _ in pieces(self._grid, slots, after, until):
            start = self._grid.start(first)
            both = (between(lefts, start, last), between(rights, start, last))
            left, right = (expanded(self._grid, each, first, last) for each in both)
            yield from self._output.fired((left, right))

    def _both(
        self, left: pl.DataFrame | None, right: pl.DataFrame | None
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows of both sides, empty frames for None."""
        return (
            self._buffers[LEFT].none if left is None else left,
            self._buffers[RIGHT].none if right is None else right,
        )
