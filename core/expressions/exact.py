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

from headrace.core.expressions.casts.rules import JAVA_DIGITS
from headrace.core.types import MAX_DIGITS, Decimal, to_polars

SAFE = 1.5e38
"""A number whose estimate is below this has not wrapped."""


def unscaled(value: pl.Expr) -> pl.Expr:
    """Return 1.23 as 123."""
    return value.reinterpret(dtype=pl.Int128)


def whole(value: int) -> pl.Expr:
    """Return a constant as a 128-bit integer."""
    return pl.lit(value, dtype=pl.Int128)


def scaled_up(number: pl.Expr, digits: int) -> pl.Expr:
    """Append that many zeros to the number."""
    return number * whole(10**digits) if digits else number


def halved(number: pl.Expr, digits: int, *, half_even: bool = False) -> pl.Expr:
    """Drop the last digits, rounding half up (away from zero) or half to even."""
    if not digits:
        return number
    if digits > MAX_DIGITS:
        return number * whole(0)
    unit = whole(10**digits)
    if half_even:
        return _halved_even(number, unit)
    half = whole(5 * 10 ** (digits - 1))
    near = pl.when(number < 0).then(number - half).otherwise(number + half)
    return near.truncdiv(unit)


def _halved_even(number: pl.Expr, unit: pl.Expr) -> pl.Expr:
    floor, rest = number // unit, number % unit
    left = unit - rest
    up = (rest > left) | ((rest == left) & (floor % whole(2) == 1))
    return floor + up.cast(pl.Int128)


def stepped(number: pl.Expr, digits: int, *, up: bool) -> pl.Expr:
    """Drop the last digits, rounding down, or up."""
    if digits > MAX_DIGITS:
        below = (number < 0).cast(pl.Int128)
        return (number > 0).cast(pl.Int128) if up else whole(0) - below
    unit = whole(10**digits)
    return whole(0) - (whole(0) - number) // unit if up else number // unit


def as_decimal(number: pl.Expr, result: Decimal) -> pl.Expr:
    """Return 123 as 1.23, null where the type has too few digits; the number is within 128 bits."""
    fitting = number.cast(pl.Decimal(result.precision, 0), strict=False)
    return fitting.reinterpret(dtype=pl.Int128).reinterpret(dtype=to_polars(result))


def guarded(number: pl.Expr, estimate: pl.Expr, result: Decimal) -> pl.Expr:
    """Return the decimal of a number, null where the estimate says that it has wrapped or is too
    long."""
    return as_decimal(pl.when(estimate.abs() < SAFE).then(number), result)


SIGNED_DIGITS = JAVA_DIGITS
"""The digits to which Spark rounds a number that it negates, half to even."""


def negated(value: pl.Expr, type: Decimal) -> pl.Expr:
    """Negate the number; Spark keeps 34 digits of it."""
    return as_decimal(_negated(unscaled(value), type), type)


def absolute(value: pl.Expr, type: Decimal) -> pl.Expr:
    """Return the absolute value; Spark keeps 34 digits of a negative number."""
    number = unscaled(value)
    return as_decimal(pl.when(number < 0).then(_negated(number, type)).otherwise(number), type)


def _negated(number: pl.Expr, type: Decimal) -> pl.Expr:
    """Negate the number, and round the digits past the 34th to zeros."""
    result = whole(0) - number
    for digits in range(1, type.precision - SIGNED_DIGITS + 1):
        short = scaled_up(_halved_even(number, whole(10**digits)), digits)
        large = number.abs() >= whole(10 ** (SIGNED_DIGITS + digits - 1))
        result = pl.when(large).then(whole(0) - short).otherwise(result)
    return result


def floating(value: pl.Expr) -> pl.Expr:
    """Return the unscaled number as a double."""
    return unscaled(value).cast(pl.Float64)


def added(
    a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal, result: Decimal, *, minus: bool
) -> pl.Expr:
    """Return the sum or the difference, of which no decimals are dropped."""
    x, y = levelled(a, b, left, right)
    number = x - y if minus else x + y
    if level_digits(left, right) < MAX_DIGITS:
        return number.reinterpret(dtype=to_polars(result))
    return guarded(number, sum_estimate(a, b, left, right, minus=minus), result)


def multiplied(a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal, result: Decimal) -> pl.Expr:
    """Return the product, where all digits fit or no decimals are dropped."""
    number = unscaled(a) * unscaled(b)
    if left.precision + right.precision > MAX_DIGITS:
        return guarded(number, floating(a) * floating(b), result)
    dropped = left.scale + right.scale - result.scale
    return halved(number, dropped).reinterpret(dtype=to_polars(result))


def divided(a: pl.Expr, b: pl.Expr, shift: int, result: Decimal) -> pl.Expr:
    """Return the quotient of `a`, with `shift` zeros appended, and `b`; both have less than 38
    digits."""
    x, y = scaled_up(unscaled(a).abs(), shift), unscaled(b).abs()
    size = (x + x + y).truncdiv(y + y)
    minus = (unscaled(a) < 0) != (unscaled(b) < 0)
    number = pl.when(minus).then(whole(0) - size).otherwise(size)
    return number.reinterpret(dtype=to_polars(result))


def remainder(a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal, result: Decimal) -> pl.Expr:
    """Return the remainder of a truncating division: it has the sign of the first operand."""
    x, y = levelled(a, b, left, right)
    return as_decimal(x - x.truncdiv(y) * y, result)


def positive_remainder(
    a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal, result: Decimal
) -> pl.Expr:
    """Compute Spark's pmod: add the divisor to a negative remainder, if the divisor is positive."""
    x, y = levelled(a, b, left, right)
    rest = x - x.truncdiv(y) * y
    return as_decimal(pl.when((rest < 0) & (y > 0)).then(rest + y).otherwise(rest), result)


def divided_whole(a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal) -> pl.Expr:
    """Return the quotient without its decimals, as a bigint, which wraps."""
    x, y = levelled(a, b, left, right)
    return x.truncdiv(y).cast(pl.Int64, wrap_numerical=True)


def levelled(a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal) -> tuple[pl.Expr, pl.Expr]:
    """Return both as integers of the same unit."""
    scale = max(left.scale, right.scale)
    return scaled_up(unscaled(a), scale - left.scale), scaled_up(unscaled(b), scale - right.scale)


def level_digits(left: Decimal, right: Decimal) -> int:
    """Return the largest number of digits of both in the same unit."""
    return max(t.precision - t.scale for t in (left, right)) + max(left.scale, right.scale)


def sum_estimate(a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal, *, minus: bool) -> pl.Expr:
    """Return the unscaled sum or difference as a double."""
    scale = max(left.scale, right.scale)
    x, y = floating(a) * 10.0 ** (scale - left.scale), floating(b) * 10.0 ** (scale - right.scale)
    return x - y if minus else x + y
