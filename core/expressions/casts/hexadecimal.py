"""Hexadecimal numbers with an exponent of two, as in `0x1.8p1`, parsed as Java parses them."""

from __future__ import annotations

import math
import re
from typing import Final

import polars as pl

from headrace.core.types.data_types import FLOAT, Type, to_polars

_NUMBER = re.compile(
    r"([+-]?)0[xX](?=\.?[0-9a-fA-F])([0-9a-fA-F]*)\.?([0-9a-fA-F]*)[pP]([+-]?)0*([0-9]+)"
)
_START: Final = r"^[+-]?0[xX].*[pP]"
_FLOAT_BITS, _DOUBLE_BITS = (24, -149), (53, -1074)
"""The bits of the digits, and the least exponent."""
_MAX_EXPONENT_DIGITS = 18
_BEYOND_DOUBLE = 1025


def parse_hexadecimal(text: pl.Series, target: Type) -> pl.Series:
    """Return the floats or doubles that trimmed texts name; null where a text is none.

    Few texts are of this form, and Polars does not read it: each is parsed by itself.
    """
    bits = _FLOAT_BITS if target == FLOAT else _DOUBLE_BITS
    type = to_polars(target)
    if not text.str.contains(_START).any():
        return pl.Series(text.name, [None], dtype=type).new_from_index(0, len(text))
    values = [None if each is None else _parse(each, *bits) for each in text.to_list()]
    return pl.Series(text.name, values, dtype=pl.Float64).cast(type)


def _parse(text: str, digits: int, least: int) -> float | None:
    found = _NUMBER.fullmatch(text)
    if not found:
        return None
    sign, whole, fraction, exponent_sign, exponent_digits = found.groups()
    exponent = int(exponent_digits[: _MAX_EXPONENT_DIGITS + 1])
    exponent = (-exponent if exponent_sign == "-" else exponent) - 4 * len(fraction)
    value = _round(int(whole + fraction, 16), exponent, digits, least)
    return -value if sign == "-" else value


def _round(mantissa: int, exponent: int, digits: int, least: int) -> float:
    """Return the nearest number of this width in bits, of two equally near ones the even one."""
    end = mantissa.bit_length() + exponent
    if mantissa == 0 or end < least:
        return 0.0
    if end >= _BEYOND_DOUBLE:
        return math.inf
    shift = max(mantissa.bit_length() - digits, least - exponent, 0)
    kept, rest, half = mantissa >> shift, mantissa & ((1 << shift) - 1), (1 << shift) >> 1
    if rest > half or (rest == half != 0 and kept % 2):
        kept += 1
    try:
        return math.ldexp(kept, exponent + shift)
    except OverflowError:
        return math.inf
