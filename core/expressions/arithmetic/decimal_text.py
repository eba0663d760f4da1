"""Parsing of decimal numbers into exact 128-bit integers of a given unit.

Both text and doubles are parsed here: to Spark a double is the shortest decimal number that reads
back as the same double, and it is rounded as that number (2.675 is 2.675, not the 2.67499... of its
bits).
"""

from __future__ import annotations

import polars as pl

from headrace.core.types.data_types import MAX_DIGITS

_NUMBER = r"^([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?$"


def parse_unscaled(text: pl.Series, scale: int, *, half_even: bool = False) -> pl.Series:
    """Return the number in units of `10 ** -scale`, rounded; null for text that is no number, or
    one of more than 38 digits.

    As in Java's BigDecimal, the exponent and the resulting scale must fit an int.
    """
    parts = text.str.extract_groups(_NUMBER).struct.unnest()
    parts.columns = ["sign", "whole", "fraction", "exponent"]
    written = pl.col("whole") + pl.col("fraction").fill_null("")
    exponent = pl.col("exponent").fill_null("0").cast(pl.Int32, strict=False).cast(pl.Int64)
    own_scale = _byte_length(pl.col("fraction").fill_null("")) - exponent
    parts = parts.select(
        minus=pl.col("sign") == "-",
        digits=pl.when((written != "") & (own_scale < 1 << 31)).then(written),
        left=_byte_length(written) - own_scale + scale,
    )
    return _round_digits(parts, half_even=half_even)


def _round_digits(parts: pl.DataFrame, *, half_even: bool) -> pl.Series:
    """Return the first `left` digits as a number, rounded by the digits that follow."""
    digits, left = pl.col("digits"), pl.col("left")
    bare = digits.str.strip_chars_start("0")
    parts = parts.with_columns(digits=bare, left=left - _byte_length(digits) + _byte_length(bare))
    room = left.clip(0, MAX_DIGITS + 1)
    parts = parts.with_columns(
        head=digits.str.slice(0, room).str.pad_end(room, "0"),
        rest=digits.str.slice(room).str.strip_chars_end("0"),
    ).with_columns(
        number=pl.when(pl.col("head") == "")
        .then(pl.lit(0, dtype=pl.Int128))
        .otherwise(pl.col("head").cast(pl.Int128, strict=False)),
    )
    number, rest = pl.col("number"), pl.col("rest")
    up = rest >= "5"
    if half_even:
        up = (rest > "5") | ((rest == "5") & (number % pl.lit(2, dtype=pl.Int128) == 1))
    size = number + (up & (left >= 0)).cast(pl.Int128)
    signed = pl.when(pl.col("minus")).then(pl.lit(0, dtype=pl.Int128) - size).otherwise(size)
    zero = (digits == "") & digits.is_not_null()
    return parts.select(
        pl.when(zero).then(pl.lit(0, dtype=pl.Int128)).when(left <= MAX_DIGITS).then(signed)
    ).to_series()


def _byte_length(text: pl.Expr) -> pl.Expr:
    return text.str.len_bytes().cast(pl.Int64)
