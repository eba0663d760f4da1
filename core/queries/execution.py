"""Execution of queries over frames, by the expressions and aggregates of pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.aggregates import compute_partial_states
from headrace.core.expressions.compilation import to_expr, to_key_expr
from headrace.core.expressions.typed import PROCESSING_TIME
from headrace.core.queries.typed_query import KEY_PREFIX, TypedQuery
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import ORDER
from headrace.core.types.frames import select_columns

if TYPE_CHECKING:
    import polars as pl

_COLUMN, _SORT, _HAVING = "__c", "__s", "__h"


def run_query(query: TypedQuery, table: pl.DataFrame | None, now_us: int) -> pl.DataFrame:
    """Return the rows of a query over a table; without a table, over a single row.

    `now_us` is the time of `now()`. Raises ExpressionFailure where an expression fails for a row.
    """
    import polars as pl

    now = pl.lit(now_us, pl.Int64).cast(to_polars(TIMESTAMP)).alias(PROCESSING_TIME)
    rows = pl.DataFrame({ORDER: [0]}) if table is None else table
    if ORDER not in rows.columns:
        rows = rows.with_row_index(ORDER)
    rows = rows.with_columns(now)
    if query.where is not None:
        rows = rows.filter(_select(rows, to_expr(query.where).cast(pl.Boolean)))
    if query.is_grouped:
        rows = _group_rows(query, rows).with_columns(now)
    if query.having is not None:
        rows = rows.filter(_select(rows, to_expr(query.having).cast(pl.Boolean)))
    columns = [
        (to_key_expr if query.is_distinct else to_expr)(each).alias(f"{_COLUMN}{at}")
        for at, each in enumerate(query.columns)
    ]
    sort = [to_expr(each.value).alias(f"{_SORT}{at}") for at, each in enumerate(query.order_by)]
    done = rows.with_columns(*columns, *sort)
    names = [f"{_COLUMN}{at}" for at in range(len(columns))]
    if query.is_distinct:
        done = done.unique(names, keep="first", maintain_order=True)
    if sort:
        done = done.sort(
            [f"{_SORT}{at}" for at in range(len(sort))],
            descending=[each.is_descending for each in query.order_by],
            nulls_last=[each.nulls_last for each in query.order_by],
            maintain_order=True,
        )
    done = done.slice(query.offset, query.limit).select(names)
    return done.rename(dict(zip(names, query.schema.names, strict=True)))


def _select(rows: pl.DataFrame, condition: pl.Expr) -> pl.Series:
    """Return the values of a condition for all rows."""
    return rows.with_columns(condition.alias(_HAVING))[_HAVING]


def _group_rows(query: TypedQuery, rows: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each group, with its keys and the results of the calls."""
    import polars as pl

    keys = {f"{KEY_PREFIX}{at}": to_key_expr(key) for at, key in enumerate(query.keys)}
    rows = rows.with_columns(**keys)
    if not query.calls:
        return rows.unique(list(keys), keep="first") if keys else pl.DataFrame({ORDER: [0]})
    states = compute_partial_states(rows, list(keys), query.calls)
    return select_columns(states, *keys, *(call.finish() for call in query.calls))
