"""Windows that also fire whenever a number of rows of a key has arrived in them.

A row is added to each of its windows when it arrives, since each counts separately, and the keys of
a batch are looked up at once, since their windows may fire. An accumulating window is emitted at
most once per batch. A discarding one is cut at exactly the count of rows, in arrival order, and
only the rest stays in its state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import FOREVER_US
from headrace.core.operators.numbered import ROWS
from headrace.core.operators.operator import Output, aside
from headrace.core.operators.windows.grid import Grid
from headrace.core.operators.windows.rows import Arrived
from headrace.core.operators.windows.spread import PIECE_ROWS, expanded
from headrace.core.operators.windows.windows import Parts, Windows
from headrace.core.state import SLOT

if TYPE_CHECKING:
    import polars as pl

TURN = "__turn"
"""The number of the cut, of a count of rows each, that a row of a key and window belongs to."""


class Counted(Windows):
    """Windows with a count trigger.

    The grid of `parts` has one pane per window; `panes` is the grid by which rows arrive. ROW_COUNT
    is the number of rows of a key and window since it was last emitted.
    """

    def __init__(self, parts: Parts, panes: Grid, count: int) -> None:
        super().__init__(parts)
        self._panes = panes
        self._count = count

    def _file(self, came: Arrived) -> Iterator[Output]:
        yield from aside(self._pane_state.owed(asking=True))
        make = self._accumulated if self._window.accumulate else self._cut
        for rows in self._apart(came.rows):
            yield from self._parts.results.rows([make(rows)])

    def _apart(self, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Repeat the rows for each of their windows, in chunks of bounded size."""
        import polars as pl

        grid, pane = self._panes, pl.col(SLOT)
        if grid.one_to_one:
            yield rows
            return
        lowest = grid.first(self._clock.over_us + 1)
        windows = (grid.last(pane) - grid.first(pane)) // grid.every_us + 1
        most = int(rows.select(windows.max()).item())
        for part in rows.iter_slices(max(1, PIECE_ROWS // most)):
            yield expanded(grid, part, lowest, FOREVER_US)

    def _accumulated(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the windows with enough new rows, and the ended windows with new rows."""
        import polars as pl

        filed = self._pane_state
        came = filed.fold.begin(rows, filed.by)
        known = filed.runs.take_keys(came.select(filed.key).unique())
        states = came if known is None else filed.merged(_together(known, came))
        full = pl.col(ROWS) >= self._count
        filed.runs.add(states.with_columns(pl.when(full).then(0).otherwise(ROWS).alias(ROWS)))
        ended = came.filter(pl.col(SLOT) <= self._clock.us).select(filed.by)
        again = states.join(ended, on=filed.by, how="semi", nulls_equal=True).filter(~full)
        return _together(states.filter(full), again)

    def _cut(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the cuts that are full, and the rows of ended windows."""
        import polars as pl

        filed = self._pane_state
        by = (*filed.by, TURN)
        known = filed.runs.take_keys(rows.select(filed.key).unique())
        turns = self._turns(rows, known)
        states = filed.fold.begin(turns, by)
        if known is not None:
            first = known.with_columns(pl.lit(0, dtype=pl.Int64).alias(TURN))
            states = filed.fold.merge(_together(states, first), by)
        full = (pl.col(ROWS) == self._count) | (pl.col(SLOT) <= self._clock.us)
        kept = (*filed.by, *filed.fold.columns)
        filed.runs.add(states.filter(~full).select(kept))
        return states.filter(full).sort(TURN).select(kept)

    def _turns(self, rows: pl.DataFrame, known: pl.DataFrame | None) -> pl.DataFrame:
        import polars as pl

        by = self._pane_state.by
        number = pl.int_range(pl.len(), dtype=pl.Int64).over(by)
        if known is None:
            return rows.with_columns((number // self._count).alias(TURN))
        before = known.select(*by, ROWS)
        found = rows.join(before, on=by, how="left", nulls_equal=True, maintain_order="left")
        turn = (number + pl.col(ROWS).fill_null(0)) // self._count
        return found.with_columns(turn.alias(TURN)).drop(ROWS)


def _together(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    return first.vstack(second.select(first.columns))
