"""A fold that also counts: how many rows each group has, and the greatest of some columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.operators.folds import Fold

if TYPE_CHECKING:
    import polars as pl

ROWS = "__rows"
"""How many rows a state is of, or how many of them are new."""


class Numbered:
    """Another fold, with ROWS and the columns `greatest` (bigint, in rows and states) beside it.

    The columns that name a group are two at least, or one of whole numbers: Polars does not find
    NaN where one sorted column is all to join by.
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
        """The states of rows, and how many there are."""
        import polars as pl

        count = pl.len().cast(pl.Int64).alias(ROWS)
        return self._beside(self._fold.begin(rows, by), rows, by, count)

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """The states of states, and how many rows are in them."""
        import polars as pl

        return self._beside(self._fold.merge(states, by), states, by, pl.col(ROWS).sum())

    def _beside(
        self, states: pl.DataFrame, of: pl.DataFrame, by: Sequence[str], count: pl.Expr
    ) -> pl.DataFrame:
        if not by:
            return states.hstack(of.select(count, *self._greatest))
        found = of.group_by(by).agg(count, *self._greatest)
        return states.join(found, on=by, nulls_equal=True)
