"""Decimal arithmetic as Spark does it: exact, on unscaled 128-bit integers.

Polars' own decimal operators round half to even, fix the result's type and raise on overflow.
Here a decimal becomes its unscaled integer, integers are computed, and the result is read as a
decimal of Spark's type: rounded half up, null where it has too many digits. Integers wrap at 128
bits, so where a result may be that large a floating estimate tells overflow from a wrapped value:
38 digits end at 1e38, 128 bits at 1.7e38, and the estimate is good to fifteen digits.
"""

from __future__ import annotations

import polars as pl

from headrace.core.types import MAX_DIGITS, Decimal, to_polars

_SAFE = 1.5e38


def unscaled(value: pl.Expr) -> pl.Expr:
    """1.23 as 123."""
    return value.reinterpret(dtype=pl.Int128)


def whole(value: int) -> pl.Expr:
    """A constant among unscaled integers."""
    return pl.lit(value, dtype=pl.Int128)


def scaled_up(number: pl.Expr, digits: int) -> pl.Expr:
    """The number with that many zeros behind it."""
    return number * whole(10**digits) if digits else number


def halved(number: pl.Expr, digits: int, *, half_even: bool = False) -> pl.Expr:
    """The number without its last digits, rounded half up (away from zero) or half to even."""
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
    """The number without its last digits: the whole number below, or the one above."""
    if digits > MAX_DIGITS:
        below = (number < 0).cast(pl.Int128)
        return (number > 0).cast(pl.Int128) if up else whole(0) - below
    unit = whole(10**digits)
    return whole(0) - (whole(0) - number) // unit if up else number // unit


def as_decimal(number: pl.Expr, result: Decimal) -> pl.Expr:
    """123 as 1.23, null where the type has too few digits; the number is within 128 bits."""
    fitting = number.cast(pl.Decimal(result.precision, 0), strict=False)
    return fitting.reinterpret(dtype=pl.Int128).reinterpret(dtype=to_polars(result))


def guarded(number: pl.Expr, estimate: pl.Expr, result: Decimal) -> pl.Expr:
    """As `as_decimal`, of a number that has wrapped where the estimate says so."""
    return as_decimal(pl.when(estimate.abs() < _SAFE).then(number), result)


def _float(value: pl.Expr, digits: int = 0) -> pl.Expr:
    return unscaled(value).cast(pl.Float64) * 10.0**digits


def added(
    a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal, result: Decimal, *, minus: bool
) -> pl.Expr:
    """The sum, or the difference."""
    scale = max(left.scale, right.scale)
    if result.scale < scale:
        return _added_short(a, b, left, right, result, minus=minus)
    up_a, up_b = scale - left.scale, scale - right.scale
    x, y = scaled_up(unscaled(a), up_a), scaled_up(unscaled(b), up_b)
    number = x - y if minus else x + y
    if max(left.precision + up_a, right.precision + up_b) < MAX_DIGITS:
        return number.reinterpret(dtype=to_polars(result))
    x, y = _float(a, up_a), _float(b, up_b)
    return guarded(number, x - y if minus else x + y, result)


def _added_short(
    a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal, result: Decimal, *, minus: bool
) -> pl.Expr:
    """The sum where the type has no room for all its decimals: wholes and rests apart."""
    scale = max(left.scale, right.scale)
    unit = whole(10 ** (scale - result.scale))
    parts = []
    for value, type in ((a, left), (b, right)):
        number, cut = unscaled(value), max(type.scale - result.scale, 0)
        head = number.truncdiv(whole(10**cut))
        tail = scaled_up(number - head * whole(10**cut), scale - max(type.scale, result.scale))
        parts.append((scaled_up(head, max(result.scale - type.scale, 0)), tail))
    (head_a, tail_a), (head_b, tail_b) = parts
    head = head_a - head_b if minus else head_a + head_b
    tail = tail_a - tail_b if minus else tail_a + tail_b
    head, tail = head + tail // unit, tail % unit
    twice = tail + tail
    number = head + ((twice > unit) | ((twice == unit) & (head >= 0))).cast(pl.Int128)
    x = _float(a) * 10.0 ** (result.scale - left.scale)
    y = _float(b) * 10.0 ** (result.scale - right.scale)
    return guarded(number, x - y if minus else x + y, result)


def multiplied(
    a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal, result: Decimal
) -> pl.Expr:
    """The product; its digits fit, or none of its decimals is dropped."""
    number = unscaled(a) * unscaled(b)
    dropped = left.scale + right.scale - result.scale
    if left.precision + right.precision > MAX_DIGITS:
        assert not dropped, "refused when it was typed"
        return guarded(number, _float(a) * _float(b), result)
    return halved(number, dropped).reinterpret(dtype=to_polars(result))


def divided(
    frame: pl.DataFrame, left: Decimal, right: Decimal, result: Decimal
) -> pl.Series:
    """The quotient a0 / a1, null where a1 is zero: a long division, so many digits at a time.

    Spark divides to 38 decimals, rounds half up, and rounds again to the result's: so a rest just
    below a half counts as one when the first rounding makes it one.
    """
    shift = result.scale - left.scale + right.scale
    a, b = unscaled(pl.col("a0")), unscaled(pl.col("a1"))
    frame = frame.select(
        estimate=a.cast(pl.Float64) / b.cast(pl.Float64) * 10.0**shift,
        minus=(a < 0) != (b < 0),
        rest=scaled_up(a.abs(), first_digits(left, shift)),
        by=scaled_up(b.abs(), max(-shift, 0)),
    )
    quotient, rest, by = pl.col("quotient"), pl.col("rest"), pl.col("by")
    frame = frame.with_columns(quotient=rest.truncdiv(by))
    frame = frame.with_columns(rest=rest - quotient * by)
    for digits in later_digits(left, right, shift):
        frame = frame.with_columns(digit=scaled_up(rest, digits).truncdiv(by))
        frame = frame.with_columns(
            quotient=scaled_up(quotient, digits) + pl.col("digit"),
            rest=scaled_up(rest, digits) - pl.col("digit") * by,
        )
    almost = by // whole(10 ** (MAX_DIGITS - result.scale))
    size = quotient + (rest >= by - rest - almost).cast(pl.Int128)
    number = pl.when(pl.col("minus")).then(whole(0) - size).otherwise(size)
    return frame.select(guarded(number, pl.col("estimate"), result)).to_series()


def first_digits(left: Decimal, shift: int) -> int:
    """How many zeros the dividend takes before the first division."""
    return min(max(shift, 0), MAX_DIGITS - left.precision)


def later_digits(left: Decimal, right: Decimal, shift: int) -> list[int]:
    """How many digits each further step of the long division brings."""
    missing = max(shift, 0) - first_digits(left, shift)
    room = max(MAX_DIGITS - right.precision, 1)
    return [min(room, missing - done) for done in range(0, missing, room)]


def remainder(
    a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal, result: Decimal
) -> pl.Expr:
    """What a division that cuts off leaves: it has the sign of the first."""
    x, y = levelled(a, b, left, right)
    return as_decimal(x - x.truncdiv(y) * y, result)


def positive_remainder(
    a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal, result: Decimal
) -> pl.Expr:
    """Spark's pmod: a negative remainder is brought up by the divisor, if that one is positive."""
    x, y = levelled(a, b, left, right)
    rest = x - x.truncdiv(y) * y
    return as_decimal(pl.when((rest < 0) & (y > 0)).then(rest + y).otherwise(rest), result)


def divided_whole(a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal) -> pl.Expr:
    """The quotient without its decimals, as a bigint, which wraps."""
    x, y = levelled(a, b, left, right)
    return x.truncdiv(y).cast(pl.Int64, wrap_numerical=True)


def levelled(
    a: pl.Expr, b: pl.Expr, left: Decimal, right: Decimal
) -> tuple[pl.Expr, pl.Expr]:
    """Both as integers of the same unit."""
    scale = max(left.scale, right.scale)
    return scaled_up(unscaled(a), scale - left.scale), scaled_up(unscaled(b), scale - right.scale)
