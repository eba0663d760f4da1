"""Floats and doubles as text, exactly as Java writes them from version 19 on.

That is the shortest number that is read back as the same value, with at least one digit on each
side of the point; from 10,000,000 and below 0.001 it has an exponent: 1.0E7, 9.99E-4. Polars finds
the same digits, and writes the numbers between as Java does, so only the others are written again.
Java 17 and 18 write some numbers with a digit too many.
"""

from __future__ import annotations

import polars as pl

_PLAIN_FROM, _PLAIN_BELOW = 0.001, 1e7

# Below these, Java writes two digits where one would do and two are nearer: 4.9E-324 for 5E-324.
_FEW_DIGITS_BELOW, _FEW_FLOAT_DIGITS_BELOW = 1e-320, 1e-42

_NUMBER = r"(?-u)^(-?)([0-9]+)(?:\.([0-9]+))?(?:e[+]?(-?[0-9]+))?$"
"""A number as Polars writes it: sign, digits before and after the point, exponent."""


def format_double(value: pl.Series) -> pl.Series:
    """Format floats or doubles as Spark's cast does."""
    text = value.cast(pl.String)
    size = value.abs()
    other = ((size >= _PLAIN_BELOW) | (size < _PLAIN_FROM)) & (size != 0.0) & value.is_not_nan()
    if not other.any():
        return text
    other = other.fill_null(False)
    return text.scatter(other.arg_true(), _format_other(value.filter(other), text.filter(other)))


def _format_other(value: pl.Series, text: pl.Series) -> pl.Series:
    """Format very small and very large numbers and infinities, of the texts that Polars writes."""
    size = value.abs()
    is_float = value.dtype == pl.Float32()
    few = (size < (_FEW_FLOAT_DIGITS_BELOW if is_float else _FEW_DIGITS_BELOW)).arg_true()
    if len(few):
        text = text.scatter(few, _format_few_digits(value.gather(few), text.gather(few)))
    parts = text.str.extract_groups(_NUMBER).struct.unnest()
    parts.columns = ["sign", "whole", "fraction", "exponent"]
    sign, whole = pl.col("sign"), pl.col("whole")
    fraction = pl.col("fraction").fill_null("")
    digits = (whole + fraction).str.strip_chars_start("0")
    small = whole == "0"
    zeros = fraction.str.len_bytes().cast(pl.Int32) - digits.str.len_bytes().cast(pl.Int32)
    shift = pl.when(small).then(-1 - zeros).otherwise(whole.str.len_bytes().cast(pl.Int32) - 1)
    exponent = (pl.col("exponent").cast(pl.Int32).fill_null(0) + shift).cast(pl.String)
    tail = digits.str.slice(1).str.strip_chars_end("0")
    tail = pl.when(tail == "").then(pl.lit("0")).otherwise(tail)
    scientific = parts.select(sign + digits.str.head(1) + "." + tail + "E" + exponent).to_series()
    infinite = text.str.replace("inf", "Infinity", literal=True)
    return scientific.zip_with(size.is_finite(), infinite)


def _format_few_digits(value: pl.Series, text: pl.Series) -> pl.Series:
    """Write numbers of one digit as the nearest ones of two digits; there are few such numbers."""
    pairs = zip(value, text, strict=True)
    return pl.Series([old if "." in old else f"{number:.1e}" for number, old in pairs])
