"""Sums and averages of decimals, exact, on unscaled 128-bit integers.

For up to 28 digits, ten more digits are enough for any number of rows. Longer decimals are summed
as two numbers, of their leading and of their last 19 digits, so that nothing overflows on the way:
the result is NULL where, and only where, the final sum has more than 38 digits. Spark also returns
NULL when it overflows on the way, which depends on the order of its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.aggregates.accumulator import Accumulator, AccumulatorInput
from headrace.core.aggregates.counting import build_distinct_values
from headrace.core.types.data_types import BIGINT, MAX_DIGITS, Array, Decimal, to_polars

if TYPE_CHECKING:
    import polars as pl

# A function of the unscaled sum, NULL where it has too many digits, and the count to the result.
FinishUnits: TypeAlias = "Callable[[pl.Expr, pl.Expr], pl.Expr]"

CARRY_DIGITS = 10
_HALF_DIGITS = 19
_HALF_TYPE = Decimal(MAX_DIGITS, 0)


def decimal_sum_type(type: Decimal) -> Decimal:
    """Return the type of the sum of decimals of this type."""
    return Decimal(min(type.precision + CARRY_DIGITS, MAX_DIGITS), type.scale)


def decimal_average_type(type: Decimal) -> Decimal:
    """Return the type of their average: four digits more, before and after the point."""
    return Decimal(min(type.precision + 4, MAX_DIGITS), min(type.scale + 4, MAX_DIGITS))


def build_sum_finish(type: Decimal) -> FinishUnits:
    """Return the finish of a sum: NULL without values."""
    import polars as pl

    from headrace.core.expressions.arithmetic.decimals import from_unscaled

    return lambda units, count: from_unscaled(
        pl.when(count > 0).then(units), decimal_sum_type(type)
    )


def build_average_finish(type: Decimal) -> FinishUnits:
    """Return the finish of an average, rounded half away from zero: first whole units, then those
    of the remainder."""
    import polars as pl

    from headrace.core.expressions.arithmetic.decimals import append_zeros, from_unscaled, int128
    from headrace.core.expressions.batch_forms import evaluate_once

    result = decimal_average_type(type)
    digits = result.scale - type.scale

    def finish(units: pl.Expr, count: pl.Expr) -> pl.Expr:
        rows = pl.when(count > 0).then(count).cast(pl.Int128)
        size = units.abs()
        quotient = size.truncdiv(rows)
        rest = append_zeros(size - quotient * rows, digits) * int128(2) + rows
        fits = quotient < int128(10 ** (MAX_DIGITS - digits))
        number = append_zeros(pl.when(fits).then(quotient), digits) + rest.truncdiv(
            rows * int128(2)
        )
        return from_unscaled(pl.when(units < 0).then(int128(0) - number).otherwise(number), result)

    return evaluate_once(finish, result)


def build_sum(type: Decimal, finish: FinishUnits) -> Accumulator:
    """Build the accumulator that adds all values."""
    if type.precision + CARRY_DIGITS > MAX_DIGITS:
        return _build_split_sum(finish)
    wide = Decimal(MAX_DIGITS, type.scale)

    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        count = rows.value.count().cast(to_polars(BIGINT))
        return rows.value.cast(to_polars(wide)).sum(), count

    return Accumulator(
        state=(("sum", wide), ("count", BIGINT)),
        partial=partial,
        merge=lambda sum, count: (sum.sum(), count.sum()),
        finish=lambda sum, count: finish(_to_unscaled(sum), count),
        is_subtractable=True,
    )


def build_distinct_sum(type: Decimal, finish: FinishUnits) -> Accumulator:
    """Build the accumulator that adds each distinct value once."""
    if type.precision + CARRY_DIGITS > MAX_DIGITS:
        return build_distinct_values(type, _build_split_set_finish(finish), build_sum(type, finish))
    wide = to_polars(Array(Decimal(MAX_DIGITS, type.scale)))
    return build_distinct_values(
        type,
        lambda set: finish(_to_unscaled(set.cast(wide).list.sum()), set.list.len()),
        build_sum(type, finish),
    )


def _build_split_sum(finish: FinishUnits) -> Accumulator:
    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        from headrace.core.expressions.arithmetic.decimals import from_unscaled

        high, low = _split_halves(rows.value)
        sums = from_unscaled(high, _HALF_TYPE).sum(), from_unscaled(low, _HALF_TYPE).sum()
        return (*sums, rows.value.count().cast(to_polars(BIGINT)))

    return Accumulator(
        state=(("high", _HALF_TYPE), ("low", _HALF_TYPE), ("count", BIGINT)),
        partial=partial,
        merge=lambda high, low, count: (high.sum(), low.sum(), count.sum()),
        finish=lambda high, low, count: finish(
            _join_halves(_to_unscaled(high), _to_unscaled(low)), count
        ),
        is_subtractable=True,
    )


def _build_split_set_finish(finish: FinishUnits) -> Callable[[pl.Expr], pl.Expr]:
    def finish_set(set: pl.Expr) -> pl.Expr:
        import polars as pl

        high, low = (set.list.eval(half).list.sum() for half in _split_halves(pl.element()))
        return finish(_join_halves(high, low), set.list.len())

    return finish_set


def _to_unscaled(value: pl.Expr) -> pl.Expr:
    from headrace.core.expressions.arithmetic.decimals import to_unscaled

    return to_unscaled(value)


def _split_halves(value: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Split numbers into their last 19 digits, never negative, and the digits before them."""
    from headrace.core.expressions.arithmetic.decimals import int128

    units = _to_unscaled(value)
    return units // int128(10**_HALF_DIGITS), units % int128(10**_HALF_DIGITS)


def _join_halves(high: pl.Expr, low: pl.Expr) -> pl.Expr:
    """Combine the sums of both halves into one number; NULL where it has more than 38 digits."""
    import polars as pl

    from headrace.core.expressions.arithmetic.decimals import append_zeros, int128

    first, rest = high + low // int128(10**_HALF_DIGITS), low % int128(10**_HALF_DIGITS)
    # Far below the limit of 128 bits; the exact limit is checked in the conversion to a decimal.
    near = first.abs() <= int128(10**_HALF_DIGITS)
    units = append_zeros(pl.when(near).then(first), _HALF_DIGITS) + rest
    return pl.when(units.abs() < int128(10**MAX_DIGITS)).then(units)
