"""Inspection of Parquet files: whether any reader, such as Spark's, would read the same rows.

That is so if the columns have exactly the declared types, and the footer guarantees that no value
is null where nulls are not allowed.
"""

from __future__ import annotations

from headrace.connectors.formats import thrift
from headrace.connectors.formats.bad_records import has_required_field
from headrace.connectors.formats.json_wire import contains_type
from headrace.connectors.formats.parquet_footer import iterate_structs, read_footer
from headrace.connectors.formats.parquet_read import ParquetReader
from headrace.core.types.data_types import Field, Interval, Time, is_nested, to_polars
from headrace.core.types.lazy_dataclass import dataclass

COMMON_CODECS = {0, 1, 2, 6}
"""The codecs that every reader supports: none, Snappy, gzip and Zstandard."""
LEGACY_CALENDAR_KEY = b"org.apache.spark.legacyDateTime"


@dataclass(frozen=True, slots=True)
class ParquetSummary:
    """The number of rows of a file, and whether any reader may read it directly."""

    row_count: int
    is_plain: bool


def inspect_file(reader: ParquetReader, path: str) -> ParquetSummary:
    """Inspect a file. Raises ConnectorError as reading it would."""
    found = reader.read_columns(path)
    footer = read_footer(path, reader.schema.names)
    has_types = all(
        found.get(field.name) == to_polars(field.type)
        and not contains_type(field.type, Time, Interval)
        for field in reader.schema
    )  # Spark reads neither of them as Polars writes it
    return ParquetSummary(footer[3].number, has_types and _is_sound(reader, footer))


def _is_sound(reader: ParquetReader, footer: thrift.ThriftStruct) -> bool:
    """Whether the file has no forbidden nulls, and uses only common features."""
    if any(has_required_field(field.type) for field in reader.schema):
        return False
    if any(entry[1].plain == LEGACY_CALENDAR_KEY for entry in iterate_structs(footer, 5)):
        return False
    fields = {field.name.encode(): field for field in reader.schema}
    for group in iterate_structs(footer, 4):
        for column in iterate_structs(group, 1):
            chunk = column[3].struct
            field = fields.get(bytes(chunk[3].items[0]))  # type: ignore[arg-type]
            if field is not None and not _is_plain_column(field, chunk):
                return False
    return True


def _is_plain_column(field: Field, chunk: thrift.ThriftStruct) -> bool:
    """Whether a column chunk has a common codec, and no forbidden nulls."""
    if chunk[4].number not in COMMON_CODECS:
        return False
    if field.nullable:
        return True
    nulls = chunk[12].struct.get(3) if 12 in chunk else None
    return not is_nested(field.type) and nulls is not None and nulls.number == 0
