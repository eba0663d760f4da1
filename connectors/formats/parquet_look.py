"""What a file of Parquet says of itself: whether others than our own reader read the same of it.

They do where its columns are just of the types that were declared, and where its statistics say
that nothing is null that must not be. pyarrow knows those; it comes with what a batch takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.formats.parquet_read import ParquetReader
from headrace.connectors.formats.required import has_required
from headrace.core.types import Array, Field, Struct, to_polars

if TYPE_CHECKING:
    import polars as pl
    import pyarrow.parquet as pq

COMPRESSIONS = {"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"}
"""Those that everybody unpacks."""
OLD_CALENDAR = b"org.apache.spark.legacyDateTime"


@dataclass(frozen=True, slots=True)
class Looked:
    """How many rows a file has, if that is known, and whether anybody may read it as it stands."""

    rows: int | None
    is_plain: bool


def look(reader: ParquetReader, path: str) -> Looked:
    """Look into a file; raises ConnectorError as reading it would."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = reader.columns(path)
    try:
        known = pq.read_metadata(path)
    except pa.ArrowException:
        return Looked(None, is_plain=False)
    is_plain = _has_types(reader, found) and _is_sound(reader, known)
    return Looked(known.num_rows, is_plain)


def _has_types(reader: ParquetReader, found: Mapping[str, pl.DataType]) -> bool:
    return all(found[field.name] == to_polars(field.type) for field in reader.schema)


def _is_sound(reader: ParquetReader, known: pq.FileMetaData) -> bool:
    """Whether nothing in it is null that must not be, and it is as everybody writes it."""
    if OLD_CALENDAR in (known.metadata or {}):
        return False
    if any(has_required(field.type) for field in reader.schema):
        return False
    groups = [known.row_group(at) for at in range(known.num_row_groups)]
    for at in range(known.num_columns):
        path = known.schema.column(at).path
        columns = [group.column(at) for group in groups]
        for field in reader.schema:
            of_field = path == field.name or path.startswith(f"{field.name}.")
            if of_field and not _is_plain(field, columns):
                return False
    return True


def _is_plain(field: Field, columns: Sequence[pq.ColumnChunkMetaData]) -> bool:
    if any(column.compression not in COMPRESSIONS for column in columns):
        return False
    if field.nullable:
        return True
    return not isinstance(field.type, Array | Struct) and all(map(_has_no_nulls, columns))


def _has_no_nulls(column: pq.ColumnChunkMetaData) -> bool:
    told = column.statistics
    return told is not None and told.has_null_count and told.null_count == 0
