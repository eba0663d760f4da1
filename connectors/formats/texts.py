"""Conversion of text columns, as in CSV, to their types; null for an invalid text.

    boolean                   true, false, in any case
    tinyint ... bigint        digits with a sign or none, within the type's range
    float, double             digits with a point and an exponent; NaN, Infinity, -Infinity
    decimal(p,s)              the same, rounded half up to its scale; within its precision
    date, timestamp           as in JSON: see `times`
    binary                    base64

Polars' casts accept more than that (`inf`, overflow to infinity) or round differently, so a
pattern is checked first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.connectors.formats import times
from headrace.connectors.formats.decimals import parse_decimals
from headrace.connectors.formats.json_words import NON_FINITE_VALUES
from headrace.core.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    Decimal,
    Type,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl

INTEGER_PATTERN = r"^[+-]?[0-9]+$"
NUMBER_PATTERN = r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"


def convert_texts(texts: pl.Series, type: Type) -> pl.Series:
    """Convert texts to their type."""
    if type == STRING:
        return texts
    if type == TIMESTAMP:
        return times.parse_timestamp_column(texts)
    if isinstance(type, Decimal):
        return parse_decimals(texts, type)
    return texts.to_frame().select(_build_conversion(texts.name, type)).to_series()


def _build_conversion(name: str, type: Type) -> pl.Expr:
    import polars as pl

    text = pl.col(name)
    if type == BOOLEAN:
        lower = text.str.to_lowercase()
        return pl.when(lower.is_in(["true", "false"])).then(lower == "true").alias(name)
    if type == DATE:
        return times.parse_dates(text)
    if type == BINARY:
        return text.str.decode("base64", strict=False)
    if type in (FLOAT, DOUBLE):
        number = text.cast(to_polars(type), strict=False)
        fits = text.str.contains(NUMBER_PATTERN) & number.is_finite()
        words = text.replace_strict(NON_FINITE_VALUES, default=None, return_dtype=to_polars(type))
        return pl.when(fits).then(number).otherwise(words)
    whole = text.cast(to_polars(type), strict=False)
    return pl.when(text.str.contains(INTEGER_PATTERN)).then(whole)
