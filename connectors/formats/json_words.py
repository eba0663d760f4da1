"""The three words accepted for a double: "NaN", "Infinity" and "-Infinity".

JSON has no such numbers, so they are written as texts. A text that holds a number (`"1.5"`) is
still not a number; in Polars' text form the two look alike. Within arrays and structs a record is
therefore read twice: with doubles as text, and as numbers, with the words replaced by null.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace.connectors.formats.json_read import read_lines
from headrace.connectors.formats.json_wire import JsonValue, to_wire_type
from headrace.core.types import DOUBLE, FLOAT, Array, Field, Struct, Type

if TYPE_CHECKING:
    import polars as pl

NON_FINITE_VALUES = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

# A text that is exactly a word, as a value, not as the name of a field.
NON_FINITE_WORD = re.compile(rb'(?<!\\)"(?:NaN|-?Infinity)"(?![ \t\r]*:)')


def has_words(record: bytes) -> bool:
    """Whether a value of the record is a word."""
    return NON_FINITE_WORD.search(record) is not None


def fill_words(numbers: pl.Series, texts: pl.Series) -> pl.Series:
    """Fill nulls among the doubles with the values of words."""
    import polars as pl

    words = texts.replace_strict(NON_FINITE_VALUES, default=None, return_dtype=pl.Float64)
    return pl.select(pl.coalesce(numbers, words)).to_series().alias(numbers.name)


def read_nested_column(field: Field, epoch: str | None, records: list[bytes]) -> pl.DataFrame:
    """Read a column of arrays or structs with words for doubles. Raises as Polars does."""
    import polars as pl

    type = to_wire_type(field.type, epoch)
    as_text = to_wire_type(field.type, epoch, words=True)
    texts = read_lines(b"\n".join(records), {field.name: as_text})
    nulls = NON_FINITE_WORD.sub(b"null", b"\n".join(records))
    numbers = read_lines(nulls, {field.name: type})
    pairs = zip(numbers[field.name].to_list(), texts[field.name].to_list(), strict=True)
    merged = [_merge_words(field.type, number, text) for number, text in pairs]
    return pl.DataFrame({field.name: pl.Series(merged, dtype=type)})


def _merge_words(type: Type, number: JsonValue, text: JsonValue) -> JsonValue:
    """Return the value read as text, with its doubles replaced by numbers unless they are words."""
    if type in (FLOAT, DOUBLE):
        return NON_FINITE_VALUES.get(text, number) if isinstance(text, str) else number
    if isinstance(type, Array) and isinstance(text, list) and isinstance(number, list):
        pairs = zip(number, text, strict=True)
        return [_merge_words(type.element, *pair) for pair in pairs]
    if isinstance(type, Struct) and isinstance(text, dict) and isinstance(number, dict):
        return {
            field.name: _merge_words(field.type, number[field.name], text[field.name])
            for field in type.fields
        }
    return text
