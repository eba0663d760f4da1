"""Counts, and sets of distinct values.

In a set NaN occurs once, and so does zero, whatever its sign.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

from headrace.core.aggregates.triple import Rows, Triple, flatten
from headrace.core.expressions.signature import Bound
from headrace.core.types import BIGINT, FLOATS, Array, Field, Struct, Type, to_polars

if TYPE_CHECKING:
    import polars as pl


def _counted(count: Callable[[Rows], pl.Expr]) -> Triple:
    return Triple(
        state=(("count", BIGINT),),
        partial=lambda rows: (count(rows).cast(to_polars(BIGINT)),),
        merge=lambda count: (count.sum(),),
        finish=lambda count: count,
    )


def rows(bound: Bound) -> Triple:
    """Build count(*)."""
    return _counted(lambda rows: rows.count)


def present(bound: Bound) -> Triple:
    """Build count(x, ...): rows in which no argument is NULL."""
    if len(bound.arguments) == 1:
        return _counted(lambda rows: rows.value.count())
    return _counted(lambda rows: _all_present(rows).sum())


def count_if(bound: Bound) -> Triple:
    """Build count_if(condition)."""
    return _counted(lambda rows: rows.value.sum())


def distinct(bound: Bound) -> Triple:
    """Build count(distinct x, ...)."""

    def finish(set: pl.Expr) -> pl.Expr:
        return set.list.len().cast(to_polars(BIGINT))

    if len(bound.arguments) == 1:
        return distinct_values(bound.types[0], finish)
    fields = tuple(Field(f"_{i}", type) for i, type in enumerate(bound.types))
    return distinct_values(Struct(fields), finish)


SPARK_COLLECT_SET = "array_sort(collect_set({0}){filter})"


def collect_set(bound: Bound) -> Triple:
    """Build collect_set(x), in ascending order, so that it does not depend on the batches."""
    return distinct_values(bound.types[0], lambda set: set.list.sort())


def distinct_values(type: Type, finish: Callable[[pl.Expr], pl.Expr]) -> Triple:
    """Build the set of values without NULL; of several arguments the set of structs of them."""

    def partial(rows: Rows) -> tuple[pl.Expr, ...]:
        import polars as pl

        if len(rows.values) == 1:
            return (_one_zero(rows.value, type).drop_nulls().unique().implode(),)
        named = (value.alias(f"_{i}") for i, value in enumerate(rows.values))
        return (pl.struct(named).filter(_all_present(rows)).unique().implode(),)

    return Triple(
        state=(("set", Array(type)),),
        partial=partial,
        merge=lambda set: (flatten(set).unique().implode(),),
        finish=finish,
    )


def _one_zero(value: pl.Expr, type: Type) -> pl.Expr:
    """Replace -0.0 by 0.0; adding 0.0 has no effect, since Polars removes it."""
    import polars as pl

    return pl.when(value == 0).then(0.0).otherwise(value) if type in FLOATS else value


def _all_present(rows: Rows) -> pl.Expr:
    return reduce(lambda a, b: a & b, (value.is_not_null() for value in rows.values))
