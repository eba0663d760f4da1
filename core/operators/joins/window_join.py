"""Joins of the rows of one window: they are stored by pane, and joined when the window has ended.

A row is late when all its windows have ended, including their allowed lateness. A row that is late
for some of its windows, but within the lateness, is joined with their stored rows at once: their
other pairs have been emitted. (Only inner joins allow lateness: an unmatched row would have to be
retracted.) A row with a null in its key matches nothing and is not stored: it is emitted at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.api.state import SLOT
from headrace.core.operators.joins.join_sides import LEFT, RIGHT, JoinSideBuffer, SymmetricJoin
from headrace.core.operators.joins.matched_pairs import WindowJoinOutput
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import (
    ClocklessOperator,
    Output,
    WriteThroughOperator,
    request_offload,
)
from headrace.core.operators.windows.due_windows import find_next_end
from headrace.core.operators.windows.grid import build_grid
from headrace.core.operators.windows.pane_expander import (
    expand_panes,
    expand_rows,
    slice_panes,
    split_windows,
)
from headrace.core.operators.windows.window_operator import compute_watermark_delay
from headrace.core.operators.windows.window_rows import WindowClock
from headrace.core.plan import nodes
from headrace.core.plan.nodes.windows import Window
from headrace.core.types.frames import sort_by_column

if TYPE_CHECKING:
    import polars as pl


class WindowJoin(SymmetricJoin, ClocklessOperator, WriteThroughOperator):
    """The operator of a join over time windows, or over one window of all rows."""

    def __init__(self, operation: nodes.Join, window: Window, context: KeyedContext) -> None:
        import polars as pl

        self._late_to = operation.late_to
        self._context, self._window = context, window
        self._grid = build_grid(window.shape)
        self._clock = WindowClock(window, context)
        self._buffers = tuple(
            JoinSideBuffer(operation, which, context, "lost" if window.has_bounds else "kept")
            for which in (LEFT, RIGHT)
        )
        self._join_columns = (*self._buffers[LEFT].key, SLOT)
        end = pl.col(SLOT)
        bounds = (self._grid.window_start(end), end) if window.has_bounds else None
        self._output = WindowJoinOutput(
            operation, context, self._buffers, self._join_columns, bounds
        )
        self.watermark_delay_us = compute_watermark_delay(window)

    @property
    def pending_rows(self) -> int:
        """The number of stored rows."""
        return sum(buffer.row_count for buffer in self._buffers)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the windows that have ended, and forget rows that are in no other window."""
        before = self._clock.now_us
        if watermark_us <= before:
            return
        self._clock.now_us = watermark_us
        first = min(
            (at for k in self._buffers if (at := k.runs.get_first_slot()) is not None), default=None
        )
        if first is None:
            return
        begin = find_next_end(self._grid, before, first)
        if begin <= watermark_us:
            after = self._grid.window_start(begin)
            panes = [buffer.runs.read(after, watermark_us) for buffer in self._buffers]
            yield from self._emit_windows(*self._fill_missing(*panes), before, watermark_us)
        closed_us = self._clock.find_closed_pane(self._grid)
        for buffer in self._buffers:
            buffer.runs.drop(closed_us)

    def _process_side(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        """Store the rows that are not too late."""
        import polars as pl

        buffer, pane = self._buffers[which], pl.col(SLOT)
        rows = buffer.project_input(frame, self._grid.pane_end(pl.col(buffer.side.time)))
        if self._grid.has_gaps:
            inside = rows.select(self._grid.last_window_end(pane) >= pane).to_series()
            frame, rows = frame.filter(inside), rows.filter(inside)
        late = rows[SLOT] <= self._clock.find_closed_pane(self._grid)
        if late.any():
            yield from self._context.emit_late_rows(self._late_to[which], frame.filter(late))
            rows = rows.filter(~late)
        lacks = buffer.side.find_null_keys(rows)
        if lacks is not None:
            if which in self._output.unmatched_sides:
                yield from self._emit_keyless(which, rows.filter(lacks))
            rows = rows.filter(~lacks)
        if rows.height:
            yield from self._emit_late_pairs(which, rows)
            yield from request_offload(buffer.runs.estimate_deferred_rows(for_lookup=False))
            buffer.runs.add(rows)

    def _emit_keyless(self, which: int, rows: pl.DataFrame) -> Iterator[Output]:
        """Emit unmatched rows, once for each of their windows."""
        for part in expand_rows(self._grid, rows, self._clock.closed_end_us):
            yield from self._output.emit_alone(which, part)

    def _emit_late_pairs(self, which: int, rows: pl.DataFrame) -> Iterator[Output]:
        """Emit the pairs of late rows with stored ones."""
        import polars as pl

        if not self._window.lateness_us:
            return
        now = self._clock.now_us
        late_rows = rows.filter(self._grid.first_window_end(pl.col(SLOT)) <= now)
        if late_rows.height:
            other = self._buffers[1 - which].runs
            yield from request_offload(other.estimate_deferred_rows(for_lookup=True))
            keys = late_rows.select(self._join_columns[:-1]).unique()
            there = other.read_keys(keys, self._clock.find_closed_pane(self._grid))
            sides = (late_rows, there) if which == LEFT else (there, late_rows)
            yield from self._emit_windows(
                *self._fill_missing(*sides), self._clock.closed_end_us, now
            )

    def _emit_windows(
        self, lefts: pl.DataFrame, rights: pl.DataFrame, after: int, until: int
    ) -> Iterator[Output]:
        """Emit the windows of these rows that end after the first time and up to the second."""
        import polars as pl

        if self._grid.is_one_to_one:
            ends = pl.col(SLOT).is_between(after, until, closed="right")
            yield from self._output.emit_window((lefts.filter(ends), rights.filter(ends)))
            return
        lefts, rights = sort_by_column(lefts, SLOT), sort_by_column(rights, SLOT)
        slots = lefts[SLOT].append(rights[SLOT]).sort()
        for first, last, _, _ in split_windows(self._grid, slots, after, until):
            start = self._grid.window_start(first)
            both = (slice_panes(lefts, start, last), slice_panes(rights, start, last))
            left, right = (expand_panes(self._grid, each, first, last) for each in both)
            yield from self._output.emit_window((left, right))

    def _fill_missing(
        self, left: pl.DataFrame | None, right: pl.DataFrame | None
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows of both sides, empty frames for None."""
        return (
            self._buffers[LEFT].empty_frame if left is None else left,
            self._buffers[RIGHT].empty_frame if right is None else right,
        )
