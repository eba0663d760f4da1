"""Numbers written with digits, as decimals: exactly, never through a double.

Polars reads a text as a decimal exactly, but rounds a half to the even digit and takes forms that
are no numbers. Where a text has no more digits than its type it is left to Polars; the others are
rounded half up, as Spark does, one by one.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context
from decimal import Decimal as Number
from typing import TYPE_CHECKING

from headrace.core.types import Decimal, to_polars

if TYPE_CHECKING:
    import polars as pl

# As many digits as the longest decimal has; what needs more does not fit.
CONTEXT = Context(prec=38, rounding=ROUND_HALF_UP)

NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)


def decimals(texts: pl.Series, type: Decimal) -> pl.Series:
    """The texts as decimals; null where one is no number or has too many digits."""
    import polars as pl

    plain = texts.str.contains(_plain(type))
    if not plain.all():
        odd = [text if fits else fixed(text, type) for text, fits in zip(texts, plain, strict=True)]
        texts = pl.Series(texts.name, odd, dtype=pl.String)
    return texts.cast(to_polars(type))


def fixed(text: str | None, type: Decimal) -> str | None:
    """A number with exactly the digits behind the point that its type has, or None.

    >>> fixed("1.005", Decimal(10, 2)), fixed("1e3", Decimal(10, 2)), fixed("1e9", Decimal(10, 2))
    ('1.01', '1000.00', None)
    """
    if text is None or not NUMBER.fullmatch(text):
        return None
    try:
        number = Number(text).quantize(Number(1).scaleb(-type.scale), context=CONTEXT)
    except ArithmeticError:
        return None
    if number and number.adjusted() >= type.precision - type.scale:
        return None
    return f"{number:f}"


def _plain(type: Decimal) -> str:
    """Texts with no more digits than the type has, which Polars reads as they are."""
    before = type.precision - type.scale
    whole = f"[0-9]{{1,{before}}}" if before else "0"
    return rf"^-?{whole}(?:\.[0-9]{{1,{type.scale}}})?$" if type.scale else rf"^-?{whole}$"
