"""The values of columns in messages of Debezium, which has several forms of times and decimals.

A schema in the message says which form a column has. Otherwise the declared type and the options
do, and a value that may mean two things is an error.

Tests: tests/connectors/formats/test_debezium.py.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from headrace.connectors.formats import times
from headrace.connectors.formats.bad_records import describe_invalid_value, shorten_text
from headrace.connectors.formats.decimals import parse_decimals
from headrace.core.types.data_types import (
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
    Field,
    Time,
    to_polars,
)
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

WHOLE_NUMBER = r"^-?[0-9]+$"

UNITS_US = {"ms": 1000, "us": 1}
"""The microseconds of a unit; a nanosecond is a fraction of one."""

MAX_MILLIS = (1 << 63) // 1000 - 1
DAY_US = 86_400_000_000

TIME_UNITS = {
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Timestamp": "ms",
    "io.debezium.time.Time": "ms",
    "io.debezium.time.MicroTime": "us",
    "io.debezium.time.NanoTime": "ns",
    "org.apache.kafka.connect.data.Time": "ms",
}
"""The unit of a number, by the name of its type in a schema."""

DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"

WRITTEN_AS_TEXT = (DATE, TIMESTAMP, TIMESTAMP_NTZ)


class SchemaField(msgspec.Struct):
    """A field of a schema of Kafka Connect."""

    type: Any = None
    name: str | None = None
    field: str | None = None
    fields: list[SchemaField] | None = None
    parameters: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ColumnEncoding:
    """The form of the values of a column: the unit of numbers, the scale of base64 decimals."""

    unit: str | None = None
    decimals: str | None = None
    scale: int | None = None


Encodings: TypeAlias = "tuple[tuple[str, ColumnEncoding], ...]"
"""The encodings of columns, where a schema says them."""


def is_read_as_text(column: Field) -> bool:
    """Whether a column is read as text, because Debezium has several forms of its values."""
    return column.type in WRITTEN_AS_TEXT or isinstance(column.type, Decimal | Time)


def find_encodings(schema: SchemaField) -> Encodings:
    """Return the encodings of the columns of a row in the schema of a message."""
    parts = {each.field: each for each in schema.fields or ()}
    row = parts.get("after") or parts.get("before")
    found = []
    for each in (row.fields if row else None) or ():
        name = each.name or ""
        if name in TIME_UNITS:
            found.append((each.field or "", ColumnEncoding(unit=TIME_UNITS[name])))
        elif name == DECIMAL_NAME:
            scale = (each.parameters or {}).get("scale", "0")
            found.append((each.field or "", ColumnEncoding(None, "base64", int(scale))))
        elif each.type in ("string", "double", "float"):
            found.append((each.field or "", ColumnEncoding(decimals="text")))
    return tuple(found)


def convert_texts(column: Field, texts: pl.Series, encoding: ColumnEncoding) -> pl.Series:
    """Convert texts to the type of the column; null for one that is not of the type."""
    if isinstance(column.type, Decimal):
        return _convert_decimals(texts, column.type, encoding)
    import polars as pl

    name = column.name
    is_number = texts.str.contains(WHOLE_NUMBER).fill_null(False)
    written = texts.zip_with(~is_number, pl.Series(name, [None], pl.String()))
    if column.type == DATE:
        parsed = written.to_frame().select(times.parse_dates(pl.col(name))).to_series()
    elif column.type == TIMESTAMP:
        parsed = times.parse_timestamp_column(written)
    elif column.type == TIMESTAMP_NTZ:
        parsed = written.to_frame().select(times.parse_local_timestamps(pl.col(name))).to_series()
    else:
        assert isinstance(column.type, Time)
        precision = column.type.precision
        clock = times.parse_clock_times(pl.col(name), precision)
        parsed = written.to_frame().select(clock).to_series()
    if not is_number.any():
        return parsed
    numbers = texts.zip_with(is_number, pl.Series(name, [None], pl.String()))
    counted = _convert_numbers(column, numbers.cast(pl.Int64(), strict=False), encoding.unit)
    return parsed.cast(to_polars(column.type)).zip_with(~is_number, counted)


def _convert_numbers(column: Field, numbers: pl.Series, unit: str | None) -> pl.Series:
    """Convert numbers since the epoch, or midnight; days if the column is a date."""
    import polars as pl

    type = to_polars(column.type)
    if column.type == DATE:
        return numbers.cast(pl.Int32(), strict=False).cast(type)
    if unit is None:
        return pl.Series(column.name, [None], type).new_from_index(0, numbers.len())
    many = numbers.clip(-MAX_MILLIS, MAX_MILLIS) if unit == "ms" else numbers
    fits = many == numbers
    micros = numbers // 1000 if unit == "ns" else many * UNITS_US[unit]
    if isinstance(column.type, Time):
        fits &= micros.is_between(0, DAY_US - 1)
        micros = micros * 1000
    micros = micros.zip_with(fits, pl.Series(column.name, [None], pl.Int64()))
    return micros.cast(type)


def _convert_decimals(texts: pl.Series, type: Decimal, encoding: ColumnEncoding) -> pl.Series:
    import polars as pl

    plain = texts.str.contains(r"^[-+]?[0-9]*\.?[0-9]*([eE][-+]?[0-9]+)?$").fill_null(True)
    if encoding.decimals == "text" or (encoding.decimals is None and _are_surely_texts(texts)):
        return parse_decimals(texts.zip_with(plain, pl.Series([None], dtype=pl.String())), type)
    scale = type.scale if encoding.scale is None else encoding.scale
    converted = [
        None if text is None else _decode_decimal(text, scale, encoding.decimals) for text in texts
    ]
    return parse_decimals(pl.Series(texts.name, converted, pl.String()), type)


def _are_surely_texts(texts: pl.Series) -> bool:
    """Whether all texts are numbers that cannot be base64, which has no points and signs."""
    return bool(texts.drop_nulls().str.contains(r"^[-+]?[0-9]*\.[0-9]*$|^-[0-9]+$").all())


def _decode_decimal(text: str, scale: int, decimals: str | None) -> str | None:
    """Return the number in a text as digits; None if there is none, or more than one reading."""
    if text.startswith("{"):  # a number with a scale of its own
        try:
            whole = msgspec.json.decode(text)
            return _decode_base64(str(whole["value"]), int(whole["scale"]))
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            return None
    if decimals is None and text.lstrip("+-").replace(".", "", 1).isdigit():
        return None if text.isdigit() and len(text) % 4 == 0 else text
    return _decode_base64(text, scale)


def _decode_base64(text: str, scale: int) -> str | None:
    try:
        unscaled = int.from_bytes(b64decode(text, validate=True), "big", signed=True)
    except (Base64Error, ValueError):
        return None
    digits = str(abs(unscaled)).rjust(scale + 1, "0") + "0" * -scale
    point = len(digits) - max(scale, 0)
    return f"{'-' if unscaled < 0 else ''}{digits[:point]}.{digits[point:]}"


def describe_failure(column: Field, text: str, encoding: ColumnEncoding) -> str:
    got = describe_invalid_value(column, f'"{shorten_text(text)}"')
    if isinstance(column.type, Decimal) and encoding.decimals is None and text.isdigit():
        hint = "say so, as in debezium_json: {decimals: text}"
        return f"{got}, which may be text or base64: {hint}"
    has_unit = column.type != DATE and not isinstance(column.type, Decimal)
    if has_unit and encoding.unit is None and text.lstrip("-").isdigit():
        hint = "say so, as in debezium_json: {epoch: us}"
        return f"{got}, whose unit is not known: {hint}"
    return got
