"""Rows as text: plain data for JSON, and tables for people.

Timestamps are UTC in ISO 8601, binary is hex, decimals have all their digits, intervals are as in
Spark. Numbers that JSON cannot express are the texts "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.cli.formatting import align_columns

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.types.data_types import Schema, Type

MAX_TEXT_LENGTH = 48
"""The most characters of a value that are shown on a terminal."""


def build_schema(frame: pl.DataFrame, types: Mapping[str, Type]) -> Schema:
    """Return the types of columns: those that are known, where frames alone do not have them."""
    from headrace.connectors.formats.parquet_types import from_polars
    from headrace.core.types.data_types import STRING, Field, Schema, to_polars

    def find(name: str, dtype: pl.DataType) -> Type:
        known = types.get(name)
        if known is not None and to_polars(known) == dtype:
            return known
        return from_polars(dtype) or STRING

    return Schema(tuple(Field(name, find(name, dtype)) for name, dtype in frame.schema.items()))


NO_TYPES: Mapping[str, Type] = {}


def to_plain_rows(
    frame: pl.DataFrame, types: Mapping[str, Type] = NO_TYPES
) -> list[dict[str, Any]]:
    """Convert rows to values of JSON; `types` are those that the frame does not have."""
    import polars as pl

    from headrace.core.types.out_of_range_times import POLARS_DAYS, format_out_of_range

    schema = build_schema(frame, types)
    frame = format_out_of_range(frame, POLARS_DAYS)
    formatted = build_schema(frame, {field.name: field.type for field in schema})
    columns = [
        _to_plain(pl.col(field.name), field.type).alias(field.name)
        for field in formatted
        if _needs_conversion(field.type)
    ]
    rows = frame.with_columns(columns).rows(named=True)
    floats = [name for name, type in frame.schema.items() if type.is_float() or type.is_nested()]
    return [{**row, **{name: _replace_non_finite(row[name]) for name in floats}} for row in rows]


def _to_plain(value: pl.Expr, type: Type) -> pl.Expr:
    """Convert values that JSON does not have to text, at any depth."""
    import polars as pl

    from headrace.core.expressions.casts import build_cast_form
    from headrace.core.types import data_types, map_entries

    match type:
        case data_types.TIMESTAMP_NTZ:
            return value.dt.strftime("%Y-%m-%dT%H:%M:%S%.f")
        case data_types.TIMESTAMP:
            return value.dt.strftime("%Y-%m-%dT%H:%M:%S%.fZ")
        case data_types.DATE | data_types.Decimal():
            return value.cast(pl.String)
        case data_types.Time():
            return value.dt.strftime("%H:%M:%S%.f")
        case data_types.BINARY:
            return value.bin.encode("hex")
        case data_types.Interval():
            return build_cast_form(type, data_types.STRING)(value)
        case data_types.Array(element) if _needs_conversion(element):
            return value.list.eval(_to_plain(pl.element(), element))
        case data_types.MapType(key, of) if _needs_conversion(type):
            return map_entries.convert_entries(
                value,
                lambda each: _to_plain(each, key).cast(pl.String),
                lambda each: _to_plain(each, of),
            )
        case data_types.Struct(fields) if fields:
            inner = [_to_plain(value.struct.field(f.name), f.type).alias(f.name) for f in fields]
            return pl.when(value.is_not_null()).then(pl.struct(inner))
    return value


def _needs_conversion(type: Type) -> bool:
    """Whether the type or a nested one has values that JSON does not have."""
    from headrace.core.types import data_types

    match type:
        case data_types.Array(element):
            return _needs_conversion(element)
        case data_types.MapType(key, value):
            return key != data_types.STRING or _needs_conversion(value)
        case data_types.Struct(fields):
            return any(_needs_conversion(field.type) for field in fields)
        case data_types.Decimal() | data_types.Time() | data_types.Interval():
            return True
    return type in (*data_types.TIMESTAMP_TYPES, data_types.DATE, data_types.BINARY)


def _replace_non_finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case list():
            return [_replace_non_finite(each) for each in value]
        case dict():
            return {name: _replace_non_finite(each) for name, each in value.items()}
    return value


def format_table(
    frame: pl.DataFrame, types: Mapping[str, Type] = NO_TYPES, *, shorten: bool = False
) -> str:
    """Format rows as a table with a header, numbers right-aligned.

    >>> import polars as pl
    >>> print(format_table(pl.DataFrame({"name": ["a", None], "n": [1, 20]})))
    name   n
    a      1
    null  20
    """
    from headrace.core.types.data_types import is_numeric

    schema = build_schema(frame, types)
    text_columns = [at for at, field in enumerate(schema) if not is_numeric(field.type)]
    lines = format_cells(frame, types, shorten=shorten)
    return "\n".join(align_columns([frame.columns, *lines], text_columns))


def format_cells(
    frame: pl.DataFrame, types: Mapping[str, Type], *, shorten: bool
) -> list[list[str]]:
    """Format the values of each row, for people."""
    return [
        [_format_value(value, shorten=shorten) for value in row.values()]
        for row in to_plain_rows(frame, types)
    ]


def _format_value(value: Any, *, shorten: bool) -> str:
    import json

    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case list() | dict():
            text = json.dumps(value, ensure_ascii=False)
        case _:
            text = str(value)
    text = "".join(mark if mark.isprintable() else _ESCAPES.get(mark, "\ufffd") for mark in text)
    return f"{text[: MAX_TEXT_LENGTH - 1]}…" if shorten and len(text) > MAX_TEXT_LENGTH else text


_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def format_time(us: int | None) -> str | None:
    """Format a timestamp; None if there is none, and "the end" after all timestamps.

    >>> format_time(0), format_time(1_500_000)
    ('1970-01-01T00:00:00Z', '1970-01-01T00:00:01.500Z')
    """
    import polars as pl

    from headrace.core.api.state import NO_CLOCK_US
    from headrace.core.types.elements import MAX_WATERMARK_US

    if us is None or us == NO_CLOCK_US:
        return None
    if us == MAX_WATERMARK_US:
        return "the end"
    at = pl.Series([us]).cast(pl.Datetime("us", "UTC"))
    return str(at.dt.strftime("%Y-%m-%dT%H:%M:%S%.fZ")[0])
