"""Sums and averages.

Integers are summed to a bigint that wraps, floats to a double, decimals as in `decimal_sums`. A
count next to the sum distinguishes a group without values, which is NULL, from one whose sum is 0.
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
    """Return the type of the sum."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return decimal_sums.sum_of(type)
    return BIGINT if is_integer(type) else DOUBLE


def avg_type(bound: Bound) -> Type:
    """Return the type of the average."""
    type = bound.types[0]
    return decimal_sums.average_of(type) if isinstance(type, Decimal) else DOUBLE


def total(bound: Bound) -> Triple:
    """Build sum(x)."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return decimal_sums.added(type, decimal_sums.finish_sum(type))
    return _added(sum_type(bound), _sum)


def distinct_total(bound: Bound) -> Triple:
    """Build sum(distinct x)."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return decimal_sums.added_once(type, decimal_sums.finish_sum(type))
    return _added_once(type, sum_type(bound), _sum)


def average(bound: Bound) -> Triple:
    """Build avg(x): integers are summed as doubles, as in Spark."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return decimal_sums.added(type, decimal_sums.finish_average(type))
    return _added(DOUBLE, _mean)


def distinct_average(bound: Bound) -> Triple:
    """Build avg(distinct x)."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return decimal_sums.added_once(type, decimal_sums.finish_average(type))
    return _added_once(type, DOUBLE, _mean)


def spark_total(bound: Bound) -> str:
    """Return the Spark form of `sum`: none for long decimals, which may overflow on the way."""
    type = bound.types[0]
    return OURS if isinstance(type, Decimal) and _is_long(type) else AS_WRITTEN


def spark_average(bound: Bound) -> str:
    """Return the Spark form of `avg`: short decimals are cast to longer ones, since Spark averages
    short ones as doubles.

    That rounds a double, whereas the average of longer decimals is rounded itself.
    """
    type = bound.types[0]
    if not isinstance(type, Decimal):
        return AS_WRITTEN
    if type.precision > _SHORT:
        return OURS if _is_long(type) else AS_WRITTEN
    longer = Decimal(_SHORT + 1, type.scale)
    return f"cast(avg({{distinct}}cast({{0}} as {longer})){{filter}} as {avg_type(bound)})"


_SHORT = 11
"""Spark averages decimals of up to this many digits as doubles."""


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
