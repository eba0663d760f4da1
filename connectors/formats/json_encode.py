"""Frames to JSON lines, a column at a time.

Polars writes most types as required: doubles as the shortest number that reads back the same,
non-ASCII text unescaped, nulls as null. Timestamps are passed to it as text, as are dates and
timestamps of a column with a year that it cannot write (see `out_of_range_times`). It writes two
types differently, and then each row is concatenated from its columns' texts: decimals (it quotes
them) and doubles that are not finite (it writes null). Both ways give a row the same bytes, so
equal rows are equal bytes, whatever other rows are in the batch.
"""

from __future__ import annotations

import json
from functools import cached_property
from io import BytesIO
from math import isfinite
from typing import TYPE_CHECKING

from headrace.connectors.formats.json_wire import contains_type
from headrace.core.expressions.casts import build_cast_form
from headrace.core.types import map_entries, out_of_range_times
from headrace.core.types.data_types import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TIMESTAMP_TYPES,
    Array,
    Decimal,
    Field,
    Interval,
    MapType,
    Schema,
    Struct,
    Time,
    Type,
)
from headrace.core.types.frames import to_integers
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.map_entries import KEY, VALUE

if TYPE_CHECKING:
    import polars as pl

TIMESTAMP_FORMAT = "%Y-%m-%dT%H:%M:%S%.6fZ"
LOCAL_TIMESTAMP_FORMAT = TIMESTAMP_FORMAT.removesuffix("Z")
TIME_FORMAT = "%H:%M:%S%.6f"
FORMATTED_TYPES: tuple[Type | type[Type], ...] = (*TIMESTAMP_TYPES, BINARY, Time, Interval)
"""Types whose values are passed to Polars as texts."""
MIN_RUN_ROWS = 64
"""The rows from which it is worth looking for runs of equal timestamps."""
MAX_ARRAY_ROWS = 1000
"""Below this number of rows, an array is written and split: 6 us for one row, instead of 260."""
ROW_SEPARATOR = b"},{"
"""The text between two rows of an array."""


@dataclass(frozen=True)
class JsonEncoder:
    """Encodes rows of this schema, each as one JSON object on a line, with fields in its order."""

    schema: Schema

    @property
    def suffix(self) -> str:
        return ".jsonl"

    def header(self) -> bytes:
        """Return no bytes."""
        return b""

    def encode(self, frame: pl.DataFrame) -> bytes:
        """Encode rows as lines."""
        far = {
            name for name in self._time_columns if out_of_range_times.has_out_of_range(frame[name])
        }
        return (
            _encode_rows(*_replace_out_of_range(frame, self.schema, far))
            if far
            else _encode_rows(frame, self.schema)
        )

    @cached_property
    def _time_columns(self) -> tuple[str, ...]:
        return tuple(
            field.name for field in self.schema if contains_type(field.type, DATE, *TIMESTAMP_TYPES)
        )


def encode_values(column: pl.Series, type: Type) -> pl.Series:
    """Return the JSON text of each value; null stays null."""
    import polars as pl

    if out_of_range_times.has_out_of_range(column):
        column = out_of_range_times.format_times(column)
        type = out_of_range_times.get_formatted_type(type)
    value = pl.col(column.name)
    text = pl.when(value.is_not_null()).then(_format_json(value, type))
    return column.to_frame().select(text.alias(column.name)).to_series()


def _replace_out_of_range(
    frame: pl.DataFrame, schema: Schema, far: set[str]
) -> tuple[pl.DataFrame, Schema]:
    """Replace columns with out-of-range times by their texts, in rows and schema."""
    fields = [
        Field(field.name, out_of_range_times.get_formatted_type(field.type), field.nullable)
        if field.name in far
        else field
        for field in schema
    ]
    return frame.with_columns(out_of_range_times.format_times(frame[name]) for name in far), Schema(
        tuple(fields)
    )


def _encode_rows(frame: pl.DataFrame, schema: Schema) -> bytes:
    import polars as pl

    out = BytesIO()
    if any(_needs_texts(frame[field.name], field.type) for field in schema):
        lines = frame.select(_format_row(schema))
        lines.write_csv(out, include_header=False, quote_style="never")
    elif len(schema):
        return _write_lines(pl.DataFrame([_prepare_column(frame[f.name], f.type) for f in schema]))
    else:
        out.write(b"{}\n" * frame.height)
    return out.getvalue()


def _needs_texts(column: pl.Series, type: Type) -> bool:
    """Whether Polars would write the column differently."""
    if not contains_type(type, Decimal, FLOAT, DOUBLE):
        return False
    match type:
        case Array(element):
            return _needs_texts(column.explode(), element)
        case MapType(_, value):
            return _needs_texts(column.map.values().explode(), value)
        case Struct(fields):
            return any(_needs_texts(column.struct.field(f.name), f.type) for f in fields)
    if isinstance(type, Decimal):
        return True
    # A sum is finite only if all numbers are, and starts up in a twentieth of the time.
    return not (isfinite(column.sum()) or column.is_finite().all())


def _write_lines(shown: pl.DataFrame) -> bytes:
    """Write columns as lines with Polars."""
    out = BytesIO()
    if shown.height < MAX_ARRAY_ROWS:
        shown.write_json(out)
        rows = out.getvalue()
        # `ROW_SEPARATOR` may also occur in a text, or between the structs of a list.
        if rows.count(ROW_SEPARATOR) == shown.height - 1:
            return rows[1:-1].replace(ROW_SEPARATOR, b"}\n{") + b"\n"
        out = BytesIO()
    shown.write_ndjson(out)
    return out.getvalue()


def _prepare_column(column: pl.Series, type: Type) -> pl.Series:
    """Convert a column to what Polars writes as required."""
    if type == TIMESTAMP and column.len() >= MIN_RUN_ROWS:
        return _format_timestamps(column)
    return _format_values(column, type) if _needs_preparation(type) else column


def _needs_preparation(type: Type) -> bool:
    """Whether Polars would write a value differently, or cannot write it."""
    if contains_type(type, *FORMATTED_TYPES):
        return True
    match type:
        case Array(element):
            return _needs_preparation(element)
        case MapType(key, value):
            return key != STRING or _needs_preparation(value)
        case Struct(fields):
            return any(_needs_preparation(field.type) for field in fields)
    return False


def _format_timestamps(column: pl.Series) -> pl.Series:
    """Format timestamps; a run of equal ones, as of windows, is formatted once."""
    numbers = to_integers(column)
    if not column.null_count() and numbers.min() == numbers.max():
        return _format_values(column.head(1), TIMESTAMP).new_from_index(0, column.len())
    runs = column.rle_id()
    if runs[-1] > column.len() // 4:
        return _format_values(column, TIMESTAMP)
    return _format_values(column[runs.arg_unique()], TIMESTAMP)[runs]


def _format_values(values: pl.Series, type: Type) -> pl.Series:
    """Convert each value to its written form."""
    import polars as pl

    return values.to_frame().select(_prepare_value(pl.first(), type).alias(values.name)).to_series()


def _prepare_value(value: pl.Expr, type: Type) -> pl.Expr:
    """Convert a value so that Polars writes it as required."""
    import polars as pl

    if not _needs_preparation(type):
        return value
    match type:
        case Array(element):
            return value.list.eval(_prepare_value(pl.element(), element))
        case MapType(key, of):
            return map_entries.convert_entries(
                value, lambda each: _format_key(each, key), lambda each: _prepare_value(each, of)
            )
        case Struct(fields):
            inner = [
                _prepare_value(value.struct.field(f.name), f.type).alias(f.name) for f in fields
            ]
            return pl.when(value.is_not_null()).then(pl.struct(inner))
    if type == BINARY:
        return value.bin.encode("base64")
    if isinstance(type, Interval):
        return build_cast_form(type, STRING)(value)
    if isinstance(type, Time):
        return value.dt.strftime(TIME_FORMAT)
    if type == TIMESTAMP_NTZ:
        return value.dt.strftime(LOCAL_TIMESTAMP_FORMAT)
    return value.dt.replace_time_zone(None).dt.strftime(TIMESTAMP_FORMAT)


def _format_key(key: pl.Expr, type: Type) -> pl.Expr:
    """Return the text of a key of a map: of the value that JSON would have, without quotes."""
    import polars as pl

    if type in (FLOAT, DOUBLE):
        word = _format_word(key).str.strip_chars('"')
        return pl.when(key.is_finite()).then(key.cast(pl.String)).otherwise(word)
    return _prepare_value(key, type).cast(pl.String)


def _format_row(schema: Schema) -> pl.Expr:
    """Return a row as JSON text."""
    import polars as pl

    values = {field.name: _format_json(pl.col(field.name), field.type) for field in schema}
    return _format_object(values)


def _format_object(values: dict[str, pl.Expr]) -> pl.Expr:
    """Join the texts of fields to an object."""
    import polars as pl

    parts: list[pl.Expr] = []
    for name, value in values.items():
        before = "," if parts else "{"
        parts += [pl.lit(f"{before}{json.dumps(name, ensure_ascii=False)}:"), value]
    return pl.concat_str([*parts, pl.lit("}")])


def _format_json(value: pl.Expr, type: Type) -> pl.Expr:
    """Return the JSON text of a value, null included."""
    import polars as pl

    match type:
        case Array(element):
            inner = value.list.eval(_format_json(pl.element(), element)).list.join(",")
            text = pl.concat_str(pl.lit("["), inner, pl.lit("]"))
        case MapType(key, of):
            entries = map_entries.convert_to_list(
                value,
                lambda each: _format_json(_format_key(each, key), STRING),
                lambda each: _format_json(each, of),
            )
            pair = [pl.element().struct.field(name) for name in (KEY, VALUE)]
            inner = entries.list.eval(pl.concat_str(pair, separator=":")).list.join(",")
            text = pl.concat_str(pl.lit("{"), inner, pl.lit("}"))
        case Struct(fields):
            texts = {f.name: _format_json(value.struct.field(f.name), f.type) for f in fields}
            text = pl.when(value.is_not_null()).then(_format_object(texts))
        case _ if type in (STRING, *TIMESTAMP_TYPES, BINARY, DATE) or isinstance(
            type, Time | Interval
        ):
            whole = pl.struct(_prepare_value(value, type).alias("v")).struct.json_encode()
            text = pl.when(value.is_not_null()).then(whole.str.slice(5).str.strip_suffix("}"))
        case _ if type in (FLOAT, DOUBLE):
            text = (
                pl.when(value.is_finite())
                .then(value.cast(pl.String))
                .otherwise(_format_word(value))
            )
        case _:
            text = value.cast(pl.String)
    return text.fill_null("null")


def _format_word(value: pl.Expr) -> pl.Expr:
    """Return a number that JSON cannot represent, as a quoted word."""
    import polars as pl

    infinite = pl.when(value > 0).then(pl.lit('"Infinity"')).otherwise(pl.lit('"-Infinity"'))
    word = pl.when(value.is_nan()).then(pl.lit('"NaN"')).otherwise(infinite)
    return pl.when(value.is_not_null()).then(word)
