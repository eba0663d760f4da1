"""Rounding as Spark does it: a double counts as the shortest decimal number that stands for it.

Java prints that number and rounds its digits. Printing is slow, so it is left to the few doubles
that need it. While a double has fewer than 2 ** 52 tenths of the last place kept, at most one
number with one digit more than is kept rounds to that double. So the double is halfway exactly when
it equals the double nearest to the halfway number, and else it is on the same side as its digits.
A double of 2 ** 54 or more of the last place has no digit left to drop.
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
"""Doubles are rounded to that many digits: powers of ten are exact doubles up to the 22nd."""


def round_double(value: pl.Series, digits: int, *, half_even: bool = False) -> pl.Series:
    """A column of doubles, or of floats up to 12 decimals, rounded half up or half to even."""
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
    """A column of doubles or floats as decimals, rounded half up, null where they do not fit.

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
    """How many of the last place, as whole doubles; right for doubles with few of them."""
    units = _moved(size, digits).cast(pl.Int64, strict=False).cast(pl.Float64)
    halfway = _moved(units * 10.0 + 5.0, -digits - 1)
    up = size >= halfway
    if half_even:
        up = (size > halfway) | ((size == halfway) & (units % 2.0 == 1.0))
    return units + up.cast(pl.Float64)


def _printed(size: pl.Series, where: pl.Series) -> pl.Series:
    """The shortest digits of some of the doubles."""
    return pl.select(pl.when(where).then(size).cast(pl.String)).to_series()


def _double(units: pl.Series, digits: int) -> pl.Series:
    """The doubles nearest to so many of the last place."""
    if digits < 0:
        return (units * pl.Series([10**-digits], dtype=pl.Int128)).cast(pl.Float64)
    return units.reinterpret(dtype=pl.Decimal(MAX_DIGITS, digits)).cast(pl.Float64)


def _moved(value: pl.Series, digits: int) -> pl.Series:
    """The value with its point moved to the right; a single exactly rounded operation."""
    return value * 10.0**digits if digits >= 0 else over(value, 10.0**-digits)


def _limit(units: float, digits: int) -> float:
    """So many of the last place, as a number."""
    return units / 10.0**digits if digits >= 0 else units * 10.0**-digits


def of_decimal(source: Decimal, digits: int, result: Decimal, *, half_even: bool) -> Form:
    """A decimal rounded at that digit, which may stand before the point."""
    kept = min(source.scale, digits)
    cut = source.scale - kept
    return lambda value: _placed(halved(unscaled(value), cut, half_even=half_even), kept, result)


def stepper(source: Decimal, digits: int, result: Decimal, *, up: bool) -> Form:
    """The nearest decimal of so many digits that is not below, or not above."""
    kept = min(source.scale, digits)
    cut = source.scale - kept
    return lambda value: _placed(stepped(unscaled(value), cut, up=up), kept, result)


def _placed(number: pl.Expr, kept: int, result: Decimal) -> pl.Expr:
    """So many of the last place kept, as a decimal; null where it has too few digits."""
    if -kept > MAX_DIGITS:
        return as_decimal(pl.when(number == 0).then(number), result)
    return as_decimal(scaled_up(number, max(-kept, 0)), result)


def of_integer(digits: int, type: pl.DataType, *, half_even: bool) -> Form:
    """An integer rounded at a digit before the point; what does not fit any more wraps."""
    if digits >= 0:
        return lambda value: value
    if -digits > MOST_DIGITS:
        return lambda value: value * pl.lit(0, dtype=type)

    def form(value: pl.Expr) -> pl.Expr:
        number = halved(value.cast(pl.Int128), -digits, half_even=half_even)
        return scaled_up(number, -digits).cast(type, wrap_numerical=True)

    return form
