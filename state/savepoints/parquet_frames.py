"""Frames as Parquet files that convert back to exactly the same types and bits.

Polars records its column types in the file, so types that Parquet lacks convert back as well; other
tools see the nearest Parquet type (128-bit numbers as 16 bytes, durations as counts of
microseconds). Only a struct without fields cannot be written: it gets a field of nulls.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.api.snapshots import DamagedSnapshot
from headrace.core.types.data_types import (
    ATOMS,
    DAY_TIME,
    INTERVAL_TYPES,
    MAX_DIGITS,
    NULL,
    Array,
    Decimal,
    Field,
    MapType,
    Struct,
    Type,
    to_polars,
)
from headrace.state.rocks.row_codec import get_entry_types, get_inner_type, instantiate_type

if TYPE_CHECKING:
    import polars as pl

GROUP_COLUMN = "__group"
"""Column with the key group of each row (int)."""

ZSTD_LEVEL = 1
"""Compression level of zstd."""

ROW_GROUP_ROWS = 1 << 17
"""Rows per row group, which a reader may skip or read by itself."""

PLACEHOLDER_FIELD = "__nothing"
"""Name of the field that an empty struct gets."""

COLUMN_TYPES = tuple(
    atom for atom in ATOMS.values() if atom not in {*INTERVAL_TYPES, NULL} - {DAY_TIME}
)
"""Types without parameters that a column may have."""


def encode_parquet(frame: pl.DataFrame) -> memoryview:
    """Encode the frame as a Parquet file."""
    to = io.BytesIO()
    _fill_empty_structs(frame).write_parquet(
        to, compression="zstd", compression_level=ZSTD_LEVEL, row_group_size=ROW_GROUP_ROWS
    )
    return to.getbuffer()


def decode_parquet(data: bytes, columns: list[str] | None = None) -> pl.DataFrame:
    """Decode the frame, or some of its columns, from a Parquet file. Raises DamagedSnapshot."""
    import polars as pl

    try:
        return _restore_empty_structs(pl.read_parquet(io.BytesIO(data), columns=columns))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DamagedSnapshot(f"wanted Parquet, got {len(data)} bytes: {error}") from error


def get_sql_type(type: pl.DataType) -> str | None:
    """Return headrace's name of a Polars type; None for one that no pipeline column has.

    >>> import polars as pl
    >>> (
    ...     get_sql_type(pl.List(pl.Struct({"at": pl.Datetime("us", "UTC")}))),
    ...     get_sql_type(pl.UInt64()),
    ... )
    ('array<struct<at:timestamp>>', None)
    """
    found = _to_sql_type(type)
    return None if found is None or to_polars(found) != type else str(found)


def _to_sql_type(type: pl.DataType) -> Type | None:
    """Return the SQL type that this Polars type may carry."""
    import polars as pl

    if isinstance(type, pl.Decimal):
        return Decimal(type.precision or MAX_DIGITS, type.scale)
    if isinstance(type, pl.List):
        element = _to_sql_type(get_inner_type(type))
        return None if element is None else Array(element)
    if isinstance(type, pl.Map):
        key, value = map(_to_sql_type, get_entry_types(type))
        return None if key is None or value is None else MapType(key, value)
    if isinstance(type, pl.Struct):
        fields = [
            (field.name, _to_sql_type(instantiate_type(field.dtype))) for field in type.fields
        ]
        known = tuple(Field(name, of) for name, of in fields if of is not None)
        return Struct(known) if len(known) == len(fields) else None
    return next((atom for atom in COLUMN_TYPES if to_polars(atom) == type), None)


def _fill_empty_structs(frame: pl.DataFrame) -> pl.DataFrame:
    """Add a field to every empty struct."""
    types = {name: _add_field(type) for name, type in frame.schema.items()}
    return _cast(frame, types)


def _restore_empty_structs(frame: pl.DataFrame) -> pl.DataFrame:
    """Remove the fields added to empty structs."""
    types = {name: _remove_field(type) for name, type in frame.schema.items()}
    return _cast(frame, types)


def _cast(frame: pl.DataFrame, types: dict[str, pl.DataType]) -> pl.DataFrame:
    import polars as pl

    changed = [name for name, type in types.items() if type != frame.schema[name]]
    # Not strict: else a struct would have to keep the number of its fields.
    casts = [pl.col(name).cast(types[name], strict=False) for name in changed]
    return frame.with_columns(casts) if casts else frame


def _add_field(type: pl.DataType) -> pl.DataType:
    import polars as pl

    if isinstance(type, pl.Struct) and not type.fields:
        return pl.Struct({PLACEHOLDER_FIELD: pl.Int8()})
    return _map_inner_types(type, _add_field)


def _remove_field(type: pl.DataType) -> pl.DataType:
    import polars as pl

    if isinstance(type, pl.Struct) and [field.name for field in type.fields] == [PLACEHOLDER_FIELD]:
        return pl.Struct({})
    return _map_inner_types(type, _remove_field)


def _map_inner_types(
    type: pl.DataType, change: Callable[[pl.DataType], pl.DataType]
) -> pl.DataType:
    """Return the type with its inner types changed."""
    import polars as pl

    if isinstance(type, pl.List):
        return pl.List(change(get_inner_type(type)))
    if isinstance(type, pl.Map):
        return pl.Map(*map(change, get_entry_types(type)))
    if isinstance(type, pl.Array):
        return pl.Array(change(get_inner_type(type)), type.size)
    if isinstance(type, pl.Struct):
        return pl.Struct(
            {field.name: change(instantiate_type(field.dtype)) for field in type.fields}
        )
    return type
