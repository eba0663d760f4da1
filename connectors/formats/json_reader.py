r"""Calls of Polars' reader of JSON lines, and corrections of what it accepts.

The words "NaN", "Infinity" and "-Infinity" are accepted for a double, because JSON has no such
numbers. A text that holds a number (`"1.5"`) is still not a number; in Polars' text form the two
look alike. Within arrays and structs a record is therefore read twice: with doubles as text, and as
numbers, with the words replaced by null.

JSON writes some characters as two escapes, as in `"\ud83d\ude00"`. Polars raises on the second one
(a low surrogate) alone, but reads the first one alone as a zero byte; such a record is found here,
and is bad.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace.connectors.formats.json_wire import JsonValue, is_exact, to_wire_type
from headrace.core.types.data_types import (
    DOUBLE,
    FLOAT,
    Array,
    Decimal,
    Field,
    MapType,
    Schema,
    Struct,
    Type,
    is_nested,
)
from headrace.core.types.lazy_pattern import compile_pattern

if TYPE_CHECKING:
    import polars as pl


# The field to read if none is needed: without a schema, Polars would guess one.
NO_FIELD = ""


FIRST_BYTES = (b"{", b"\n", b" ", b"\t", b"\r")
"""The first bytes of JSON lines."""


def read_lines(
    block: bytes, types: dict[str, pl.DataType], *, lenient: bool = False
) -> pl.DataFrame:
    """Read a row of each record; raises for a bad one. Lenient: a value of a wrong type is null."""
    import polars as pl

    if not block.startswith(FIRST_BYTES):
        # Polars would decompress what looks like gzip, zlib or zstd; it skips a blank line.
        block = b"\n" + block
    return pl.read_ndjson(block, schema=types or {NO_FIELD: pl.String()}, ignore_errors=lenient)


def list_wire_types(
    schema: Schema, epoch: str | None, *, decimals: bool = False
) -> dict[str, pl.DataType]:
    """Return the fields that Polars reads, with their wire types; `decimals` as doubles."""
    import polars as pl

    doubles: dict[str, pl.DataType] = {
        field.name: pl.Float64() for field in schema if isinstance(field.type, Decimal)
    }
    return (doubles if decimals else {}) | {
        field.name: to_wire_type(field.type, epoch)
        for field in schema
        if is_nested(field.type) or not is_exact(field.type)
    }


NON_FINITE_VALUES = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


# A text that is exactly a word, as a value, not as the name of a field.
NON_FINITE_WORD = compile_pattern(rb'(?<!\\)"(?:NaN|-?Infinity)"(?![ \t\r]*:)')


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
    if isinstance(type, MapType) and isinstance(text, dict) and isinstance(number, dict):
        return {key: _merge_words(type.value, number[key], text[key]) for key in text}
    if isinstance(type, Struct) and isinstance(text, dict) and isinstance(number, dict):
        return {
            field.name: _merge_words(field.type, number[field.name], text[field.name])
            for field in type.fields
        }
    return text


HIGH_SURROGATE = compile_pattern(rb"\\u[dD][89abAB]")


SURROGATE_PAIR = compile_pattern(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")


ESCAPE_SEQUENCE = compile_pattern(rb"\\(?:u[dD]([89abAB]|[c-fC-F])[0-9a-fA-F]{2}|.)", re.DOTALL)


def has_lone_surrogate(block: bytes) -> bool:
    r"""Whether a line of the block has a lone surrogate.

    >>> (
    ...     has_lone_surrogate(rb'"\ud83d\ude00"'),
    ...     has_lone_surrogate(rb'"\ud83d"'),
    ...     has_lone_surrogate(rb'"\\ud83d"'),
    ... )
    (False, True, False)
    """
    # Most blocks have no backslash, and searching for one byte is faster than for two.
    if b"\\" not in block or not HIGH_SURROGATE.search(SURROGATE_PAIR.sub(b"", block)):
        return False
    return any(
        _has_lone_surrogate(line) for line in block.split(b"\n") if HIGH_SURROGATE.search(line)
    )


def _has_lone_surrogate(line: bytes) -> bool:
    """Whether the line has a lone surrogate, escape by escape: an escaped backslash starts none."""
    expected = -1
    for escape in ESCAPE_SEQUENCE.finditer(line):
        half = escape[1]
        second = half is not None and half not in b"89abAB"
        if second != (escape.start() == expected) or (expected >= 0 and not second):
            return True
        expected = escape.end() if half is not None and not second else -1
    return expected >= 0
