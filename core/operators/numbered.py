"""A fold that also counts: the rows of each group, and the greatest values of some columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.operators.folds import Fold

if TYPE_CHECKING:
    import polars as pl

ROWS = "__rows"
"""The number of rows in a state, or of the new ones among them."""


class Numbered:
    """Another fold, with ROW_COUNT and the columns `greatest` (bigint, in rows and states).

    The columns that name a group are at least two, or one of integers: Polars joins do not find NaN
    when the only join column is sorted.
    """

    def __init__(self, fold: Fold, greatest: Sequence[str] = ()) -> None:
        import polars as pl

        self._fold = fold
        self._greatest = [pl.col(name).max() for name in greatest]
        self.reads = fold.reads
        self.columns: Mapping[str, pl.DataType] = {
            **fold.columns,
            **dict.fromkeys((ROWS, *greatest), pl.Int64()),
        }
        self.finish = fold.finish

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the states of rows, with their row counts."""
        import polars as pl

        count = pl.len().cast(pl.Int64).alias(ROWS)
        return self._beside(self._fold.begin(rows, by), rows, by, count)

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Merge states, and add up their row counts."""
        import polars as pl

        return self._beside(self._fold.merge(states, by), states, by, pl.col(ROWS).sum())

    def _beside(
        self, states: pl.DataFrame, of: pl.DataFrame, by: Sequence[str], count: pl.Expr
    ) -> pl.DataFrame:
        if not by:
            return states.hstack(of.select(count, *self._greatest))
        found = of.group_by(by).agg(count, *self._greatest)
        return states.join(found, on=by, nulls_equal=True)
