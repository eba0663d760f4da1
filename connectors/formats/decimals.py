"""Decimal numbers parsed from text exactly, or taken from doubles that leave no doubt.

Polars parses a text to a decimal exactly, but rounds a half to the even digit and accepts forms
that are not numbers. A text with no excess digits for its type is left to Polars; the others are
rounded half up, as Spark does, one by one.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context
from decimal import Decimal as Number
from typing import TYPE_CHECKING

from headrace.core.types.data_types import Decimal, to_polars
from headrace.core.types.lazy_pattern import compile_pattern

if TYPE_CHECKING:
    import polars as pl

# The digits of the longest decimal type; a number that needs more does not fit.
ROUNDING = Context(prec=38, rounding=ROUND_HALF_UP)

NUMBER_PATTERN = compile_pattern(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII
)


def parse_decimals(texts: pl.Series, type: Decimal) -> pl.Series:
    """Convert texts to decimals; null for a text that is not a number or has too many digits."""
    import polars as pl

    plain = texts.str.contains(_build_exact_pattern(type))
    if not plain.all():
        odd = [
            text if fits else round_decimal(text, type)
            for text, fits in zip(texts, plain, strict=True)
        ]
        texts = pl.Series(texts.name, odd, dtype=pl.String)
    return texts.cast(to_polars(type))


DOUBLE_DIGITS = 14
"""In numbers of this many digits, doubles are wrong by less than a tenth of the last digit."""


def convert_doubles(numbers: pl.Series, type: Decimal) -> pl.Series:
    """Convert doubles to the decimals that were written; null where the text has to be read.

    These are large numbers, and those that are not near a decimal of the type: the error of a
    double may decide in which direction they are rounded.
    """
    import polars as pl

    if type.scale > DOUBLE_DIGITS:
        return pl.Series(numbers.name, [None] * len(numbers), dtype=to_polars(type))
    unscaled = pl.col(numbers.name) * 10.0**type.scale
    limit = 10.0 ** min(type.precision, DOUBLE_DIGITS)
    is_near = ((unscaled - unscaled.round()).abs() < 0.25) & (unscaled.round().abs() < limit)
    number = pl.when(is_near).then(unscaled.round()).cast(pl.Int64).cast(pl.Int128)
    return numbers.to_frame().select(number.reinterpret(dtype=to_polars(type))).to_series()


def round_decimal(text: str | None, type: Decimal) -> str | None:
    """Round a number to the scale of its type, or return None if it is invalid or too large.

    >>> (
    ...     round_decimal("1.005", Decimal(10, 2)),
    ...     round_decimal("1e3", Decimal(10, 2)),
    ...     round_decimal("1e9", Decimal(10, 2)),
    ... )
    ('1.01', '1000.00', None)
    """
    if text is None or not NUMBER_PATTERN.fullmatch(text):
        return None
    try:
        number = Number(text).quantize(Number(1).scaleb(-type.scale), context=ROUNDING)
    except ArithmeticError:
        return None
    if number and number.adjusted() >= type.precision - type.scale:
        return None
    return f"{number:f}"


def _build_exact_pattern(type: Decimal) -> str:
    """Return the pattern of texts without excess digits, which Polars reads exactly."""
    before = type.precision - type.scale
    whole = f"[0-9]{{1,{before}}}" if before else "0"
    return rf"^-?{whole}(?:\.[0-9]{{1,{type.scale}}})?$" if type.scale else rf"^-?{whole}$"
