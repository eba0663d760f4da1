"""Aggregates that depend on the order of rows: they store values with their order keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from headrace.core.aggregates.accumulator import (
    ORDER_KEY,
    Accumulator,
    AccumulatorInput,
    explode_group_lists,
)
from headrace.core.aggregates.counting import build_collect_set
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import ExpressionError
from headrace.core.types.data_types import Array, Field, Struct, Type, is_ordered
from headrace.core.types.elements import ORDER

if TYPE_CHECKING:
    import polars as pl

OrderEnd = Literal["first", "last"]


def check_null_flag(bound: BoundArguments) -> None:
    """Check that the flag to skip NULLs is true or false."""
    if 1 in bound.constants and bound.constants[1] is None:
        raise ExpressionError("wanted true or false, got NULL", bound.arguments[1].span)


def _build_end(end: OrderEnd, bound: BoundArguments) -> Accumulator:
    skip = bound.constants.get(1) is True

    def pick(value: pl.Expr, order: pl.Expr) -> tuple[pl.Expr, ...]:
        # A filtered row has neither order key nor value: it is sorted to the other end.
        if end == "first":
            by, least = value.sort_by(order, nulls_last=True), order.sort(nulls_last=True)
            return by.first(), least.first()
        return value.sort_by(order).last(), order.sort().last()

    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        import polars as pl

        if not skip:
            return pick(rows.value, rows.order)
        return pick(rows.value, pl.when(rows.value.is_not_null()).then(rows.order))

    return Accumulator(
        state=(("value", bound.types[0]), ("order", ORDER_KEY)),
        partial=partial,
        merge=pick,
        finish=lambda value, order: value,
        needs_order=True,
        is_idempotent=True,
    )


def build_first(bound: BoundArguments) -> Accumulator:
    """Build first(x) and first(x, true), which skips NULLs."""
    return _build_end("first", bound)


def build_last(bound: BoundArguments) -> Accumulator:
    """Build last(x) and last(x, true)."""
    return _build_end("last", bound)


def spark_form_of_first(bound: BoundArguments) -> str:
    """Return the Spark form of `build_first`."""
    return f"min_by({{0}}, {_spark_order(bound)}){{filter}}"


def spark_form_of_last(bound: BoundArguments) -> str:
    """Return the Spark form of `build_last`."""
    return f"max_by({{0}}, {_spark_order(bound)}){{filter}}"


def _spark_order(bound: BoundArguments) -> str:
    skip = bound.constants.get(1) is True
    return f"case when ({{0}}) is not null then {ORDER} end" if skip else ORDER


_SPARK_REVERSE_ORDER = ", ".join(f"-{ORDER}.{part}" for part in ("time", "at", "part"))
SPARK_MIN_BY = (
    f"min_by({{0}}, case when ({{1}}) is not null then struct({{1}}, {_SPARK_REVERSE_ORDER}) "
    f"end){{filter}}"
)
SPARK_MAX_BY = (
    f"max_by({{0}}, case when ({{1}}) is not null then struct({{1}}, {ORDER}) end){{filter}}"
)
SPARK_MIN_BY_VALUES = SPARK_MIN_BY.replace("end){filter}", "end, {2}){filter}")
SPARK_MAX_BY_VALUES = SPARK_MAX_BY.replace("end){filter}", "end, {2}){filter}")
SPARK_DISTINCT_LIST = "array_sort(collect_list({distinct}{0}){filter})"
SPARK_COLLECT_LIST = (
    f"transform(array_sort(collect_list(case when ({{0}}) is not null then"
    f" named_struct('order', {ORDER}, 'value', {{0}}) end){{filter}}), __item -> __item.value)"
)


def _build_best(bound: BoundArguments, *, greatest: bool) -> Accumulator:
    """Build the value where another is least or greatest; of equals the one in the last row, as in
    Spark.

    The value and its keys are one struct, so that a group is sorted once.
    """
    value, by = bound.types
    best = Struct((Field("value", value), Field("by", by), Field("order", ORDER_KEY)))

    def pick(rows: pl.Expr, by: pl.Expr, order: pl.Expr) -> tuple[pl.Expr, ...]:
        return (rows.sort_by(by, order, descending=[greatest, True], nulls_last=True).first(),)

    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        import polars as pl

        value, by = rows.values
        whole = pl.struct(value.alias("value"), by.alias("by"), rows.order.alias("order"))
        return pick(whole, by, rows.order)

    def finish(best: pl.Expr) -> pl.Expr:
        import polars as pl

        # Where NULL is the best of a group, all are NULL.
        found = best.struct.field("by").is_not_null()
        return pl.when(found).then(best.struct.field("value"))

    return Accumulator(
        state=(("best", best),),
        partial=partial,
        merge=lambda best: pick(best, best.struct.field("by"), best.struct.field("order")),
        finish=finish,
        needs_order=True,
        is_idempotent=True,
    )


def build_min_by(bound: BoundArguments) -> Accumulator:
    """Build min_by(x, y)."""
    return _build_best(bound, greatest=False)


def build_max_by(bound: BoundArguments) -> Accumulator:
    """Build max_by(x, y)."""
    return _build_best(bound, greatest=True)


MOST_BEST = 100_000
"""Spark's limit of the values that min_by and max_by return."""


def check_best_count(bound: BoundArguments) -> None:
    """Check the number of values that min_by and max_by return."""
    count = bound.constants[2]
    if not isinstance(count, int) or not 1 <= count <= MOST_BEST:
        actual = "NULL" if count is None else repr(count)
        raise ExpressionError(f"wanted 1 to {MOST_BEST}, got {actual}", bound.arguments[2].span)


def _build_best_values(bound: BoundArguments, *, greatest: bool) -> Accumulator:
    """Build the values where another is least or greatest, best first."""
    count = bound.constants[2]
    assert isinstance(count, int)
    value, by, _ = bound.types
    best = Struct((Field("value", value), Field("by", by), Field("order", ORDER_KEY)))

    def pick(rows: pl.Expr) -> tuple[pl.Expr, ...]:
        import polars as pl

        # Polars 2.1 reads beyond its memory where `agg` sorts what it has exploded: sort lists.
        fields = pl.element().struct
        keys = fields.field("by"), fields.field("order")
        ranked = pl.element().sort_by(*keys, descending=[greatest, True], nulls_last=True)
        return (rows.implode().list.eval(ranked.head(count)),)

    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        import polars as pl

        value, by = rows.values
        return pick(pl.struct(value.alias("value"), by.alias("by"), rows.order.alias("order")))

    def finish(items: pl.Expr) -> pl.Expr:
        import polars as pl

        fields = pl.element().struct
        found = items.list.eval(fields.field("value").filter(fields.field("by").is_not_null()))
        return pl.when(found.list.len() > 0).then(found)

    return Accumulator(
        state=(("items", Array(best)),),
        partial=partial,
        merge=lambda items: pick(explode_group_lists(items)),
        finish=finish,
        needs_order=True,
        entries=count,
    )


def build_min_by_values(bound: BoundArguments) -> Accumulator:
    """Build min_by(x, y, count)."""
    return _build_best_values(bound, greatest=False)


def build_max_by_values(bound: BoundArguments) -> Accumulator:
    """Build max_by(x, y, count)."""
    return _build_best_values(bound, greatest=True)


def build_distinct_list(bound: BoundArguments) -> Accumulator:
    """Build collect_list(distinct x), in ascending order."""
    if not is_ordered(bound.types[0]):
        message = f"distinct values of {bound.types[0]} have no order to be listed in"
        raise ExpressionError(message, bound.arguments[0].span)
    return build_collect_set(bound)


def build_collect_list(bound: BoundArguments) -> Accumulator:
    """Build collect_list(x): the values that are not NULL, in the order of the rows."""
    item = Struct((Field("order", ORDER_KEY), Field("value", bound.types[0])))

    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        import polars as pl

        items = pl.struct(rows.order.alias("order"), rows.value.alias("value"))
        return (items.filter(rows.value.is_not_null()).implode(),)

    def finish(items: pl.Expr) -> pl.Expr:
        import polars as pl

        fields = pl.element().struct
        return items.list.eval(fields.field("value").sort_by(fields.field("order")))

    return Accumulator(
        state=(("items", Array(item)),),
        partial=partial,
        merge=lambda items: (explode_group_lists(items).implode(),),
        finish=finish,
        needs_order=True,
        entries="values",
    )


def build_nth(type: Type, number: int, *, skips_nulls: bool) -> Accumulator:
    """Build nth_value(x, number): the value of that row, counted from 1."""
    item = Struct((Field("order", ORDER_KEY), Field("value", type)))

    def pick(items: pl.Expr) -> tuple[pl.Expr, ...]:
        import polars as pl

        ordered = pl.element().sort_by(pl.element().struct.field("order"))
        return (items.implode().list.eval(ordered.head(number)),)

    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        import polars as pl

        items = pl.struct(rows.order.alias("order"), rows.value.alias("value"))
        return pick(items.filter(rows.value.is_not_null()) if skips_nulls else items)

    def finish(items: pl.Expr) -> pl.Expr:
        return items.list.get(number - 1, null_on_oob=True).struct.field("value")

    return Accumulator(
        state=(("items", Array(item)),),
        partial=partial,
        merge=lambda items: pick(explode_group_lists(items)),
        finish=finish,
        needs_order=True,
        entries=number,
    )
