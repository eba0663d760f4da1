"""Sums and averages.

Whole numbers add up to a bigint that wraps, floats as doubles, decimals as `decimal_sums` says. A
count beside the sum tells a group without values, which is NULL, from one that adds up to 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.aggregates import decimal_sums
from headrace.core.aggregates.counting import distinct_values
from headrace.core.aggregates.triple import Rows, Triple
from headrace.core.expressions.signature import Bound
from headrace.core.expressions.typed import AS_WRITTEN, OURS
from headrace.core.types import (
    BIGINT,
    DOUBLE,
    MAX_DIGITS,
    Array,
    Decimal,
    Type,
    is_integer,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl


def sum_type(bound: Bound) -> Type:
    """What the values add up to."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return decimal_sums.sum_of(type)
    return BIGINT if is_integer(type) else DOUBLE


def avg_type(bound: Bound) -> Type:
    """The type of their average."""
    type = bound.types[0]
    return decimal_sums.average_of(type) if isinstance(type, Decimal) else DOUBLE


def total(bound: Bound) -> Triple:
    """sum(x)."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return decimal_sums.added(type, decimal_sums.finish_sum(type))
    return _added(sum_type(bound), _sum)


def distinct_total(bound: Bound) -> Triple:
    """sum(distinct x)."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return decimal_sums.added_once(type, decimal_sums.finish_sum(type))
    return _added_once(type, sum_type(bound), _sum)


def average(bound: Bound) -> Triple:
    """avg(x): whole numbers are added as doubles, as Spark does."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return decimal_sums.added(type, decimal_sums.finish_average(type))
    return _added(DOUBLE, _mean)


def distinct_average(bound: Bound) -> Triple:
    """avg(distinct x)."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return decimal_sums.added_once(type, decimal_sums.finish_average(type))
    return _added_once(type, DOUBLE, _mean)


def spark_total(bound: Bound) -> str:
    """What Spark runs for `sum`: of long decimals nothing, for it may overflow on the way."""
    type = bound.types[0]
    return OURS if isinstance(type, Decimal) and _is_long(type) else AS_WRITTEN


def spark_average(bound: Bound) -> str:
    """What Spark runs for `avg`: of short decimals as of longer ones, for it makes doubles of them.

    That rounds a double, where the average of longer ones is rounded itself.
    """
    type = bound.types[0]
    if not isinstance(type, Decimal):
        return AS_WRITTEN
    if type.precision > _SHORT:
        return OURS if _is_long(type) else AS_WRITTEN
    longer = Decimal(_SHORT + 1, type.scale)
    return f"cast(avg({{distinct}}cast({{0}} as {longer})){{filter}} as {avg_type(bound)})"


_SHORT = 11
"""Decimals of so many digits and less are averaged by way of doubles."""


def _is_long(type: Decimal) -> bool:
    return type.precision > MAX_DIGITS - decimal_sums.ROOM


def _added(type: Type, finish: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Triple:
    def partial(rows: Rows) -> tuple[pl.Expr, ...]:
        count = rows.value.count().cast(to_polars(BIGINT))
        return rows.value.cast(to_polars(type)).sum(), count

    return Triple(
        state=(("sum", type), ("count", BIGINT)),
        partial=partial,
        merge=lambda sum, count: (sum.sum(), count.sum()),
        finish=finish,
    )


def _added_once(type: Type, wide: Type, finish: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Triple:
    values = to_polars(Array(wide))
    return distinct_values(type, lambda set: finish(set.cast(values).list.sum(), set.list.len()))


def _sum(sum: pl.Expr, count: pl.Expr) -> pl.Expr:
    import polars as pl

    return pl.when(count > 0).then(sum)


def _mean(sum: pl.Expr, count: pl.Expr) -> pl.Expr:
    import polars as pl

    return pl.when(count > 0).then(sum / count)
