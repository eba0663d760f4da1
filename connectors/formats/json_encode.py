"""Frames to JSON lines, a column at a time.

Polars writes most types as the language wants them: doubles as the shortest number that reads back
the same, text with non-ASCII as it is, nulls as null. Instants it is given as text, and so are
dates and instants of a column with a year that it cannot write (see `far_times`). Two things it
does not write as we want them, and then each row is put together from its columns' texts: decimals
(it quotes them) and doubles that are no finite number (it writes null). Both ways give a row the
same bytes, so equal rows are equal bytes whatever stands beside them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from math import isfinite
from typing import TYPE_CHECKING

from headrace.connectors.formats.json_wire import has
from headrace.core import far_times
from headrace.core.frames import microseconds
from headrace.core.types import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Schema,
    Struct,
    Type,
)

if TYPE_CHECKING:
    import polars as pl

INSTANT = "%Y-%m-%dT%H:%M:%S%.6fZ"
MANY_ROWS = 64
"""From here on it is worth while to look for runs of equal instants."""
FEW_ROWS = 1000
"""So few are an array before a writer of lines has begun: one row in 6 us instead of 260."""
BETWEEN = b"},{"
"""What stands between two rows of an array."""


@dataclass(frozen=True)
class JsonEncoder:
    """Writes rows of this schema, each as one JSON object on a line, fields in its order."""

    schema: Schema

    @property
    def suffix(self) -> str:
        """As files of JSON lines are called."""
        return ".jsonl"

    def header(self) -> bytes:
        """Nothing."""
        return b""

    def encode(self, frame: pl.DataFrame) -> bytes:
        """The lines of these rows."""
        far = {name for name in self._timed if far_times.is_far(frame[name])}
        return _encoded(*_near(frame, self.schema, far)) if far else _encoded(frame, self.schema)

    @cached_property
    def _timed(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.schema if has(field.type, DATE, TIMESTAMP))


def _near(frame: pl.DataFrame, schema: Schema, far: set[str]) -> tuple[pl.DataFrame, Schema]:
    """The rows, and their columns, with texts for what is not to be written as a time."""
    fields = [
        Field(field.name, far_times.type_written(field.type), field.nullable)
        if field.name in far
        else field
        for field in schema
    ]
    return frame.with_columns(far_times.written(frame[name]) for name in far), Schema(tuple(fields))


def _encoded(frame: pl.DataFrame, schema: Schema) -> bytes:
    import polars as pl

    out = BytesIO()
    if any(_needs_texts(frame[field.name], field.type) for field in schema):
        lines = frame.select(_line(schema))
        lines.write_csv(out, include_header=False, quote_style="never")
    elif len(schema):
        return _lines(pl.DataFrame([_shown(frame[f.name], f.type) for f in schema]))
    else:
        out.write(b"{}\n" * frame.height)
    return out.getvalue()


def _needs_texts(column: pl.Series, type: Type) -> bool:
    """Whether Polars would not write the column as we do."""
    if not has(type, Decimal, FLOAT, DOUBLE):
        return False
    match type:
        case Array(element):
            return _needs_texts(column.explode(), element)
        case Struct(fields):
            return any(_needs_texts(column.struct.field(f.name), f.type) for f in fields)
    if isinstance(type, Decimal):
        return True
    # A sum is finite only where all numbers are, and takes a twentieth as long to begin.
    return not (isfinite(column.sum()) or column.is_finite().all())


def _lines(shown: pl.DataFrame) -> bytes:
    """What Polars writes of these columns."""
    out = BytesIO()
    if shown.height < FEW_ROWS:
        shown.write_json(out)
        rows = out.getvalue()
        # It may also stand in a text, or between the structs of a list.
        if rows.count(BETWEEN) == shown.height - 1:
            return rows[1:-1].replace(BETWEEN, b"}\n{") + b"\n"
        out = BytesIO()
    shown.write_ndjson(out)
    return out.getvalue()


def _shown(column: pl.Series, type: Type) -> pl.Series:
    """A column as Polars is to write it."""
    if type == TIMESTAMP and column.len() >= MANY_ROWS:
        return _instants(column)
    return _texts(column, type) if has(type, TIMESTAMP, BINARY) else column


def _instants(column: pl.Series) -> pl.Series:
    """Instants as texts: a run of equal ones, as those of windows are, is made once."""
    numbers = microseconds(column)
    if not column.null_count() and numbers.min() == numbers.max():
        return _texts(column.head(1), TIMESTAMP).new_from_index(0, column.len())
    runs = column.rle_id()
    if runs[-1] > column.len() // 4:
        return _texts(column, TIMESTAMP)
    return _texts(column[runs.arg_unique()], TIMESTAMP)[runs]


def _texts(values: pl.Series, type: Type) -> pl.Series:
    """What each value is written as."""
    import polars as pl

    return values.to_frame().select(_written(pl.first(), type).alias(values.name)).to_series()


def _written(value: pl.Expr, type: Type) -> pl.Expr:
    """A value of which Polars' JSON is ours."""
    import polars as pl

    if not has(type, TIMESTAMP, BINARY):
        return value
    match type:
        case Array(element):
            return value.list.eval(_written(pl.element(), element))
        case Struct(fields):
            inner = [_written(value.struct.field(f.name), f.type).alias(f.name) for f in fields]
            return pl.when(value.is_not_null()).then(pl.struct(inner))
    if type == BINARY:
        return value.bin.encode("base64")
    return value.dt.replace_time_zone(None).dt.strftime(INSTANT)


def _line(schema: Schema) -> pl.Expr:
    """A row as text."""
    import polars as pl

    values = {field.name: _text(pl.col(field.name), field.type) for field in schema}
    return _object(values)


def _object(values: dict[str, pl.Expr]) -> pl.Expr:
    """The texts of its fields as an object."""
    import polars as pl

    parts: list[pl.Expr] = []
    for name, value in values.items():
        before = "," if parts else "{"
        parts += [pl.lit(f"{before}{json.dumps(name, ensure_ascii=False)}:"), value]
    return pl.concat_str([*parts, pl.lit("}")])


def _text(value: pl.Expr, type: Type) -> pl.Expr:
    """The JSON text of a value, null included."""
    import polars as pl

    match type:
        case Array(element):
            inner = value.list.eval(_text(pl.element(), element)).list.join(",")
            text = pl.concat_str(pl.lit("["), inner, pl.lit("]"))
        case Struct(fields):
            texts = {f.name: _text(value.struct.field(f.name), f.type) for f in fields}
            text = pl.when(value.is_not_null()).then(_object(texts))
        case _ if type in (STRING, TIMESTAMP, BINARY, DATE):
            whole = pl.struct(_written(value, type).alias("v")).struct.json_encode()
            text = pl.when(value.is_not_null()).then(whole.str.slice(5).str.strip_suffix("}"))
        case _ if type in (FLOAT, DOUBLE):
            text = pl.when(value.is_finite()).then(value.cast(pl.String)).otherwise(_word(value))
        case _:
            text = value.cast(pl.String)
    return text.fill_null("null")


def _word(value: pl.Expr) -> pl.Expr:
    """A number that JSON has not, as a text."""
    import polars as pl

    infinite = pl.when(value > 0).then(pl.lit('"Infinity"')).otherwise(pl.lit('"-Infinity"'))
    word = pl.when(value.is_nan()).then(pl.lit('"NaN"')).otherwise(infinite)
    return pl.when(value.is_not_null()).then(word)
