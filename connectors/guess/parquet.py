"""The columns of a Parquet file's own schema, as headrace types."""

from __future__ import annotations

from headrace.connectors.formats.parquet_types import from_polars
from headrace.connectors.guess.file_head import UnreadableFile
from headrace.core.types.data_types import (
    NULL,
    TIMESTAMP,
    Type,
)


def read_parquet_columns(path: str, name: str) -> tuple[list[tuple[str, Type]], tuple[str, ...]]:
    """Return the columns, and a note for each whose type headrace does not have.

    A column without any value has the type of null.
    """
    import polars as pl

    try:
        with open(path, "rb") as file:
            schema = pl.read_parquet_schema(file)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UnreadableFile(f"{name} is a damaged Parquet file: {error}") from None
    columns, notes = [], []
    for column, dtype in schema.items():
        type = NULL if dtype == pl.Null else from_polars(dtype, zoneless=TIMESTAMP)
        if type is None:
            notes.append(f'column "{column}" is left out: headrace has no type for {dtype}')
        else:
            columns.append((column, type))
    if not columns:
        raise UnreadableFile(f"{name} has no column that headrace can read")
    return columns, tuple(notes)
