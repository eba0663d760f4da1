"""Windows that also fire whenever a number of rows of a key has arrived in them.

A row is added to each of its windows when it arrives, since each counts separately, and the keys of
a batch are looked up at once, since their windows may fire. An accumulating window is emitted at
most once per batch. A discarding one is cut at exactly the count of rows, in arrival order, and
only the rest stays in its state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import MAX_WATERMARK_US
from headrace.core.operators.numbered import ROW_COUNT
from headrace.core.operators.operator import Output, request_offload
from headrace.core.operators.windows.grid import Grid
from headrace.core.operators.windows.rows import ArrivedRows
from headrace.core.operators.windows.spread import CHUNK_ROWS, expand_panes
from headrace.core.operators.windows.windows import WindowComponents, WindowOperator
from headrace.core.state import SLOT

if TYPE_CHECKING:
    import polars as pl

CUT_NUMBER = "__turn"
"""The number of the cut, of a count of rows each, that a row of a key and window belongs to."""


class CountTriggerWindows(WindowOperator):
    """Windows with a count trigger.

    The grid of `parts` has one pane per window; `panes` is the grid by which rows arrive. ROW_COUNT
    is the number of rows of a key and window since it was last emitted.
    """

    def __init__(self, parts: WindowComponents, panes: Grid, count: int) -> None:
        super().__init__(parts)
        self._panes = panes
        self._count = count

    def _store_rows(self, came: ArrivedRows) -> Iterator[Output]:
        yield from request_offload(self._pane_state.count_deferred_rows(asking=True))
        make = self._fire_accumulating if self._window.keeps_rows else self._fire_discarding
        for rows in self._expand_windows(came.rows):
            yield from self._parts.results.emit([make(rows)])

    def _expand_windows(self, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Repeat the rows for each of their windows, in chunks of bounded size."""
        import polars as pl

        grid, pane = self._panes, pl.col(SLOT)
        if grid.is_one_to_one:
            yield rows
            return
        lowest = grid.first_window_end(self._clock.closed_end_us + 1)
        windows = (grid.last_window_end(pane) - grid.first_window_end(pane)) // grid.every_us + 1
        most = int(rows.select(windows.max()).item())
        for part in rows.iter_slices(max(1, CHUNK_ROWS // most)):
            yield expand_panes(grid, part, lowest, MAX_WATERMARK_US)

    def _fire_accumulating(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the windows with enough new rows, and the ended windows with new rows."""
        import polars as pl

        filed = self._pane_state
        came = filed.fold.begin(rows, filed.group_columns)
        known = filed.runs.take_keys(came.select(filed.key).unique())
        states = came if known is None else filed.merge_panes(_concat(known, came))
        full = pl.col(ROW_COUNT) >= self._count
        filed.runs.add(
            states.with_columns(pl.when(full).then(0).otherwise(ROW_COUNT).alias(ROW_COUNT))
        )
        ended = came.filter(pl.col(SLOT) <= self._clock.now_us).select(filed.group_columns)
        again = states.join(ended, on=filed.group_columns, how="semi", nulls_equal=True).filter(
            ~full
        )
        return _concat(states.filter(full), again)

    def _fire_discarding(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the cuts that are full, and the rows of ended windows."""
        import polars as pl

        filed = self._pane_state
        by = (*filed.group_columns, CUT_NUMBER)
        known = filed.runs.take_keys(rows.select(filed.key).unique())
        turns = self._number_cuts(rows, known)
        states = filed.fold.begin(turns, by)
        if known is not None:
            first = known.with_columns(pl.lit(0, dtype=pl.Int64).alias(CUT_NUMBER))
            states = filed.fold.merge(_concat(states, first), by)
        full = (pl.col(ROW_COUNT) == self._count) | (pl.col(SLOT) <= self._clock.now_us)
        kept = (*filed.group_columns, *filed.fold.state_columns)
        filed.runs.add(states.filter(~full).select(kept))
        return states.filter(full).sort(CUT_NUMBER).select(kept)

    def _number_cuts(self, rows: pl.DataFrame, known: pl.DataFrame | None) -> pl.DataFrame:
        import polars as pl

        by = self._pane_state.group_columns
        number = pl.int_range(pl.len(), dtype=pl.Int64).over(by)
        if known is None:
            return rows.with_columns((number // self._count).alias(CUT_NUMBER))
        before = known.select(*by, ROW_COUNT)
        found = rows.join(before, on=by, how="left", nulls_equal=True, maintain_order="left")
        turn = (number + pl.col(ROW_COUNT).fill_null(0)) // self._count
        return found.with_columns(turn.alias(CUT_NUMBER)).drop(ROW_COUNT)


def _concat(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    return first.vstack(second.select(first.columns))
