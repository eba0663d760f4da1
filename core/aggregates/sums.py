"""Sums and averages.

Whole numbers add up to a bigint that wraps, decimals exactly to ten digits more, all else as
doubles. A count beside the sum tells an empty group, which is NULL, from one that adds up to 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.aggregates.counting import distinct_values
from headrace.core.aggregates.triple import Rows, Triple
from headrace.core.expressions.signature import Bound
from headrace.core.expressions.typed import ExpressionError
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

SUM_DIGITS = MAX_DIGITS - 10
"""Decimals of more digits may add up to more than 38, where Spark's result depends on the order."""

AVG_DIGITS = 22
"""Averages of decimals of more digits are rounded twice by Spark, now and then to another digit."""


def sum_type(bound: Bound) -> Type:
    """What values of that type add up to."""
    return _total_type(bound.types[0])


def _total_type(type: Type) -> Type:
    if isinstance(type, Decimal):
        return Decimal(min(type.precision + 10, MAX_DIGITS), type.scale)
    return BIGINT if is_integer(type) else DOUBLE


def avg_type(bound: Bound) -> Type:
    """An average of decimals has four digits more, before and after the point."""
    type = bound.types[0]
    if isinstance(type, Decimal):
        return Decimal(min(type.precision + 4, MAX_DIGITS), min(type.scale + 4, MAX_DIGITS))
    return DOUBLE


def check_digits(name: str, most: int) -> Callable[[Bound], None]:
    """Refuse decimals for which Spark's own answer depends on how the rows are cut."""

    def check(bound: Bound) -> None:
        type = bound.types[0]
        if isinstance(type, Decimal) and type.precision > most:
            message = f"{name} is exact for decimals of up to {most} digits, got {type}"
            fewer = Decimal(most, min(type.scale, most))
            raise ExpressionError(message, bound.arguments[0].span, f"cast(... as {fewer})")

    return check


def total(bound: Bound) -> Triple:
    """sum(x)."""
    return _summed(_total_type(bound.types[0]), _finish_sum(bound))


def average(bound: Bound) -> Triple:
    """avg(x): whole numbers are added as doubles, as Spark does."""
    return _summed(_avg_state(bound), _finish_avg(bound))


def distinct_total(bound: Bound) -> Triple:
    """sum(distinct x)."""
    return _of_set(bound, _total_type(bound.types[0]), _finish_sum(bound))


def distinct_average(bound: Bound) -> Triple:
    """avg(distinct x)."""
    return _of_set(bound, _avg_state(bound), _finish_avg(bound))


def _avg_state(bound: Bound) -> Type:
    return _total_type(bound.types[0]) if isinstance(bound.types[0], Decimal) else DOUBLE


def _summed(type: Type, finish: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Triple:
    wide = _wide(type)

    def partial(rows: Rows) -> tuple[pl.Expr, ...]:
        return rows.value.cast(to_polars(wide)).sum(), rows.value.count().cast(to_polars(BIGINT))

    return Triple(
        state=(("sum", wide), ("count", BIGINT)),
        partial=partial,
        merge=lambda sum, count: (sum.sum(), count.sum()),
        finish=finish,
    )


def _of_set(bound: Bound, type: Type, finish: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Triple:
    whole = to_polars(Array(_wide(type)))
    return distinct_values(
        bound.types[0], lambda set: finish(set.cast(whole).list.sum(), set.list.len())
    )


def _wide(type: Type) -> Type:
    """The type in which Polars adds: decimals have all 38 digits."""
    return Decimal(MAX_DIGITS, type.scale) if isinstance(type, Decimal) else type


def _finish_sum(bound: Bound) -> Callable[[pl.Expr, pl.Expr], pl.Expr]:
    import polars as pl

    type = _total_type(bound.types[0])

    def finish(sum: pl.Expr, count: pl.Expr) -> pl.Expr:
        return pl.when(count > 0).then(sum).cast(to_polars(type))

    return finish


def _finish_avg(bound: Bound) -> Callable[[pl.Expr, pl.Expr], pl.Expr]:
    import polars as pl

    type = bound.types[0]
    if isinstance(type, Decimal):
        return _decimal_average(type)
    return lambda sum, count: pl.when(count > 0).then(sum / count)


def _decimal_average(type: Decimal) -> Callable[[pl.Expr, pl.Expr], pl.Expr]:
    """Rounded half away from zero at the fourth digit more, in whole numbers of 128 bits."""
    import polars as pl

    result = Decimal(type.precision + 4, type.scale + 4)
    unit = pl.lit(f"1e-{result.scale}").cast(pl.Decimal(MAX_DIGITS, result.scale))

    def finish(sum: pl.Expr, count: pl.Expr) -> pl.Expr:
        units = sum.to_physical() * 10_000
        rows = pl.when(count > 0).then(count).cast(pl.Int128)
        rounded = (units.abs() * 2 + rows) // (rows * 2) * units.sign()
        return (rounded.cast(pl.Decimal(MAX_DIGITS, 0)) * unit).cast(to_polars(result))

    return finish
