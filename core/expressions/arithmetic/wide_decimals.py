"""Decimal arithmetic that needs more than 128 bits for intermediate results, or several steps.

A column whose numbers are all small takes the short way. Otherwise the integer parts and the
remainders of a sum are computed separately; the factors of a product are split into three limbs of
thirteen digits and multiplied by long multiplication; and a quotient is a long division, several
digits a step. Only where a divisor may have 38 digits, Python divides, some 1 us a row.
"""

from __future__ import annotations

from functools import reduce
from operator import add

import polars as pl

from headrace.core.expressions.arithmetic.decimals import (
    align_scales,
    append_zeros,
    estimate_sum,
    from_estimated,
    from_unscaled,
    int128,
    round_half,
    to_unscaled,
    unscaled_to_double,
)
from headrace.core.types.data_types import MAX_DIGITS, Decimal

_LIMB = 13
_BASE = 10**_LIMB
_A, _B = pl.col("a0"), pl.col("a1")

# Rounding adds as much as half of 1e38.
_SMALL_LIMIT = 1.1e38


def _is_small(frame: pl.DataFrame, estimate: pl.Expr) -> bool:
    largest = frame.select(estimate.abs().max()).item()
    return largest is None or largest < _SMALL_LIMIT


def add_decimals(
    frame: pl.DataFrame, left: Decimal, right: Decimal, result: Decimal, *, minus: bool
) -> pl.Series:
    """Return the sum a0 + a1, or the difference, where some decimals are dropped."""
    estimate = estimate_sum(_A, _B, left, right, minus=minus)
    dropped = max(left.scale, right.scale) - result.scale
    if _is_small(frame, estimate):
        x, y = align_scales(_A, _B, left, right)
        number = from_unscaled(round_half(x - y if minus else x + y, dropped), result)
    else:
        wide = _add_split(left, right, result, minus=minus)
        number = from_estimated(wide, estimate / 10.0**dropped, result)
    return frame.select(number).to_series()


def _add_split(left: Decimal, right: Decimal, result: Decimal, *, minus: bool) -> pl.Expr:
    """Return the sum in the unit of the result; remainders are decimal fractions of the unit."""
    scale = max(left.scale, right.scale)
    unit = int128(10 ** (scale - result.scale))
    (head_a, tail_a), (head_b, tail_b) = (
        _split_at_unit(_A, left, result),
        _split_at_unit(_B, right, result),
    )
    tail_a, tail_b = (
        append_zeros(tail_a, scale - left.scale),
        append_zeros(tail_b, scale - right.scale),
    )
    head = head_a - head_b if minus else head_a + head_b
    tail = tail_a - tail_b if minus else tail_a + tail_b
    head, tail = head + tail // unit, tail % unit
    up = (tail > unit - tail) | ((tail == unit - tail) & (head >= 0))
    return head + up.cast(pl.Int128)


def _split_at_unit(value: pl.Expr, type: Decimal, result: Decimal) -> tuple[pl.Expr, pl.Expr]:
    """Split a number into whole units of the result, and the remainder in its own unit."""
    number, cut = to_unscaled(value), max(type.scale - result.scale, 0)
    head = number.truncdiv(int128(10**cut))
    return append_zeros(head, max(result.scale - type.scale, 0)), number - head * int128(10**cut)


def multiply_decimals(frame: pl.DataFrame, dropped: int, result: Decimal) -> pl.Series:
    """Return the product a0 * a1 without `dropped` decimals; null where it does not fit."""
    if _is_small(frame, unscaled_to_double(_A) * unscaled_to_double(_B)):
        number = round_half(to_unscaled(_A) * to_unscaled(_B), dropped)
        return frame.select(from_unscaled(number, result)).to_series()
    a, b = to_unscaled(_A), to_unscaled(_B)
    columns = {"minus": (a < 0) != (b < 0)}
    for name, number in (("a", a.abs()), ("b", b.abs())):
        for limb in range(3):
            columns[f"{name}{limb}"] = number // int128(_BASE**limb) % int128(_BASE)
    return _drop_digits(_carry_limbs(frame.select(**columns)), dropped, result)


def _carry_limbs(frame: pl.DataFrame) -> pl.DataFrame:
    """Carry the limbs: return the last 38 digits of the product as `low`, the others as `high`."""
    sums = {}
    for limb in range(5):
        pairs = [(i, limb - i) for i in range(3) if 0 <= limb - i < 3]
        sums[f"c{limb}"] = reduce(add, [pl.col(f"a{i}") * pl.col(f"b{j}") for i, j in pairs])
    frame = frame.select("minus", **sums)
    for limb in range(1, 5):
        carry = pl.col(f"c{limb - 1}") // int128(_BASE)
        frame = frame.with_columns((pl.col(f"c{limb}") + carry).alias(f"c{limb}"))
    digits = [pl.col(f"c{limb}") % int128(_BASE) for limb in range(4)]
    split = int128(10 ** (MAX_DIGITS - 2 * _LIMB))
    return frame.select(
        "minus",
        low=digits[0] + digits[1] * int128(_BASE) + digits[2] % split * int128(_BASE**2),
        high=digits[2] // split + digits[3] * int128(10) + pl.col("c4") * int128(10 * _BASE),
    )


def _drop_digits(frame: pl.DataFrame, dropped: int, result: Decimal) -> pl.Series:
    """Drop the last digits of the product, rounded half up; null past 38 digits."""
    high, low = pl.col("high"), pl.col("low")
    if dropped > MAX_DIGITS:
        size = round_half(high, dropped - MAX_DIGITS)
    else:
        high = pl.when(high < int128(10**dropped)).then(high)
        size = high * int128(10 ** (MAX_DIGITS - dropped)) + round_half(low, dropped)
    number = pl.when(pl.col("minus")).then(int128(0) - size).otherwise(size)
    return frame.select(from_unscaled(number, result)).to_series()


def divide_decimals(
    frame: pl.DataFrame, left: Decimal, right: Decimal, result: Decimal
) -> pl.Series:
    """Return the quotient a0 / a1, null where a1 is zero."""
    shift = result.scale - left.scale + right.scale
    room = MAX_DIGITS - right.precision
    if not room and left.precision + shift > MAX_DIGITS:
        return _divide_row_by_row(frame, shift, result)
    first = min(shift, MAX_DIGITS - left.precision)
    frame = frame.select(
        estimate=unscaled_to_double(_A) / unscaled_to_double(_B) * 10.0**shift,
        minus=(to_unscaled(_A) < 0) != (to_unscaled(_B) < 0),
        rest=append_zeros(to_unscaled(_A).abs(), first),
        by=to_unscaled(_B).abs(),
    )
    quotient, rest, by = pl.col("quotient"), pl.col("rest"), pl.col("by")
    frame = frame.with_columns(quotient=rest.truncdiv(by))
    frame = frame.with_columns(rest=rest - quotient * by)
    for digits in _division_steps(shift - first, room):
        frame = frame.with_columns(digit=append_zeros(rest, digits).truncdiv(by))
        frame = frame.with_columns(
            quotient=append_zeros(quotient, digits) + pl.col("digit"),
            rest=append_zeros(rest, digits) - pl.col("digit") * by,
        )
    size = quotient + (rest >= by - rest).cast(pl.Int128)
    number = pl.when(pl.col("minus")).then(int128(0) - size).otherwise(size)
    return frame.select(from_estimated(number, pl.col("estimate"), result)).to_series()


def _divide_row_by_row(frame: pl.DataFrame, shift: int, result: Decimal) -> pl.Series:
    """Divide by numbers of 38 digits, whose remainders leave no room for another digit."""
    scale, limit = 10**shift, 10**result.precision

    def divide(a: int | None, b: int | None) -> int | None:
        if a is None or not b:
            return None
        size = (2 * abs(a) * scale + abs(b)) // (2 * abs(b))
        return None if size >= limit else size if (a < 0) == (b < 0) else -size

    unscaled = frame.select(a=to_unscaled(_A), b=to_unscaled(_B))
    quotients = map(divide, unscaled["a"].to_list(), unscaled["b"].to_list())
    numbers = pl.DataFrame({"n": pl.Series([*quotients], dtype=pl.Int128)})
    return numbers.select(from_unscaled(pl.col("n"), result)).to_series()


def _division_steps(missing: int, room: int) -> list[int]:
    """Return how many digits each further step of a long division computes."""
    return [min(room, missing - done) for done in range(0, missing, room)] if missing else []
