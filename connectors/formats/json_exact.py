"""Columns whose values Polars' reader would round or confuse: decimals and binary.

Polars reads a number with a fraction through a double, and accepts any value as text where a
binary is declared. So columns that contain such a type anywhere are cut out of each record as
written, by msgspec, and inserted as exact texts: `1.10`, base64. Only decimals may be read as
doubles first: those that leave no doubt are converted, and the records of others are read again.
A decimal may also stand in quotes, as many programs write it; those are never read as doubles.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from headrace.connectors.formats import decimals
from headrace.connectors.formats.bad_records import RecordErrors
from headrace.connectors.formats.decimals import round_decimal
from headrace.connectors.formats.json_errors import describe_invalid_field
from headrace.connectors.formats.json_wire import JsonValue, is_exact, to_wire_type
from headrace.connectors.formats.lines import LineBlock
from headrace.core.types.data_types import (
    STRING,
    Array,
    Decimal,
    Field,
    MapType,
    Schema,
    Struct,
    Type,
    is_nested,
)

if TYPE_CHECKING:
    import msgspec
    import polars as pl

NULL_BYTES = b"null"
UNREADABLE = b"!"


class InvalidExactValue(Exception):
    """A value that is not of the type of its column."""


def list_exact_fields(schema: Schema) -> tuple[Field, ...]:
    """Return the fields that must be read exactly."""
    return tuple(field for field in schema if is_exact(field.type))


def extract_values(fields: Sequence[Field], block: LineBlock, *, sound: bool) -> list[list[bytes]]:
    """Return the value of each field in every record as written; a missing one is null.

    Only a sound block, in which each line is known to be one object, is read at once: msgspec takes
    two objects on a line for two lines.
    """
    import msgspec

    row = _define_row(fields)
    decoder = msgspec.json.Decoder(row)
    unreadable = row(*repeat(msgspec.Raw(UNREADABLE), len(fields)))

    def alone(record: bytes) -> msgspec.Struct:
        try:
            return decoder.decode(record)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return unreadable

    try:
        rows = decoder.decode_lines(block.data) if sound else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        rows = None
    if rows is None:
        rows = [alone(text) for text in block.record_texts]
    return [[bytes(getattr(row, f"f{at}")) for row in rows] for at in range(len(fields))]


def convert_doubles(
    fields: Sequence[Field], raw: pl.DataFrame, block: LineBlock, faults: RecordErrors
) -> list[pl.Series]:
    """Return decimals that were read as doubles; those in doubt are read again as text."""
    columns = []
    for field in fields:
        assert isinstance(field.type, Decimal)
        numbers = raw[field.name]
        column = decimals.convert_doubles(numbers, field.type)
        if column.null_count() > numbers.null_count():
            rows = (column.is_null() & numbers.is_not_null()).arg_true()
            texts = [block.record_texts[row] for row in rows]
            written = extract_values([field], LineBlock(b"\n".join(texts), 0), sound=True)[0]
            read, _ = insert_values(field, None, written, None)
            values = decimals.parse_decimals(read, field.type)
            column = column.scatter(rows, values)
            for at in (values.is_null() & read.is_not_null()).arg_true():
                faults.setdefault(rows[at], describe_invalid_field(field, texts[at]))
        columns.append(column)
    return columns


def insert_values(
    field: Field, epoch: str | None, written: Sequence[bytes], read: pl.Series | None
) -> tuple[pl.Series, list[int]]:
    """Return the column in its wire type, and the rows with an invalid value (null here).

    `read` is the array or struct column as read by Polars, in which exact texts replace values.
    """
    import polars as pl

    if isinstance(field.type, Decimal):
        texts = [None if text == NULL_BYTES else _read_number(text) for text in written]
        return pl.Series(field.name, texts, dtype=pl.String), []
    values: list[JsonValue] = []
    unfit = []
    before = repeat(None) if read is None else read.to_list()
    for row, (value, text) in enumerate(zip(before, written, strict=False)):
        try:
            values.append(_merge_value(field.type, value, text))
        except InvalidExactValue:
            values.append(None)
            unfit.append(row)
    return pl.Series(field.name, values, dtype=to_wire_type(field.type, epoch)), unfit


def _merge_value(type: Type, read: JsonValue, written: bytes) -> JsonValue:
    """Return the value with each exact part as written."""
    import msgspec

    if not is_exact(type):
        return read
    if written == NULL_BYTES:
        return None
    if not is_nested(type):
        return _read_text(type, written)
    try:
        if isinstance(type, Array) and isinstance(read, list):
            inner = msgspec.json.decode(written, type=list[msgspec.Raw])
            pairs = zip(read, inner, strict=True)
            return [_merge_value(type.element, value, bytes(raw)) for value, raw in pairs]
        if isinstance(type, MapType | Struct) and isinstance(read, dict):
            parts = msgspec.json.decode(written, type=dict[str, msgspec.Raw])
            texts = {name: bytes(raw) for name, raw in parts.items()}
            if isinstance(type, MapType):
                return {key: _merge_value(type.value, read[key], texts[key]) for key in read}
            return {
                f.name: _merge_value(f.type, read[f.name], texts.get(f.name, NULL_BYTES))
                for f in type.fields
            }
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidExactValue from error
    raise InvalidExactValue


def _read_text(type: Type, written: bytes) -> str:
    """Return the exact text of one value."""
    import msgspec

    if isinstance(type, Decimal):
        number = round_decimal(_read_number(written), type)
        if number is None:
            raise InvalidExactValue
        return number
    try:
        return msgspec.json.decode(written, type=str)
    except (msgspec.MsgspecError, ValueError) as error:
        raise InvalidExactValue from error


def _read_number(written: bytes) -> str:
    """Return the text of a number, without the quotes in which it may stand."""
    text = written.decode("ascii", "replace")
    if text.startswith('"'):
        return text[1:-1] if "\\" not in text else _read_text(STRING, written)
    return text


def _define_row(fields: Sequence[Field]) -> type[msgspec.Struct]:
    """Define a class of objects with the values of these fields as written."""
    import msgspec

    null = msgspec.Raw(NULL_BYTES)
    keys = {f"f{at}": field.name for at, field in enumerate(fields)}
    return msgspec.defstruct("Row", [(key, msgspec.Raw, null) for key in keys], rename=keys)
