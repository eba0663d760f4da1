"""Sums and averages of intervals: NULL where the sum of all is no interval.

Spark fails there, or if some sum on the way is none; here the order of rows does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.aggregates.accumulator import Accumulator, AccumulatorInput, BuildAccumulator
from headrace.core.expressions.signature import BoundArguments
from headrace.core.types import calendar
from headrace.core.types.data_types import (
    BIGINT,
    DAY_TIME,
    MAX_DIGITS,
    YEAR_MONTH,
    Array,
    Decimal,
    Interval,
    Type,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl

_LONG_SUM = Decimal(MAX_DIGITS, 0)


def widen_interval(type: Type) -> Type:
    """Return the interval of all months, or of all days and times, for any other one."""
    return YEAR_MONTH if isinstance(type, Interval) and type.is_months else DAY_TIME


def interval_type(bound: BoundArguments) -> Type:
    """Return the type of a sum, an average or a percentile of intervals, of an array if several."""
    type = widen_interval(bound.column_arguments[0].type)
    return Array(type) if isinstance(bound.result, Array) else type


def _build_total(finish: Callable[[pl.Expr, pl.Expr, Type], pl.Expr]) -> BuildAccumulator:
    """Return the builder of a sum; `finish` gets it with the number of values and its type."""

    def build(bound: BoundArguments) -> Accumulator:
        type = bound.types[0]

        def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
            units = calendar.to_bigint(rows.value).cast(to_polars(_LONG_SUM))
            return units.sum(), rows.value.count().cast(to_polars(BIGINT))

        return Accumulator(
            state=(("sum", _LONG_SUM), ("count", BIGINT)),
            partial=partial,
            merge=lambda sum, count: (sum.sum(), count.sum()),
            finish=lambda sum, count: finish(sum, count, widen_interval(type)),
        )

    return build


def _finish_sum(sum: pl.Expr, count: pl.Expr, type: Type) -> pl.Expr:
    import polars as pl

    from headrace.core.expressions.arithmetic.decimals import to_unscaled

    return pl.when(count > 0).then(to_interval(to_unscaled(sum), type))


def _finish_average(sum: pl.Expr, count: pl.Expr, type: Type) -> pl.Expr:
    """Divide the sum, rounding half away from zero."""
    import polars as pl

    from headrace.core.expressions.arithmetic.decimals import to_unscaled

    total, number = to_unscaled(sum), calendar.to_int128(count)
    is_interval = to_interval(total, type).is_not_null()
    mean = (total.abs() * 2 + number).truncdiv(number * 2) * total.sign()
    return pl.when((count > 0) & is_interval).then(to_interval(mean, type))


def to_interval(units: pl.Expr, type: Type) -> pl.Expr:
    """Return the interval of a number of months or microseconds; NULL if there is none."""
    return calendar.to_int(units) if type == YEAR_MONTH else calendar.to_interval(units)


build_sum = _build_total(_finish_sum)
build_average = _build_total(_finish_average)
