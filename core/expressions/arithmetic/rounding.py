"""Rounding as in Spark: a double counts as the shortest decimal number that stands for it.

Java prints that number and rounds its digits. Printing is slow, so it is left to the few doubles
that need it. While a double is less than 2 ** 52 tenths of the last digit, at most one number with
one more digit rounds to that double. So the double is halfway exactly when it equals the double
nearest to the halfway number, and otherwise it is on the same side as its digits. A double of 2 **
54 or more times the last digit has no digit left to drop.
"""

from __future__ import annotations

import polars as pl

from headrace.core.expressions.arithmetic.decimal_text import parse_unscaled
from headrace.core.expressions.arithmetic.decimals import (
    append_zeros,
    from_unscaled,
    round_half,
    round_up_or_down,
    to_unscaled,
)
from headrace.core.expressions.arithmetic.doubles import divide_by
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import MAX_DIGITS, Decimal, to_polars

_EASY_UNITS = 2.0**51 / 10
_INTEGRAL_UNITS = 2.0**54

MAX_DOUBLE_DIGITS = 20
"""The most digits to which doubles are rounded: powers of ten are exact doubles up to the 22nd."""


def round_double(value: pl.Series, digits: int, *, half_even: bool = False) -> pl.Series:
    """Round a column of doubles, or of floats up to 12 decimals, half up or half to even."""
    size = value.cast(pl.Float64).abs()
    full = size < _units_to_float(_INTEGRAL_UNITS, digits)
    rounded = _shift_point(_count_units(size, digits, half_even=half_even), -digits)
    hard = full & (size >= _units_to_float(_EASY_UNITS, digits))
    if hard.any():
        units = parse_unscaled(_shortest_digits(size, hard), digits, half_even=half_even)
        rounded = rounded.zip_with(~hard, _units_to_double(units, digits))
    rounded = rounded.zip_with((value >= 0.0) | (rounded == 0.0), 0.0 - rounded)
    return rounded.cast(value.dtype).zip_with(full, value)


def double_to_decimal(value: pl.Series, target: Decimal) -> pl.Series:
    """Convert doubles or floats to decimals, rounded half up, null where they do not fit.

    Java 17 and 18 print some doubles past 2 ** 53 with a digit too many, which Spark then casts.
    """
    wide = value.cast(pl.Float64)
    size = wide.abs()
    digits = target.scale
    hard = size >= (_units_to_float(_EASY_UNITS, digits) if digits <= MAX_DOUBLE_DIGITS else 0.0)
    units = _count_units(size, min(digits, MAX_DOUBLE_DIGITS)).cast(pl.Int128, strict=False)
    if hard.any():
        units = units.zip_with(~hard, parse_unscaled(_shortest_digits(size, hard), digits))
    units = units.set(units >= 10**target.precision, None)
    zero = pl.Series([0], dtype=pl.Int128)
    return units.zip_with(wide >= 0.0, zero - units).reinterpret(dtype=to_polars(target))


def _count_units(size: pl.Series, digits: int, *, half_even: bool = False) -> pl.Series:
    """Return the count of units of the last digit, as whole doubles; exact for doubles with few
    units."""
    units = _shift_point(size, digits).cast(pl.Int64, strict=False).cast(pl.Float64)
    halfway = _shift_point(units * 10.0 + 5.0, -digits - 1)
    up = size >= halfway
    if half_even:
        up = (size > halfway) | ((size == halfway) & (units % 2.0 == 1.0))
    return units + up.cast(pl.Float64)


def _shortest_digits(size: pl.Series, where: pl.Series) -> pl.Series:
    """Return the shortest digits of some of the doubles."""
    return pl.select(pl.when(where).then(size).cast(pl.String)).to_series()


def _units_to_double(units: pl.Series, digits: int) -> pl.Series:
    """Return the doubles nearest to these numbers of units of the last digit."""
    if digits < 0:
        return (units * pl.Series([10**-digits], dtype=pl.Int128)).cast(pl.Float64)
    return units.reinterpret(dtype=pl.Decimal(MAX_DIGITS, digits)).cast(pl.Float64)


def _shift_point(value: pl.Series, digits: int) -> pl.Series:
    """Shift the decimal point to the right, by a single exactly rounded operation."""
    return value * 10.0**digits if digits >= 0 else divide_by(value, 10.0**-digits)


def _units_to_float(units: float, digits: int) -> float:
    """Convert a number of units of the last digit to a number."""
    return units / 10.0**digits if digits >= 0 else units * 10.0**-digits


def build_decimal_rounding(
    source: Decimal, digits: int, result: Decimal, *, half_even: bool
) -> PolarsForm:
    """Return the form that rounds a decimal at this digit, which may be before the point."""
    scale = min(source.scale, digits)
    cut = source.scale - scale
    return lambda value: _units_to_decimal(
        round_half(to_unscaled(value), cut, half_even=half_even), scale, result
    )


def build_rounding_up_or_down(
    source: Decimal, digits: int, result: Decimal, *, up: bool
) -> PolarsForm:
    """Return the form that rounds a decimal up, or down, to this many digits."""
    scale = min(source.scale, digits)
    cut = source.scale - scale
    return lambda value: _units_to_decimal(
        round_up_or_down(to_unscaled(value), cut, up=up), scale, result
    )


def _units_to_decimal(number: pl.Expr, scale: int, result: Decimal) -> pl.Expr:
    """Convert units of the last digit to a decimal; null where it has too few digits."""
    if -scale > MAX_DIGITS:
        return from_unscaled(pl.when(number == 0).then(number), result)
    return from_unscaled(append_zeros(number, max(-scale, 0)), result)


def build_integer_rounding(digits: int, type: pl.DataType, *, half_even: bool) -> PolarsForm:
    """Return the form that rounds an integer at a digit before the point; overflow wraps."""
    if digits >= 0:
        return lambda value: value
    if -digits > MAX_DOUBLE_DIGITS:
        return lambda value: value * pl.lit(0, dtype=type)

    def form(value: pl.Expr) -> pl.Expr:
        number = round_half(value.cast(pl.Int128), -digits, half_even=half_even)
        return append_zeros(number, -digits).cast(type, wrap_numerical=True)

    return form
