"""Rows as text: plain data for JSON, and tables for people.

Timestamps are UTC in ISO 8601, binary is hex, decimals have all their digits. Numbers that JSON
cannot express are the texts "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from headrace.cli.formatting import align_columns

if TYPE_CHECKING:
    import polars as pl

MAX_TEXT_LENGTH = 48
"""The most characters of a value that are shown on a terminal."""


def to_plain_rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Convert rows to values of JSON."""
    import polars as pl

    from headrace.core.types.out_of_range_times import POLARS_DAYS, format_out_of_range

    frame = format_out_of_range(frame, POLARS_DAYS)
    columns = [
        _to_plain(pl.col(name), type).alias(name)
        for name, type in frame.schema.items()
        if _needs_conversion(type)
    ]
    rows = frame.with_columns(columns).rows(named=True)
    floats = [name for name, type in frame.schema.items() if type.is_float() or type.is_nested()]
    return [{**row, **{name: _replace_non_finite(row[name]) for name in floats}} for row in rows]


def _to_plain(value: pl.Expr, type: pl.DataType | pl.datatypes.DataTypeClass) -> pl.Expr:
    """Convert values that JSON does not have to text, at any depth."""
    import polars as pl

    from headrace.core.types import map_entries

    match type:
        case pl.Datetime(time_zone=None):
            return value.dt.strftime("%Y-%m-%dT%H:%M:%S%.f")
        case pl.Datetime():
            return value.dt.strftime("%Y-%m-%dT%H:%M:%S%.fZ")
        case pl.Date() | pl.Decimal():
            return value.cast(pl.String)
        case pl.Time():
            return value.dt.strftime("%H:%M:%S%.f")
        case pl.Binary():
            return value.bin.encode("hex")
        case pl.Duration():
            return value.cast(pl.Int64)
        case pl.List():
            inner = type.inner
            return (
                value.list.eval(_to_plain(pl.element(), inner))
                if _needs_conversion(inner)
                else value
            )
        case pl.Map() if _needs_conversion(type):
            return map_entries.convert_entries(
                value,
                lambda key: _to_plain(key, type.key).cast(pl.String),
                lambda each: _to_plain(each, type.value),
            )
        case pl.Struct() if type.fields:
            fields = [
                _to_plain(value.struct.field(field.name), field.dtype).alias(field.name)
                for field in type.fields
            ]
            return pl.when(value.is_not_null()).then(pl.struct(fields))
    return value


def _needs_conversion(type: pl.DataType | pl.datatypes.DataTypeClass) -> bool:
    """Whether the type or a nested one has values that JSON does not have."""
    import polars as pl

    match type:
        case pl.List():
            return _needs_conversion(type.inner)
        case pl.Map():
            return type.key != pl.String or _needs_conversion(type.value)
        case pl.Struct():
            return any(_needs_conversion(field.dtype) for field in type.fields)
    return isinstance(type, pl.Datetime | pl.Date | pl.Time | pl.Decimal | pl.Binary | pl.Duration)


def _replace_non_finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case list():
            return [_replace_non_finite(each) for each in value]
        case dict():
            return {name: _replace_non_finite(each) for name, each in value.items()}
    return value


def format_table(frame: pl.DataFrame, *, shorten: bool = False) -> str:
    """Format rows as a table with a header, numbers right-aligned.

    >>> import polars as pl
    >>> print(format_table(pl.DataFrame({"name": ["a", None], "n": [1, 20]})))
    name   n
    a      1
    null  20
    """
    text_columns = [at for at, type in enumerate(frame.dtypes) if not type.is_numeric()]
    lines = [
        [_format_value(value, shorten=shorten) for value in row.values()]
        for row in to_plain_rows(frame)
    ]
    return "\n".join(align_columns([frame.columns, *lines], text_columns))


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
