"""The types of the values of a CSV record, as Spark's `schema_of_csv` infers them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal as PythonDecimal

import polars as pl

from headrace.core.expressions.casts import build_cast_form
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    MAX_DIGITS,
    STRING,
    TIME,
    TIMESTAMP,
    Decimal,
    Type,
)

_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DOUBLE = re.compile(
    rf"[\0-\x20]*([+-]?(NaN|Infinity)|{_DECIMAL.pattern}[dDfF]?"
    r"|[+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?\d+[dDfF]?)[\0-\x20]*"
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def infer_type(text: str | None, words: tuple[str, ...], times: Mapping[Type, PolarsForm]) -> Type:
    """Return the type of a value; `words` are those that stand for numbers, such as NaN.

    `times` has the forms that parse dates and timestamps by an option's format.
    """
    if not text:
        return STRING
    if number := _infer_number(text, words):
        return number
    if _is_date(text, times):
        return DATE
    for type in (TIMESTAMP, TIME):
        if _is_read(text, times.get(type) or build_cast_form(STRING, type)):
            return type
    return BOOLEAN if text.lower() in ("true", "false") else STRING


def _infer_number(text: str, words: tuple[str, ...]) -> Type | None:
    if _INTEGER.fullmatch(text):
        for type, bits in ((INT, 31), (BIGINT, 63)):
            if -(1 << bits) <= int(text) < 1 << bits:
                return type
    if _DECIMAL.fullmatch(plain := text.replace(",", "")):
        _, digits, exponent = PythonDecimal(plain).as_tuple()
        if exponent == 0 and len(digits) <= MAX_DIGITS:
            return Decimal(len(digits), 0)
    return DOUBLE if _DOUBLE.fullmatch(text) or text in words else None


def _is_date(text: str, times: Mapping[Type, PolarsForm]) -> bool:
    if DATE in times:
        return _is_read(text, times[DATE])
    return bool(_DATE.fullmatch(text)) and _is_read(text, build_cast_form(STRING, DATE))


def _is_read(text: str, form: PolarsForm) -> bool:
    return pl.select(form(pl.lit(pl.Series([text])))).item() is not None
