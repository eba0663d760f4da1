"""Sums and averages of decimals, exact, on unscaled 128-bit integers.

For up to 28 digits, ten more digits are enough for any number of rows. Longer decimals are summed
as two numbers, of their leading and of their last 19 digits, so that nothing overflows on the way:
the result is NULL where, and only where, the final sum has more than 38 digits. Spark also returns
NULL when it overflows on the way, which depends on the order of its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.aggregates.counting import distinct_values
from headrace.core.aggregates.triple import Rows, Triple
from headrace.core.types import BIGINT, MAX_DIGITS, Array, Decimal, to_polars

if TYPE_CHECKING:
    import polars as pl

# A function of the unscaled sum, NULL where it has too many digits, and the count to the result.
Finish: TypeAlias = "Callable[[pl.Expr, pl.Expr], pl.Expr]"

ROOM = 10
_HALF = 19
_LIMB = Decimal(MAX_DIGITS, 0)


def sum_of(type: Decimal) -> Decimal:
    """Return the type of the sum of decimals of this type."""
    return Decimal(min(type.precision + ROOM, MAX_DIGITS), type.scale)


def average_of(type: Decimal) -> Decimal:
    """Return the type of their average: four digits more, before and after the point."""
    return Decimal(min(type.precision + 4, MAX_DIGITS), min(type.scale + 4, MAX_DIGITS))


def finish_sum(type: Decimal) -> Finish:
    """Return the finish of a sum: NULL without values."""
    import polars as pl

    from headrace.core.expressions.exact import as_decimal

    return lambda units, count: as_decimal(pl.when(count > 0).then(units), sum_of(type))


def finish_average(type: Decimal) -> Finish:
    """Return the finish of an average, rounded half away from zero: first whole units, then those
    of the remainder."""
    import polars as pl

    from headrace.core.expressions.exact import as_decimal, scaled_up, whole

    result = average_of(type)
    digits = result.scale - type.scale

    def finish(units: pl.Expr, count: pl.Expr) -> pl.Expr:
        rows = pl.when(count > 0).then(count).cast(pl.Int128)
        size = units.abs()
        quotient = size.truncdiv(rows)
        rest = scaled_up(size - quotient * rows, digits) * whole(2) + rows
        fits = quotient < whole(10 ** (MAX_DIGITS - digits))
        number = scaled_up(pl.when(fits).then(quotient), digits) + rest.truncdiv(rows * whole(2))
        return as_decimal(pl.when(units < 0).then(whole(0) - number).otherwise(number), result)

    return finish


def added(type: Decimal, finish: Finish) -> Triple:
    """Build the accumulator that adds all values."""
    if type.precision + ROOM > MAX_DIGITS:
        return _added_in_halves(finish)
    wide = Decimal(MAX_DIGITS, type.scale)

    def partial(rows: Rows) -> tuple[pl.Expr, ...]:
        count = rows.value.count().cast(to_polars(BIGINT))
        return rows.value.cast(to_polars(wide)).sum(), count

    return Triple(
        state=(("sum", wide), ("count", BIGINT)),
        partial=partial,
        merge=lambda sum, count: (sum.sum(), count.sum()),
        finish=lambda sum, count: finish(_units(sum), count),
    )


def added_once(type: Decimal, finish: Finish) -> Triple:
    """Build the accumulator that adds each distinct value once."""
    if type.precision + ROOM > MAX_DIGITS:
        return distinct_values(type, _finish_halves_of_set(finish))
    wide = to_polars(Array(Decimal(MAX_DIGITS, type.scale)))
    return distinct_values(
        type, lambda set: finish(_units(set.cast(wide).list.sum()), set.list.len())
    )


def _added_in_halves(finish: Finish) -> Triple:
    def partial(rows: Rows) -> tuple[pl.Expr, ...]:
        from headrace.core.expressions.exact import as_decimal

        high, low = _halves(rows.value)
        sums = as_decimal(high, _LIMB).sum(), as_decimal(low, _LIMB).sum()
        return (*sums, rows.value.count().cast(to_polars(BIGINT)))

    return Triple(
        state=(("high", _LIMB), ("low", _LIMB), ("count", BIGINT)),
        partial=partial,
        merge=lambda high, low, count: (high.sum(), low.sum(), count.sum()),
        finish=lambda high, low, count: finish(_whole(_units(high), _units(low)), count),
    )


def _finish_halves_of_set(finish: Finish) -> Callable[[pl.Expr], pl.Expr]:
    def finished(set: pl.Expr) -> pl.Expr:
        import polars as pl

        high, low = (set.list.eval(half).list.sum() for half in _halves(pl.element()))
        return finish(_whole(high, low), set.list.len())

    return finished


def _units(value: pl.Expr) -> pl.Expr:
    from headrace.core.expressions.exact import unscaled

    return unscaled(value)


def _halves(value: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Split numbers into their last 19 digits, never negative, and the digits before them."""
    from headrace.core.expressions.exact import whole

    units = _units(value)
    return units // whole(10**_HALF), units % whole(10**_HALF)


def _whole(high: pl.Expr, low: pl.Expr) -> pl.Expr:
    """Combine the sums of both halves into one number; NULL where it has more than 38 digits."""
    import polars as pl

    from headrace.core.expressions.exact import scaled_up, whole

    first, rest = high + low // whole(10**_HALF), low % whole(10**_HALF)
    # Far below the limit of 128 bits; the exact limit is checked in the conversion to a decimal.
    near = first.abs() <= whole(10**_HALF)
    units = scaled_up(pl.when(near).then(first), _HALF) + rest
    return pl.when(units.abs() < whole(10**MAX_DIGITS)).then(units)
