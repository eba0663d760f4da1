"""The first rows of a group, in the order that `top` says; ties by event time, then ordinal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import ORDER
from headrace.core.expressions.typed import to_expr
from headrace.core.plan.nodes import RANK, Ranking

if TYPE_CHECKING:
    import polars as pl


class Ranks:
    """Ranks rows that carry their place, and keeps so many of each group."""

    def __init__(self, by: Sequence[Ranking], rows: int) -> None:
        import polars as pl

        self._by = [*(to_expr(each.value) for each in by), pl.col(ORDER)]
        self._descending = [*(each.descending for each in by), False]
        self._nulls_last = [*(each.nulls_last for each in by), False]
        self._rows = rows

    def best(self, rows: pl.DataFrame, group: Sequence[str]) -> pl.DataFrame:
        """The first rows of each group, best first, with their rank from 1."""
        import polars as pl

        ordered = rows.sort(self._by, descending=self._descending, nulls_last=self._nulls_last)
        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32)
        ranked = ordered.with_columns((rank.over(group) if group else rank).alias(RANK))
        return ranked.filter(pl.col(RANK) <= self._rows)
