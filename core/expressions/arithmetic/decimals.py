"""Exact decimal arithmetic, as in Spark, on unscaled 128-bit integers.

Polars' own decimal operators round half to even, fix the type of the result and raise on overflow.
Here a decimal becomes its unscaled integer, integers are computed, and the result is read as a
decimal of Spark's type: rounded half up, null where it has too many digits. Integers wrap at 128
bits, so where a result may be that large a floating-point estimate distinguishes overflow from a
wrapped value: 38 digits end at 1e38, 128 bits at 1.7e38, and the estimate is good to fifteen
digits.
"""

from __future__ import annotations

import polars as pl

from headrace.core.types.data_types import JAVA_DIGITS, MAX_DIGITS, Decimal, to_polars

SAFE_ESTIMATE = 1.5e38
"""A number whose estimate is below this has not wrapped."""


def to_unscaled(value: pl.Expr) -> pl.Expr:
    """Return 1.23 as 123."""
    return value.reinterpret(dtype=pl.Int128)


def int128(value: int) -> pl.Expr:
    """Return a constant as a 128-bit integer."""
    return pl.lit(value, dtype=pl.Int128)


def append_zeros(number: pl.Expr, digits: int) -> pl.Expr:
    """Append that many zeros to the number."""
    return number * int128(10**digits) if digits else number


def round_half(number: pl.Expr, digits: int, *, half_even: bool = False) -> pl.Expr:
    """Drop the last digits, rounding half up (away from zero) or half to even."""
    if not digits:
        return number
    if digits > MAX_DIGITS:
        return number * int128(0)
    unit = int128(10**digits)
    if half_even:
        return _round_half_even(number, unit)
    half = int128(5 * 10 ** (digits - 1))
    near = pl.when(number < 0).then(number - half).otherwise(number + half)
    return near.truncdiv(unit)


def _round_half_even(number: pl.Expr, unit: pl.Expr) -> pl.Expr:
    floor, rest = number // unit, number % unit
    left = unit - rest
    up = (rest > left) | ((rest == left) & (floor % int128(2) == 1))
    return floor + up.cast(pl.Int128)


def round_up_or_down(number: pl.Expr, digits: int, *, up: bool) -> pl.Expr:
    """Drop the last digits, rounding down, or up."""
    if digits > MAX_DIGITS:
        below = (number < 0).cast(pl.Int128)
        return (number > 0).cast(pl.Int128) if up else int128(0) - below
    unit = int128(10**digits)
    return int128(0) - (int128(0) - number) // unit if up else number // unit


def from_unscaled(number: pl.Expr, result: Decimal) -> pl.Expr:
    """Return 123 as 1.23, null where the type has too few digits; the number is within 128 bits."""
    fitting = number.cast(pl.Decimal(result.precision, 0), strict=False)
    return fitting.reinterpret(dtype=pl.Int128).reinterpret(dtype=to_polars(result))


def from_estimated(number: pl.Expr, estimate: pl.Expr, result: Decimal) -> pl.Expr:
    """Return the decimal of a number, null where the estimate says that it has wrapped or is too
    long."""
    return from_unscaled(pl.when(estimate.abs() < SAFE_ESTIMATE).then(number), result)


NEGATED_DIGITS = JAVA_DIGITS
"""The digits to which Spark rounds a number that it negates, half to even."""


def negate(value: pl.Expr, type: Decimal) -> pl.Expr:
    """Negate the number; Spark keeps 34 digits of it."""
    return from_unscaled(_negate_unscaled(to_unscaled(value), type), type)


def absolute_value(value: pl.Expr, type: Decimal) -> pl.Expr:
    """Return the absolute value; Spark keeps 34 digits of a negative number."""
    number = to_unscaled(value)
    return from_unscaled(
        pl.when(number < 0).then(_negate_unscaled(number, type)).otherwise(number), type
    )


def _negate_unscaled(number: pl.Expr, type: Decimal) -> pl.Expr:
    """Negate the number, and round the digits past the 34th to zeros."""
    result = int128(0) - number
    for digits in range(1, type.precision - NEGATED_DIGITS + 1):
        short = append_zeros(_round_half_even(number, int128(10**digits)), digits)
        large = number.abs() >= int128(10 ** (NEGATED_DIGITS + digits - 1))
        result = pl.when(large).then(int128(0) - short).otherwise(result)
    return result


def unscaled_to_double(value: pl.Expr) -> pl.Expr:
    """Return the unscaled number as a double."""
    return to_unscaled(value).cast(pl.Float64)


def add(
    a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal, result: Decimal, *, minus: bool
) -> pl.Expr:
    """Return the sum or the difference, of which no decimals are dropped."""
    x, y = align_scales(a, b, left, right)
    number = x - y if minus else x + y
    if count_aligned_digits(left, right) < MAX_DIGITS:
        return number.reinterpret(dtype=to_polars(result))
    return from_estimated(number, estimate_sum(a, b, left, right, minus=minus), result)


def multiply(a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal, result: Decimal) -> pl.Expr:
    """Return the product, where all digits fit or no decimals are dropped."""
    number = to_unscaled(a) * to_unscaled(b)
    if left.precision + right.precision > MAX_DIGITS:
        return from_estimated(number, unscaled_to_double(a) * unscaled_to_double(b), result)
    dropped = left.scale + right.scale - result.scale
    return round_half(number, dropped).reinterpret(dtype=to_polars(result))


def divide(a: pl.Expr, b: pl.Expr, shift: int, result: Decimal) -> pl.Expr:
    """Return the quotient of `a`, with `shift` zeros appended, and `b`; both have less than 38
    digits."""
    x, y = append_zeros(to_unscaled(a).abs(), shift), to_unscaled(b).abs()
    size = (x + x + y).truncdiv(y + y)
    minus = (to_unscaled(a) < 0) != (to_unscaled(b) < 0)
    number = pl.when(minus).then(int128(0) - size).otherwise(size)
    return number.reinterpret(dtype=to_polars(result))


def compute_remainder(
    a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal, result: Decimal
) -> pl.Expr:
    """Return the remainder of a truncating division: it has the sign of the first operand."""
    x, y = align_scales(a, b, left, right)
    return from_unscaled(x - x.truncdiv(y) * y, result)


def compute_pmod(a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal, result: Decimal) -> pl.Expr:
    """Compute Spark's pmod: add the divisor to a negative remainder, if the divisor is positive."""
    x, y = align_scales(a, b, left, right)
    rest = x - x.truncdiv(y) * y
    return from_unscaled(pl.when((rest < 0) & (y > 0)).then(rest + y).otherwise(rest), result)


def divide_to_bigint(a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal) -> pl.Expr:
    """Return the quotient without its decimals, as a bigint, which wraps."""
    x, y = align_scales(a, b, left, right)
    return x.truncdiv(y).cast(pl.Int64, wrap_numerical=True)


def align_scales(a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal) -> tuple[pl.Expr, pl.Expr]:
    """Return both as integers of the same unit."""
    scale = max(left.scale, right.scale)
    return append_zeros(to_unscaled(a), scale - left.scale), append_zeros(
        to_unscaled(b), scale - right.scale
    )


def count_aligned_digits(left: Decimal, right: Decimal) -> int:
    """Return the largest number of digits of both in the same unit."""
    return max(t.precision - t.scale for t in (left, right)) + max(left.scale, right.scale)


def estimate_sum(a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal, *, minus: bool) -> pl.Expr:
    """Return the unscaled sum or difference as a double."""
    scale = max(left.scale, right.scale)
    x, y = (
        unscaled_to_double(a) * 10.0 ** (scale - left.scale),
        unscaled_to_double(b) * 10.0 ** (scale - right.scale),
    )
    return x - y if minus else x + y
