"""Sums and averages.

Integers are summed to a bigint that wraps, floats to a double, decimals as in `decimal_sums`. A
count next to the sum distinguishes a group without values, which is NULL, from one whose sum is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.aggregates import decimal_sums
from headrace.core.aggregates.accumulator import Accumulator, AccumulatorInput
from headrace.core.aggregates.counting import build_distinct_values
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import AS_WRITTEN, NO_SPARK_FORM
from headrace.core.types.data_types import (
    BIGINT,
    DOUBLE,
    INT,
    MAX_DIGITS,
    SMALLINT,
    TINYINT,
    Array,
    Decimal,
    Type,
    is_integer,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl


def sum_type(bound: BoundArguments) -> Type:
    """Return the type of the sum."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return decimal_sums.decimal_sum_type(type)
    return BIGINT if is_integer(type) else DOUBLE


def avg_type(bound: BoundArguments) -> Type:
    """Return the type of the average."""
    type = bound.types[0]
    return decimal_sums.decimal_average_type(type) if isinstance(type, Decimal) else DOUBLE


def build_sum(bound: BoundArguments) -> Accumulator:
    """Build sum(x)."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return decimal_sums.build_sum(type, decimal_sums.build_sum_finish(type))
    return _build_total(sum_type(bound), _finish_sum, is_subtractable=is_integer(type))


def build_distinct_sum(bound: BoundArguments) -> Accumulator:
    """Build sum(distinct x)."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return decimal_sums.build_distinct_sum(type, decimal_sums.build_sum_finish(type))
    return _build_distinct_total(type, sum_type(bound), _finish_sum)


def build_average(bound: BoundArguments) -> Accumulator:
    """Build avg(x): integers are summed as doubles, as in Spark."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return decimal_sums.build_sum(type, decimal_sums.build_average_finish(type))
    return _build_total(DOUBLE, _finish_mean, is_subtractable=type in _SHORT_INTEGERS)


def build_distinct_average(bound: BoundArguments) -> Accumulator:
    """Build avg(distinct x)."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return decimal_sums.build_distinct_sum(type, decimal_sums.build_average_finish(type))
    return _build_distinct_total(type, DOUBLE, _finish_mean)


def build_try_sum(bound: BoundArguments) -> Accumulator:
    """Build try_sum(x): NULL where the sum of integers is no bigint, whatever the order of rows."""
    if not is_integer(bound.types[0]):
        return build_sum(bound)

    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        count = rows.value.count().cast(to_polars(BIGINT))
        return rows.value.cast(to_polars(_LONG_SUM)).sum(), count

    return Accumulator(
        state=(("sum", _LONG_SUM), ("count", BIGINT)),
        partial=partial,
        merge=lambda sum, count: (sum.sum(), count.sum()),
        finish=_finish_try_sum,
        is_subtractable=True,
    )


_LONG_SUM = Decimal(MAX_DIGITS, 0)


def _finish_try_sum(sum: pl.Expr, count: pl.Expr) -> pl.Expr:
    import polars as pl

    from headrace.core.expressions.arithmetic.decimals import to_unscaled

    return pl.when(count > 0).then(to_unscaled(sum).cast(to_polars(BIGINT), strict=False))


def spark_form_of_try_sum(bound: BoundArguments) -> str:
    """Return the Spark form of `try_sum`: integers are summed as decimals, since Spark's result is
    NULL if some sum on the way is no bigint."""
    if not is_integer(bound.types[0]):
        return spark_form_of_sum(bound)
    return "try_cast(sum({distinct}cast({0} as decimal(19,0))){filter} as bigint)"


def spark_form_of_sum(bound: BoundArguments) -> str:
    """Return the Spark form of `sum`: none for long decimals, which may overflow on the way."""
    type = bound.types[0]
    return (
        NO_SPARK_FORM if isinstance(type, Decimal) and _can_overflow_in_spark(type) else AS_WRITTEN
    )


def spark_form_of_average(bound: BoundArguments) -> str:
    """Return the Spark form of `avg`: short decimals are cast to longer ones, since Spark averages
    short ones as doubles.

    That rounds a double, whereas the average of longer decimals is rounded itself.
    """
    type = bound.types[0]
    if not isinstance(type, Decimal):
        return AS_WRITTEN
    if type.precision > _MAX_SHORT_DIGITS:
        return NO_SPARK_FORM if _can_overflow_in_spark(type) else AS_WRITTEN
    longer = Decimal(_MAX_SHORT_DIGITS + 1, type.scale)
    return f"cast(avg({{distinct}}cast({{0}} as {longer})){{filter}} as {avg_type(bound)})"


_MAX_SHORT_DIGITS = 11
"""Spark averages decimals of up to this many digits as doubles."""


def _can_overflow_in_spark(type: Decimal) -> bool:
    return type.precision > MAX_DIGITS - decimal_sums.CARRY_DIGITS


_SHORT_INTEGERS = (TINYINT, SMALLINT, INT)
"""Integers whose sums as doubles are exact, for groups of at least four million rows."""


def _build_total(
    type: Type, finish: Callable[[pl.Expr, pl.Expr], pl.Expr], *, is_subtractable: bool = False
) -> Accumulator:
    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        count = rows.value.count().cast(to_polars(BIGINT))
        return rows.value.cast(to_polars(type)).sum(), count

    return Accumulator(
        state=(("sum", type), ("count", BIGINT)),
        partial=partial,
        merge=lambda sum, count: (sum.sum(), count.sum()),
        finish=finish,
        is_subtractable=is_subtractable,
        is_additive=True,
    )


def _build_distinct_total(
    type: Type, wide: Type, finish: Callable[[pl.Expr, pl.Expr], pl.Expr]
) -> Accumulator:
    values = to_polars(Array(wide))
    return build_distinct_values(
        type,
        lambda set: finish(set.cast(values).list.sum(), set.list.len()),
        _build_total(wide, finish),
    )


def _finish_sum(sum: pl.Expr, count: pl.Expr) -> pl.Expr:
    import polars as pl

    return pl.when(count > 0).then(sum)


def _finish_mean(sum: pl.Expr, count: pl.Expr) -> pl.Expr:
    import polars as pl

    return pl.when(count > 0).then(sum / count)
