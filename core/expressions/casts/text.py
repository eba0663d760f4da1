"""Text parsed to numbers and booleans, as Spark's `cast` parses it.

Spark accepts much: white space around the text, `+5`, `.5`, `5.`, `1e3`, `1d`, `inf`, fractions for
an integer (truncated), any digits of Unicode for a decimal. Polars parses the plain forms fast, so
every parser tries Polars first and parses the remaining texts itself. Text that is not a number is
null. So is a hexadecimal floating-point number (`0x1p3`), by decision.
"""

from __future__ import annotations

import unicodedata
from functools import cache

import polars as pl

from headrace.core.expressions.batches import fill_unparsed
from headrace.core.expressions.casts.numbers import to_decimal
from headrace.core.expressions.digits import parse_unscaled
from headrace.core.types import Decimal, Type, to_polars

# The characters that Spark's own parsers trim, and those of Java's `trim`, which the others use.
SPARK_SPACE = "".join(map(chr, range(0x21))) + "\x7f"
JAVA_SPACE = SPARK_SPACE[:-1]

_BOOLEAN_WORDS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}


def parse_boolean(text: pl.Expr) -> pl.Expr:
    """Parse Spark's words for true and false, in any case."""
    word = text.str.strip_chars(SPARK_SPACE).str.to_lowercase()
    return word.replace_strict(_BOOLEAN_WORDS, default=None, return_dtype=pl.Boolean)


def parse_integer(text: pl.Series, target: Type, *, fraction: bool) -> pl.Series:
    """Parse integers that fit; with `fraction`, digits after the point are truncated."""
    type = to_polars(target)

    def slowly(text: pl.Series) -> pl.Series:
        trimmed = text.str.strip_chars(SPARK_SPACE)
        if fraction:
            trimmed = trimmed.str.replace(r"^([+-]?)(\.[0-9]*)$", "${1}0${2}")
            trimmed = trimmed.str.extract(r"^([+-]?[0-9]+)(?:\.[0-9]*)?$")
        return trimmed.cast(type, strict=False)

    return fill_unparsed(text, text.cast(type, strict=False), slowly)


def parse_double(text: pl.Series, target: Type) -> pl.Series:
    """Parse floats and doubles as Java does, then `inf`, `infinity` and `nan` in any case."""
    type = to_polars(target)

    def slowly(text: pl.Series) -> pl.Series:
        trimmed = text.str.strip_chars(JAVA_SPACE)
        trimmed = trimmed.str.replace(r"^(.*[0-9.])[dDfF]$", "${1}")
        trimmed = trimmed.str.replace(r"^[+-]NaN$", "NaN").str.replace(r"^[+-](?i:nan)$", "")
        return trimmed.cast(type, strict=False)

    return fill_unparsed(text, text.cast(type, strict=False).fill_nan(None), slowly)


_PLAIN_DECIMAL = r"(?-u)^[+-]?[0-9]{1,19}(?:\.[0-9]{1,18})?$"
_PARSED_DECIMAL = Decimal(38, 18)


def parse_decimal(text: pl.Series, target: Decimal) -> pl.Series:
    """Parse decimals of any number of digits and with any exponent, rounded half up."""
    plain = text.str.contains(_PLAIN_DECIMAL)
    rounded = to_decimal(_PARSED_DECIMAL, target)
    read = pl.when(plain).then(text).cast(to_polars(_PARSED_DECIMAL), strict=False)
    unscaled = pl.select(rounded(read).reinterpret(dtype=pl.Int128)).to_series()

    unscaled = fill_unparsed(text, unscaled, lambda rest: _parse_any_decimal(rest, target))
    return unscaled.reinterpret(dtype=to_polars(target))


def _parse_any_decimal(text: pl.Series, target: Decimal) -> pl.Series:
    trimmed = text.str.strip_chars(JAVA_SPACE)
    if trimmed.str.contains(r"[^\x00-\x7F]").any():
        trimmed = trimmed.str.replace_many(_unicode_digits())
    unscaled = parse_unscaled(trimmed, target.scale)
    return unscaled.set(unscaled.abs() >= 10**target.precision, None)


@cache
def _unicode_digits() -> dict[str, str]:
    """Return the decimal digits of all scripts, as far as one `char` of Java holds them."""
    beyond = (chr(code) for code in range(0x80, 0x10000))
    return {c: str(unicodedata.digit(c)) for c in beyond if unicodedata.category(c) == "Nd"}
