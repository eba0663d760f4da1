"""The texts of a group as one: listagg. It stores them with their places, as collect_list does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.aggregates.accumulator import (
    ORDER_KEY,
    Accumulator,
    AccumulatorInput,
    explode_group_lists,
)
from headrace.core.aggregates.counting import build_distinct_values
from headrace.core.aggregates.ordered_aggregates import SPARK_COLLECT_LIST, SPARK_DISTINCT_LIST
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import AS_WRITTEN, NO_SPARK_FORM, ExpressionError
from headrace.core.types.data_types import BINARY, Array, Field, Struct, is_ordered

if TYPE_CHECKING:
    import polars as pl


def check_order(bound: BoundArguments) -> None:
    """Check that the expressions of `order by` have an order."""
    for argument in bound.arguments[len(bound.arguments) - len(bound.directions) :]:
        if not is_ordered(argument.type):
            message = f"wanted a type with an order, got {argument.type}"
            raise ExpressionError(message, argument.span)


def build_text_list(bound: BoundArguments) -> Accumulator:
    """Build listagg(x, delimiter): NULL if there are no values."""
    value, *keys = (argument.type for argument in bound.column_arguments)
    names = [f"key{at}" for at in range(len(keys))]
    types = dict(zip(names, keys, strict=True)) | {"order": ORDER_KEY, "value": value}
    item = Struct(tuple(Field(name, type) for name, type in types.items()))

    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        import polars as pl

        named = (key.alias(name) for name, key in zip(names, rows.values[1:], strict=True))
        items = pl.struct(*named, rows.order.alias("order"), rows.value.alias("value"))
        return (items.filter(rows.value.is_not_null()).implode(),)

    def finish(items: pl.Expr) -> pl.Expr:
        import polars as pl

        fields = pl.element().struct
        ordered = fields.field("value").sort_by(
            *map(fields.field, (*names, "order")),
            descending=[*(each.is_descending for each in bound.directions), False],
            nulls_last=[*(each.nulls_last for each in bound.directions), False],
        )
        return _join(items.list.eval(ordered), bound)

    return Accumulator(
        state=(("items", Array(item)),),
        partial=partial,
        merge=lambda items: (explode_group_lists(items).implode(),),
        finish=finish,
        needs_order=True,
        entries="values",
    )


def build_distinct_text_list(bound: BoundArguments) -> Accumulator:
    """Build listagg(distinct x), in ascending order or in that of `within group`."""
    if not all(each.is_argument for each in bound.directions):
        message = "distinct values can be ordered by themselves only"
        hint = "order by the value that is listed"
        raise ExpressionError(message, bound.arguments[-1].span, hint)
    descending = bool(bound.directions and bound.directions[0].is_descending)

    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        return values.partial(AccumulatorInput(rows.values[:1], rows.order, rows.count))

    values = build_distinct_values(
        bound.types[0], lambda set: _join(set.list.sort(descending=descending), bound)
    )
    return replace(values, partial=partial)


def _join(values: pl.Expr, bound: BoundArguments) -> pl.Expr:
    import polars as pl

    delimiter = bound.constants.get(1)
    if bound.types[0] != BINARY:
        text = delimiter if isinstance(delimiter, str) else ""
        return pl.when(values.list.len() > 0).then(values.list.join(text))
    between = delimiter if isinstance(delimiter, bytes) else b""

    def join_bytes(lists: pl.Series) -> pl.Series:
        """Join in Python, which Polars does for texts only."""
        joined = (between.join(each) if each else None for each in lists.to_list())
        return pl.Series(lists.name, joined, dtype=pl.Binary())

    return values.map_batches(join_bytes, return_dtype=pl.Binary(), is_elementwise=True)


def spark_form_of_text_list(bound: BoundArguments) -> str:
    """Return the Spark form of `listagg`, which names the order that Spark leaves open."""
    if bound.directions:
        return AS_WRITTEN if _is_ordered_by_itself(bound) else NO_SPARK_FORM
    return _spark_join(bound, SPARK_COLLECT_LIST)


def spark_form_of_distinct_text_list(bound: BoundArguments) -> str:
    """Return the Spark form of `listagg(distinct x)`, without `within group`: Spark 4.3 fails if
    another aggregate of the step is distinct too."""
    if bound.directions and bound.directions[0].is_descending:
        return _spark_join(bound, f"reverse({SPARK_DISTINCT_LIST})")
    return _spark_join(bound, SPARK_DISTINCT_LIST)


def _is_ordered_by_itself(bound: BoundArguments) -> bool:
    return len(bound.directions) == 1 and bound.directions[0].is_argument


def _spark_join(bound: BoundArguments, values: str) -> str:
    if bound.types[0] == BINARY:
        return NO_SPARK_FORM
    delimiter = "''" if bound.constants.get(1) is None else "{1}"
    texts = values.replace("{0}", "cast({0} as string)")
    return f"case when count({{0}}){{filter}} > 0 then array_join({texts}, {delimiter}) end"
