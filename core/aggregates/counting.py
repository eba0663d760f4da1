"""Counts, and sets of distinct values.

In a set NaN occurs once, and so does zero, whatever its sign.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from headrace.core.aggregates.accumulator import (
    Accumulator,
    AccumulatorInput,
    BuildAccumulator,
    explode_group_lists,
)
from headrace.core.expressions.functions.common_types import refuse_map
from headrace.core.expressions.signature import BoundArguments
from headrace.core.types.data_types import (
    BIGINT,
    FLOAT_TYPES,
    Array,
    Field,
    Struct,
    Type,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl


def _build_count(count: Callable[[AccumulatorInput], pl.Expr]) -> Accumulator:
    return Accumulator(
        state=(("count", BIGINT),),
        partial=lambda rows: (count(rows).cast(to_polars(BIGINT)),),
        merge=lambda count: (count.sum(),),
        finish=lambda count: count,
        is_subtractable=True,
        is_additive=True,
    )


def build_row_count(bound: BoundArguments) -> Accumulator:
    """Build count(*)."""
    return _build_count(lambda rows: rows.count)


def build_value_count(bound: BoundArguments) -> Accumulator:
    """Build count(x, ...): rows in which no argument is NULL."""
    if len(bound.arguments) == 1:
        return _build_count(lambda rows: rows.value.count())
    return _build_count(lambda rows: _all_not_null(rows).sum())


def build_count_if(bound: BoundArguments) -> Accumulator:
    """Build count_if(condition)."""
    return _build_count(lambda rows: rows.value.sum())


def build_distinct_count(bound: BoundArguments) -> Accumulator:
    """Build count(distinct x, ...)."""
    for argument in bound.arguments:
        refuse_map("count(distinct ...)", argument)

    def finish(set: pl.Expr) -> pl.Expr:
        return set.list.len().cast(to_polars(BIGINT))

    return build_distinct_values(_distinct_type(bound), finish, build_value_count(bound))


def over_distinct(build: BuildAccumulator) -> BuildAccumulator:
    """Return the builder of an aggregate of the distinct values, or of distinct rows of values.

    The aggregate of the set of a group is computed at the end, so it must not need the order of
    rows.
    """

    def build_distinct(bound: BoundArguments) -> Accumulator:
        accumulator, type = build(bound), _distinct_type(bound)
        assert not accumulator.needs_order

        def finish(set: pl.Expr) -> pl.Expr:
            import polars as pl

            each = pl.element()
            values = (
                tuple(each.struct.field(field.name) for field in type.fields)
                if isinstance(type, Struct)
                else (each,)
            )
            rows = AccumulatorInput(values, pl.lit(None), pl.len())
            return set.list.agg(accumulator.finish(*accumulator.partial(rows)))

        of_parts = None if len(bound.arguments) > 1 or accumulator.entries else accumulator
        return build_distinct_values(type, finish, of_parts)

    return build_distinct


def _distinct_type(bound: BoundArguments) -> Type:
    """Return the type of what is distinct: of one argument its own, of several a struct."""
    types = [argument.type for argument in bound.column_arguments]
    if len(types) == 1:
        return types[0]
    return Struct(tuple(Field(f"_{i}", type) for i, type in enumerate(types)))


SPARK_COLLECT_SET = "array_sort(collect_set({0}){filter})"


def build_collect_set(bound: BoundArguments) -> Accumulator:
    """Build collect_set(x), in ascending order, so that it does not depend on the batches."""
    return build_distinct_values(bound.types[0], lambda set: set.list.sort())


SPARK_COLLECT_UNION = "array_sort(collect_union({0}){filter})"


def build_collect_union(bound: BoundArguments) -> Accumulator:
    """Build collect_union(x): the distinct elements of all arrays, in ascending order."""
    array = bound.types[0]
    assert isinstance(array, Array)
    elements = build_distinct_values(array.element, lambda set: set.list.sort())

    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        values = explode_group_lists(rows.value)
        return elements.partial(AccumulatorInput((values,), rows.order, rows.count))

    return replace(elements, partial=partial)


def build_distinct_values(
    type: Type, finish: Callable[[pl.Expr], pl.Expr], of_parts: Accumulator | None = None
) -> Accumulator:
    """Build the set of values without NULL; of several arguments the set of structs of them.

    `of_parts` has the result of values that are each there once.
    """

    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        import polars as pl

        if len(rows.values) == 1:
            return (normalize_zero(rows.value, type).drop_nulls().unique().implode(),)
        named = (value.alias(f"_{i}") for i, value in enumerate(rows.values))
        return (pl.struct(named).filter(_all_not_null(rows)).unique().implode(),)

    return Accumulator(
        state=(("set", Array(type)),),
        partial=partial,
        merge=lambda set: (explode_group_lists(set).unique().implode(),),
        finish=finish,
        of_parts=of_parts,
        entries="distinct values",
    )


def normalize_zero(value: pl.Expr, type: Type) -> pl.Expr:
    """Replace -0.0 by 0.0; adding 0.0 has no effect, since Polars removes it."""
    import polars as pl

    return pl.when(value == 0).then(0.0).otherwise(value) if type in FLOAT_TYPES else value


def _all_not_null(rows: AccumulatorInput) -> pl.Expr:
    return reduce(lambda a, b: a & b, (value.is_not_null() for value in rows.values))
