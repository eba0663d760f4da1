"""The columns of a Parquet file's own schema, as headrace types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.connectors.guess.sample import UnreadableFile
from headrace.core.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MAX_DIGITS,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Array,
    Decimal,
    Field,
    Struct,
    Type,
)

if TYPE_CHECKING:
    import polars as pl


def read_parquet_columns(path: str, name: str) -> tuple[list[tuple[str, Type]], tuple[str, ...]]:
    """Return the columns, and a note for each whose type headrace does not have."""
    import polars as pl

    try:
        with open(path, "rb") as file:
            schema = pl.read_parquet_schema(file)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UnreadableFile(f"{name} is a damaged Parquet file: {error}") from None
    columns, notes = [], []
    for column, dtype in schema.items():
        type = from_polars(dtype)
        if type is None:
            notes.append(f'column "{column}" is left out: headrace has no type for {dtype}')
        else:
            columns.append((column, type))
    if not columns:
        raise UnreadableFile(f"{name} has no column that headrace can read")
    return columns, tuple(notes)


def from_polars(dtype: pl.DataType) -> Type | None:
    """Return the type that holds every value of the Polars type, or None if there is none.

    >>> import polars as pl
    >>> str(from_polars(pl.List(pl.UInt32())))
    'array<bigint>'
    """
    import polars as pl

    match dtype:
        case pl.List() | pl.Array():
            element = from_polars(dtype.inner)  # type: ignore[arg-type]
            return Array(element) if element else None
        case pl.Struct():
            fields = [(field.name, from_polars(field.dtype)) for field in dtype.fields]  # type: ignore[arg-type]
            known = tuple(Field(name, type) for name, type in fields if type)
            return Struct(known) if len(known) == len(fields) else None
        case pl.Decimal():
            return Decimal(dtype.precision or MAX_DIGITS, dtype.scale)
        case pl.Datetime():
            return TIMESTAMP
        case pl.Enum() | pl.Categorical():
            return STRING
    return _list_atomic_types().get(dtype)


def _list_atomic_types() -> dict[pl.DataType, Type]:
    import polars as pl

    return {
        pl.Boolean(): BOOLEAN,
        pl.Int8(): TINYINT,
        pl.Int16(): SMALLINT,
        pl.UInt8(): SMALLINT,
        pl.Int32(): INT,
        pl.UInt16(): INT,
        pl.Int64(): BIGINT,
        pl.UInt32(): BIGINT,
        pl.UInt64(): Decimal(20, 0),
        pl.Float32(): FLOAT,
        pl.Float64(): DOUBLE,
        pl.String(): STRING,
        pl.Binary(): BINARY,
        pl.Date(): DATE,
        pl.Null(): STRING,
    }
