"""Frames as the text that PostgreSQL's COPY reads: CSV without a header.

Arrays, maps and structs are JSON, as JSON lines have them; bytes are hexadecimal.

Tests: tests/connectors/tables/test_sql_sink.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from headrace.connectors.formats.csv_encode import CsvEncoder
from headrace.connectors.formats.json_encode import encode_values
from headrace.connectors.tables.sql_staging import DELETES, PART, ROW, list_copied_columns
from headrace.connectors.tables.sql_target import SinkRows
from headrace.core.types.data_types import BINARY, STRING, Field, Schema, Type, is_nested
from headrace.core.types.elements import DELETE

if TYPE_CHECKING:
    import polars as pl


def encode_rows(frame: pl.DataFrame, rows: SinkRows, part: UUID, first_row: int) -> bytes:
    """Return the rows of a part as CSV, numbered from `first_row`."""
    import polars as pl

    numbers = pl.int_range(first_row, first_row + frame.height, eager=True).alias(ROW)
    own = [pl.Series(PART, [part.hex], pl.String).new_from_index(0, frame.height), numbers]
    own += [frame[DELETE].alias(DELETES)] if rows.has_deletes else []
    values = [_encode_column(frame[field.name], field.type) for field in rows.columns]
    return _build_encoder(rows).encode(pl.DataFrame([*own, *values]))


def _build_encoder(rows: SinkRows) -> CsvEncoder:
    columns = list_copied_columns(rows)
    fields = (Field(f.name, STRING if _is_text(f.type) else f.type) for f in columns)
    return CsvEncoder(Schema(tuple(fields)), has_header=False)


def _is_text(type: Type) -> bool:
    """Whether values of a type are written as text of another form than in CSV files."""
    return type == BINARY or is_nested(type)


def _encode_column(column: pl.Series, type: Type) -> pl.Series:
    if type == BINARY:
        return ("\\x" + column.bin.encode("hex")).alias(column.name)
    return encode_values(column, type) if is_nested(type) else column
