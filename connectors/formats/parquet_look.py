"""What a file of Parquet says of itself: whether others than our own reader read the same of it.

They do where its columns are just of the types that were declared, and where its footer says that
nothing is null that must not be.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.formats import thrift
from headrace.connectors.formats.parquet_read import ParquetReader
from headrace.connectors.formats.required import has_required
from headrace.core.types import Array, Field, Struct, to_polars

if TYPE_CHECKING:
    pass

EASY = {0, 1, 2, 6}
"""Compressions that everybody unpacks: none, Snappy, gzip and Zstandard."""
OLD_CALENDAR = b"org.apache.spark.legacyDateTime"
TAIL = 8


@dataclass(frozen=True, slots=True)
class Looked:
    """How many rows a file has, and whether anybody may read it as it stands."""

    rows: int
    is_plain: bool


def look(reader: ParquetReader, path: str) -> Looked:
    """Look into a file; raises ConnectorError as reading it would."""
    found = reader.columns(path)
    footer = _footer(path)
    has_types = all(found[field.name] == to_polars(field.type) for field in reader.schema)
    return Looked(footer[3].number, has_types and _is_sound(reader, footer))


def _footer(path: str) -> thrift.Struct:
    """What stands at the end, with its length and a mark behind it."""
    with open(path, "rb") as file:
        file.seek(-TAIL, os.SEEK_END)
        size = int.from_bytes(file.read(4), "little")
        file.seek(-TAIL - size, os.SEEK_END)
        return thrift.read(file.read(size))


def _is_sound(reader: ParquetReader, footer: thrift.Struct) -> bool:
    """Whether nothing in it is null that must not be, and it is as everybody writes it."""
    if any(has_required(field.type) for field in reader.schema):
        return False
    if any(entry[1].plain == OLD_CALENDAR for entry in _structs(footer, 5)):
        return False
    fields = {field.name.encode(): field for field in reader.schema}
    for group in _structs(footer, 4):
        for column in _structs(group, 1):
            told = column[3].struct
            field = fields.get(bytes(told[3].items[0]))  # type: ignore[arg-type]
            if field is not None and not _is_plain(field, told):
                return False
    return True


def _structs(of: thrift.Struct, number: int) -> Iterator[thrift.Struct]:
    """Those in a list, if it is there."""
    if number in of:
        for each in of[number].items:
            assert isinstance(each, dict)
            yield each


def _is_plain(field: Field, told: thrift.Struct) -> bool:
    """Of a column in a group of rows."""
    if told[4].number not in EASY:
        return False
    if field.nullable:
        return True
    nulls = told[12].struct.get(3) if 12 in told else None
    return not isinstance(field.type, Array | Struct) and nulls is not None and nulls.number == 0
