"""A fold that also counts: the rows of each group, and the greatest values of some columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.operators.folds import Fold

if TYPE_CHECKING:
    import polars as pl

ROW_COUNT = "__rows"
"""The number of rows in a state, or of the new ones among them."""


class CountingFold:
    """Another fold, with ROW_COUNT and the columns `greatest` (bigint, in rows and states).

    The columns that name a group are at least two, or one of integers: Polars joins do not find NaN
    when the only join column is sorted.
    """

    def __init__(self, fold: Fold, greatest: Sequence[str] = ()) -> None:
        import polars as pl

        self._fold = fold
        self._greatest = [pl.col(name).max() for name in greatest]
        self.input_columns = fold.input_columns
        self.state_columns: Mapping[str, pl.DataType] = {
            **fold.state_columns,
            **dict.fromkeys((ROW_COUNT, *greatest), pl.Int64()),
        }
        self.finish = fold.finish

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the states of rows, with their row counts."""
        import polars as pl

        count = pl.len().cast(pl.Int64).alias(ROW_COUNT)
        return self._add_counts(self._fold.begin(rows, by), rows, by, count)

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Merge states, and add up their row counts."""
        import polars as pl

        return self._add_counts(self._fold.merge(states, by), states, by, pl.col(ROW_COUNT).sum())

    def _add_counts(
        self, states: pl.DataFrame, of: pl.DataFrame, by: Sequence[str], count: pl.Expr
    ) -> pl.DataFrame:
        if not by:
            return states.hstack(of.select(count, *self._greatest))
        found = of.group_by(by).agg(count, *self._greatest)
        return states.join(found, on=by, nulls_equal=True)
