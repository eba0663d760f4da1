"""The order of the rows of a group: by the ranking of `top`, or by row order alone.

Ties of a ranking are ordered by row order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import ORDER
from headrace.core.expressions.typed import to_expr
from headrace.core.ordinals import ORDER_TYPE
from headrace.core.plan.nodes import RANK_COLUMN, Ranking
from headrace.core.types import Struct

if TYPE_CHECKING:
    import polars as pl


class RowRanking:
    """A ranking of rows that carry their position in the row order."""

    def __init__(self, by: Sequence[Ranking], rows: int, more: Sequence[str] = ()) -> None:
        """`more` are columns that order rows with equal positions."""
        import polars as pl

        ties = [*get_order_columns(), *map(pl.col, more)]
        self.rows = rows
        self._by = [*(to_expr(each.value) for each in by), *ties]
        self._descending = [*(each.descending for each in by), *(False for _ in ties)]
        self._nulls_last = [*(each.nulls_last for each in by), *(False for _ in ties)]

    def sort_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Sort the rows, best first."""
        return rows.sort(self._by, descending=self._descending, nulls_last=self._nulls_last)

    def rank_rows(self, rows: pl.DataFrame, group: Sequence[str]) -> pl.DataFrame:
        """Return the first rows of each group, best first, with their rank from 1."""
        import polars as pl

        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32)
        ranked = self.sort_rows(rows).with_columns(
            (rank.over(group) if group else rank).alias(RANK_COLUMN)
        )
        return ranked.filter(pl.col(RANK_COLUMN) <= self.rows)


def get_order_columns() -> list[pl.Expr]:
    """Return the sort columns of the row order; numbers sort faster than a struct of them."""
    import polars as pl

    assert isinstance(ORDER_TYPE, Struct)
    return [pl.col(ORDER).struct.field(field.name) for field in ORDER_TYPE.fields]
