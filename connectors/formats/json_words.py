"""The three words accepted for a double: "NaN", "Infinity" and "-Infinity".

JSON has no such numbers, so they are written as texts. A text that holds a number (`"1.5"`) is
still not a number; in Polars' text form the two look alike. Within arrays and structs a record is
therefore read twice: with doubles as text, and as numbers, with the words replaced by null.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace.connectors.formats.json_read import read
from headrace.connectors.formats.json_wire import Value, wire
from headrace.core.types import DOUBLE, FLOAT, Array, Field, Struct, Type

if TYPE_CHECKING:
    import polars as pl

WORDS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

# A text that is exactly a word, as a value, not as the name of a field.
WORD = re.compile(rb'(?<!\\)"(?:NaN|-?Infinity)"(?![ \t\r]*:)')


def are_in(record: bytes) -> bool:
    """Whether a value of the record is a word."""
    return WORD.search(record) is not None


def put_in(numbers: pl.Series, texts: pl.Series) -> pl.Series:
    """Fill nulls among the doubles with the values of words."""
    import polars as pl

    words = texts.replace_strict(WORDS, default=None, return_dtype=pl.Float64)
    return pl.select(pl.coalesce(numbers, words)).to_series().alias(numbers.name)


def read_nested(field: Field, epoch: str | None, records: list[bytes]) -> pl.DataFrame:
    """Read a column of arrays or structs with words for doubles. Raises as Polars does."""
    import polars as pl

    type = wire(field.type, epoch)
    as_text = wire(field.type, epoch, words=True)
    texts = read(b"\n".join(records), {field.name: as_text})
    nulls = WORD.sub(b"null", b"\n".join(records))
    numbers = read(nulls, {field.name: type})
    pairs = zip(numbers[field.name].to_list(), texts[field.name].to_list(), strict=True)
    merged = [_merged(field.type, number, text) for number, text in pairs]
    return pl.DataFrame({field.name: pl.Series(merged, dtype=type)})


def _merged(type: Type, number: Value, text: Value) -> Value:
    """Return the value read as text, with its doubles replaced by numbers unless they are words."""
    if type in (FLOAT, DOUBLE):
        return WORDS.get(text, number) if isinstance(text, str) else number
    if isinstance(type, Array) and isinstance(text, list) and isinstance(number, list):
        pairs = zip(number, text, strict=True)
        return [_merged(type.element, *pair) for pair in pairs]
    if isinstance(type, Struct) and isinstance(text, dict) and isinstance(number, dict):
        return {
            field.name: _merged(field.type, number[field.name], text[field.name])
            for field in type.fields
        }
    return text
