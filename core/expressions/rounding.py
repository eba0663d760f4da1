"""Rounding as in Spark: a double counts as the shortest decimal number that stands for it.

Java prints that number and rounds its digits. Printing is slow, so it is left to the few doubles
that need it. While a double is less than 2 ** 52 tenths of the last digit, at most one number with
one more digit rounds to that double. So the double is halfway exactly when it equals the double
nearest to the halfway number, and otherwise it is on the same side as its digits. A double of 2 **
54 or more times the last digit has no digit left to drop.
"""

from __future__ import annotations

import polars as pl

from headrace.core.expressions.digits import unscaled_of
from headrace.core.expressions.exact import (
    as_decimal,
    halved,
    scaled_up,
    stepped,
    unscaled,
)
from headrace.core.expressions.floating import over
from headrace.core.expressions.typed import Form
from headrace.core.types import MAX_DIGITS, Decimal, to_polars

_EASY = 2.0**51 / 10
_FULL = 2.0**54

MOST_DIGITS = 20
"""The most digits to which doubles are rounded: powers of ten are exact doubles up to the 22nd."""


def round_double(value: pl.Series, digits: int, *, half_even: bool = False) -> pl.Series:
    """Round a column of doubles, or of floats up to 12 decimals, half up or half to even."""
    size = value.cast(pl.Float64).abs()
    full = size < _limit(_FULL, digits)
    rounded = _moved(_easy_units(size, digits, half_even=half_even), -digits)
    hard = full & (size >= _limit(_EASY, digits))
    if hard.any():
        units = unscaled_of(_printed(size, hard), digits, half_even=half_even)
        rounded = rounded.zip_with(~hard, _double(units, digits))
    rounded = rounded.zip_with((value >= 0.0) | (rounded == 0.0), 0.0 - rounded)
    return rounded.cast(value.dtype).zip_with(full, value)


def double_to_decimal(value: pl.Series, target: Decimal) -> pl.Series:
    """Convert doubles or floats to decimals, rounded half up, null where they do not fit.

    Java 17 and 18 print some doubles past 2 ** 53 with a digit too many, which Spark then casts.
    """
    wide = value.cast(pl.Float64)
    size = wide.abs()
    digits = target.scale
    hard = size >= (_limit(_EASY, digits) if digits <= MOST_DIGITS else 0.0)
    units = _easy_units(size, min(digits, MOST_DIGITS)).cast(pl.Int128, strict=False)
    if hard.any():
        units = units.zip_with(~hard, unscaled_of(_printed(size, hard), digits))
    units = units.set(units >= 10**target.precision, None)
    zero = pl.Series([0], dtype=pl.Int128)
    return units.zip_with(wide >= 0.0, zero - units).reinterpret(dtype=to_polars(target))


def _easy_units(size: pl.Series, digits: int, *, half_even: bool = False) -> pl.Series:
    """Return the count of units of the last digit, as whole doubles; exact for doubles with few
    units."""
    units = _moved(size, digits).cast(pl.Int64, strict=False).cast(pl.Float64)
    halfway = _moved(units * 10.0 + 5.0, -digits - 1)
    up = size >= halfway
    if half_even:
        up = (size > halfway) | ((size == halfway) & (units % 2.0 == 1.0))
    return units + up.cast(pl.Float64)


def _printed(size: pl.Series, where: pl.Series) -> pl.Series:
    """Return the shortest digits of some of the doubles."""
    return pl.select(pl.when(where).then(size).cast(pl.String)).to_series()


def _double(units: pl.Series, digits: int) -> pl.Series:
    """Return the doubles nearest to these numbers of units of the last digit."""
    if digits < 0:
        return (units * pl.Series([10**-digits], dtype=pl.Int128)).cast(pl.Float64)
    return units.reinterpret(dtype=pl.Decimal(MAX_DIGITS, digits)).cast(pl.Float64)


def _moved(value: pl.Series, digits: int) -> pl.Series:
    """Shift the decimal point to the right, by a single exactly rounded operation."""
    return value * 10.0**digits if digits >= 0 else over(value, 10.0**-digits)


def _limit(units: float, digits: int) -> float:
    """Convert a number of units of the last digit to a number."""
    return units / 10.0**digits if digits >= 0 else units * 10.0**-digits


def of_decimal(source: Decimal, digits: int, result: Decimal, *, half_even: bool) -> Form:
    """Return the form that rounds a decimal at this digit, which may be before the point."""
    scale = min(source.scale, digits)
    cut = source.scale - scale
    return lambda value: _placed(halved(unscaled(value), cut, half_even=half_even), scale, result)


def stepper(source: Decimal, digits: int, result: Decimal, *, up: bool) -> Form:
    """Return the form that rounds a decimal up, or down, to this many digits."""
    scale = min(source.scale, digits)
    cut = source.scale - scale
    return lambda value: _placed(stepped(unscaled(value), cut, up=up), scale, result)


def _placed(number: pl.Expr, scale: int, result: Decimal) -> pl.Expr:
    """Convert units of the last digit to a decimal; null where it has too few digits."""
    if -scale > MAX_DIGITS:
        return as_decimal(pl.when(number == 0).then(number), result)
    return as_decimal(scaled_up(number, max(-scale, 0)), result)


def of_integer(digits: int, type: pl.DataType, *, half_even: bool) -> Form:
    """Return the form that rounds an integer at a digit before the point; overflow wraps."""
    if digits >= 0:
        return lambda value: value
    if -digits > MOST_DIGITS:
        return lambda value: value * pl.lit(0, dtype=type)

    def form(value: pl.Expr) -> pl.Expr:
        number = halved(value.cast(pl.Int128), -digits, half_even=half_even)
        return scaled_up(number, -digits).cast(type, wrap_numerical=True)

    return form
