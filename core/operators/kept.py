"""Folds that keep rows: those that an evictor leaves, and the best rows of `top`.

The rows kept for a group are one list, so they are split, stored and merged like any state: one row
per group. Merging concatenates lists, and drops the rows that need not be kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, EVENT_TIME, HIDDEN, ORDER
from headrace.core.operators.folds import AT, Fold
from headrace.core.operators.ranking import Ranks, place
from headrace.core.operators.telling import Telling
from headrace.core.ordinals import ORDER_TYPE
from headrace.core.plan import nodes
from headrace.core.plan.nodes import RANK
from headrace.core.plan.windows import Evict
from headrace.core.types import BIGINT, TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

KEPT = "__kept"
"""The rows kept for a group."""
GROUP = "__group"
"""The number of a group."""


class Evicted:
    """A fold of the rows that an evictor leaves.

    Another fold computes the result of these rows when the window fires.
    """

    def __init__(
        self, evict: Evict, inner: Fold, types: Mapping[str, pl.DataType], telling: Telling
    ) -> None:
        """`types` are the types of the columns that the inner fold reads."""
        import polars as pl

        self._evict = evict
        self._inner = inner
        self._error_context = telling
        more = {ORDER: to_polars(ORDER_TYPE)}
        if evict.within_us is not None:
            more[AT] = to_polars(BIGINT)
        self._row = {**{name: types[name] for name in sorted(inner.reads - {ORDER})}, **more}
        self.reads = frozenset(self._row)
        self.columns = {KEPT: pl.List(pl.Struct(self._row))}

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the rows of each group that the inner fold may see."""
        import polars as pl

        row = pl.struct(*self._row)
        if self._evict.within_us is not None:
            return listed(
                rows, by, row.filter(pl.col(AT) >= pl.col(AT).max() - self._evict.within_us)
            )
        return listed(rows.sort(place()), by, row.tail(self._evict.last or 0))

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Merge lists, and keep the rows that the inner fold may still see."""
        return self.begin(rows_of(states, by), by)

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the inner fold's results of the kept rows."""
        numbered = states.with_row_index(GROUP)
        with self._error_context.numbered(numbered, GROUP):
            of_group = self._inner.begin(rows_of(numbered, (GROUP,)), (GROUP,))
        return self._inner.finish(numbered.drop(KEPT).join(of_group, on=GROUP), by)


class Best:
    """The fold of `top`: the best rows of a group, best first, with all their columns.

    With `newest` also the greatest event time of a group, over all its rows.
    """

    def __init__(
        self, operation: nodes.Top, types: Mapping[str, pl.DataType], *, newest: bool = False
    ) -> None:
        import polars as pl

        beside = (EVENT_TIME, DELETE)
        self._row = {n: t for n, t in types.items() if n not in beside and operation.keeps(n)}
        self._visible_columns = [name for name in self._row if name not in HIDDEN]
        self._ranks = Ranks(operation.by, operation.rows)
        self._kept_rows = pl.struct(*self._row).head(operation.rows)
        newest_of = {EVENT_TIME: to_polars(TIMESTAMP)} if newest else {}
        self._newest = [pl.col(EVENT_TIME).max()] if newest else []
        self.reads = frozenset((*self._row, *newest_of))
        self.columns = {KEPT: pl.List(pl.Struct(self._row)), **newest_of}

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the best of these rows."""
        return listed(self._ranks.ordered(rows), by, self._kept_rows, *self._newest)

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the best rows of several lists."""
        return self.begin(rows_of(states, (*by, *self.columns.keys() - {KEPT})), by)

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the rows with their rank, without the key's internal columns."""
        import polars as pl

        ranks = pl.int_ranges(1, pl.col(KEPT).list.len() + 1, dtype=pl.Int32).alias(RANK)
        kept = states.with_columns(ranks).explode(KEPT, RANK)
        hidden = dict.fromkeys((*by, *self.columns.keys() - {KEPT}))
        return (
            kept.select(*hidden, RANK, KEPT)
            .unnest(KEPT)
            .select(*hidden, *self._visible_columns, RANK)
        )


def row_types(columns: Mapping[str, pl.DataType], kept: str = KEPT) -> Mapping[str, pl.DataType]:
    """Return the column types of the rows that a state of these columns keeps as a list."""
    import polars as pl

    rows = columns[kept]
    assert isinstance(rows, pl.List) and isinstance(rows.inner, pl.Struct)
    return dict(pl.Schema(rows.inner))


def listed(rows: pl.DataFrame, by: Sequence[str], kept: pl.Expr, *more: pl.Expr) -> pl.DataFrame:
    """Collect the rows to keep of each group into one list per group."""
    if not by:
        return rows.select(kept.implode().alias(KEPT), *more)
    return rows.group_by(by).agg(kept.alias(KEPT), *more)


def rows_of(states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Unnest the rows of such lists, each after the columns of its group."""
    return states.select(*by, KEPT).explode(KEPT, empty_as_null=False).unnest(KEPT)
