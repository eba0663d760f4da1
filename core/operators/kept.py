"""Folds that keep rows: those that an evictor leaves, and the best rows of `top`.

The rows kept for a group are one list, so they are split, stored and merged like any state: one row
per group. Merging concatenates lists, and drops the rows that need not be kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, EVENT_TIME, HIDDEN_COLUMNS, ORDER
from headrace.core.operators.folds import ROW_TIME, Fold
from headrace.core.operators.ranking import RowRanking, get_order_columns
from headrace.core.operators.telling import GroupErrorContext
from headrace.core.ordinals import ORDER_TYPE
from headrace.core.plan import nodes
from headrace.core.plan.nodes import RANK_COLUMN
from headrace.core.plan.windows import Evict
from headrace.core.types import BIGINT, TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

KEPT_ROWS = "__kept"
"""The rows kept for a group."""
GROUP_NUMBER = "__group"
"""The number of a group."""


class EvictingFold:
    """A fold of the rows that an evictor leaves.

    Another fold computes the result of these rows when the window fires.
    """

    def __init__(
        self,
        evict: Evict,
        inner: Fold,
        types: Mapping[str, pl.DataType],
        telling: GroupErrorContext,
    ) -> None:
        """`types` are the types of the columns that the inner fold reads."""
        import polars as pl

        self._evict = evict
        self._inner = inner
        self._error_context = telling
        more = {ORDER: to_polars(ORDER_TYPE)}
        if evict.within_us is not None:
            more[ROW_TIME] = to_polars(BIGINT)
        self._row = {
            **{name: types[name] for name in sorted(inner.input_columns - {ORDER})},
            **more,
        }
        self.input_columns = frozenset(self._row)
        self.state_columns = {KEPT_ROWS: pl.List(pl.Struct(self._row))}

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the rows of each group that the inner fold may see."""
        import polars as pl

        row = pl.struct(*self._row)
        if self._evict.within_us is not None:
            return collect_rows(
                rows,
                by,
                row.filter(pl.col(ROW_TIME) >= pl.col(ROW_TIME).max() - self._evict.within_us),
            )
        return collect_rows(rows.sort(get_order_columns()), by, row.tail(self._evict.last or 0))

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Merge lists, and keep the rows that the inner fold may still see."""
        return self.begin(unnest_rows(states, by), by)

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the inner fold's results of the kept rows."""
        numbered = states.with_row_index(GROUP_NUMBER)
        with self._error_context.resolve_numbers(numbered, GROUP_NUMBER):
            of_group = self._inner.begin(unnest_rows(numbered, (GROUP_NUMBER,)), (GROUP_NUMBER,))
        return self._inner.finish(numbered.drop(KEPT_ROWS).join(of_group, on=GROUP_NUMBER), by)


class TopNFold:
    """The fold of `top`: the best rows of a group, best first, with all their columns.

    With `newest` also the greatest event time of a group, over all its rows.
    """

    def __init__(
        self, operation: nodes.Top, types: Mapping[str, pl.DataType], *, newest: bool = False
    ) -> None:
        import polars as pl

        beside = (EVENT_TIME, DELETE)
        self._row = {
            n: t for n, t in types.items() if n not in beside and operation.stores_column(n)
        }
        self._visible_columns = [name for name in self._row if name not in HIDDEN_COLUMNS]
        self._ranks = RowRanking(operation.by, operation.rows)
        self._kept_rows = pl.struct(*self._row).head(operation.rows)
        newest_of = {EVENT_TIME: to_polars(TIMESTAMP)} if newest else {}
        self._newest = [pl.col(EVENT_TIME).max()] if newest else []
        self.input_columns = frozenset((*self._row, *newest_of))
        self.state_columns = {KEPT_ROWS: pl.List(pl.Struct(self._row)), **newest_of}

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the best of these rows."""
        return collect_rows(self._ranks.sort_rows(rows), by, self._kept_rows, *self._newest)

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the best rows of several lists."""
        return self.begin(unnest_rows(states, (*by, *self.state_columns.keys() - {KEPT_ROWS})), by)

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the rows with their rank, without the key's internal columns."""
        import polars as pl

        ranks = pl.int_ranges(1, pl.col(KEPT_ROWS).list.len() + 1, dtype=pl.Int32).alias(
            RANK_COLUMN
        )
        kept = states.with_columns(ranks).explode(KEPT_ROWS, RANK_COLUMN)
        hidden = dict.fromkeys((*by, *self.state_columns.keys() - {KEPT_ROWS}))
        return (
            kept.select(*hidden, RANK_COLUMN, KEPT_ROWS)
            .unnest(KEPT_ROWS)
            .select(*hidden, *self._visible_columns, RANK_COLUMN)
        )


def get_row_types(
    columns: Mapping[str, pl.DataType], kept: str = KEPT_ROWS
) -> Mapping[str, pl.DataType]:
    """Return the column types of the rows that a state of these columns keeps as a list."""
    import polars as pl

    rows = columns[kept]
    assert isinstance(rows, pl.List) and isinstance(rows.inner, pl.Struct)
    return dict(pl.Schema(rows.inner))


def collect_rows(
    rows: pl.DataFrame, by: Sequence[str], kept: pl.Expr, *more: pl.Expr
) -> pl.DataFrame:
    """Collect the rows to keep of each group into one list per group."""
    if not by:
        return rows.select(kept.implode().alias(KEPT_ROWS), *more)
    return rows.group_by(by).agg(kept.alias(KEPT_ROWS), *more)


def unnest_rows(states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Unnest the rows of such lists, each after the columns of its group."""
    return states.select(*by, KEPT_ROWS).explode(KEPT_ROWS, empty_as_null=False).unnest(KEPT_ROWS)
