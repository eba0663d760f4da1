"""Compatibility of a Parquet file's types with the declared ones: each must hold every value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from headrace.core.types import map_entries
from headrace.core.types.data_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DAY_TIME,
    DOUBLE,
    FLOAT,
    INT,
    INTEGER_DIGITS,
    INTEGER_TYPES,
    MAX_DIGITS,
    SMALLINT,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TIMESTAMP_TYPES,
    TINYINT,
    Array,
    Decimal,
    Field,
    Interval,
    MapType,
    Struct,
    Time,
    Type,
    is_nested,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl
    from polars._typing import PolarsDataType


def from_polars(dtype: pl.DataType, *, zoneless: Type = TIMESTAMP_NTZ) -> Type | None:
    """Return the type that holds every value of the Polars type, or None if there is none.

    `zoneless` is the type of timestamps without a time zone.

    >>> import polars as pl
    >>> str(from_polars(pl.List(pl.UInt32())))
    'array<bigint>'
    """
    import polars as pl

    match dtype:
        case pl.List() | pl.Array():
            element = from_polars(dtype.inner, zoneless=zoneless)  # type: ignore[arg-type]
            return Array(element) if element else None
        case pl.Map():
            key, value = from_polars(dtype.key), from_polars(dtype.value)  # type: ignore[arg-type]
            return MapType(key, value) if key and value and not is_nested(key) else None
        case pl.Struct():
            dtypes = [_to_instance(field.dtype) for field in dtype.fields]
            types = [from_polars(each, zoneless=zoneless) for each in dtypes]
            fields = [(field.name, type) for field, type in zip(dtype.fields, types, strict=True)]
            known = tuple(Field(name, type) for name, type in fields if type)
            return Struct(known) if len(known) == len(fields) else None
        case pl.Decimal():
            return Decimal(dtype.precision or MAX_DIGITS, dtype.scale)
        case pl.Datetime():
            return TIMESTAMP if dtype.time_zone else zoneless
        case pl.Duration():
            return DAY_TIME
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
        pl.Time(): TIME,
        pl.Null(): STRING,
    }


def can_hold(wanted: Type, actual: Type) -> bool:
    """Whether every value of type `actual` is a value of type `wanted`.

    >>> from headrace.core.types.data_types import BIGINT, STRING
    >>> can_hold(BIGINT, INT), can_hold(INT, BIGINT), can_hold(STRING, INT)
    (True, False, False)
    """
    match wanted, actual:
        case Array(element), Array(other):
            return can_hold(element, other)
        case MapType(key, value), MapType(other_key, other_value):
            return can_hold(key, other_key) and can_hold(value, other_value)
        case Struct(fields), Struct(others):
            types = {field.name: field.type for field in others}
            return all(f.name in types and can_hold(f.type, types[f.name]) for f in fields)
        case Decimal(precision, scale), Decimal(digits, places):
            return scale >= places and precision - scale >= digits - places
        case Decimal(precision, scale), _ if actual in INTEGER_DIGITS:
            return precision - scale >= min(INTEGER_DIGITS[actual], 19)
    if wanted in INTEGER_TYPES and actual in INTEGER_TYPES:
        return INTEGER_TYPES.index(wanted) >= INTEGER_TYPES.index(actual)
    if isinstance(wanted, Interval):
        return actual == (INT if wanted.is_months else DAY_TIME)
    if isinstance(wanted, Time):
        return isinstance(actual, Time) and wanted.precision >= actual.precision
    if wanted == TIMESTAMP:
        return actual in TIMESTAMP_TYPES  # a time without a zone is in UTC
    if wanted == DOUBLE:
        return actual in (TINYINT, SMALLINT, INT, FLOAT, DOUBLE)
    return wanted == actual


def convert_value(value: pl.Expr, dtype: pl.DataType, type: Type) -> pl.Expr:
    """Convert a value to the declared type."""
    import polars as pl

    if isinstance(type, Array) and isinstance(dtype, pl.Array | pl.List):
        listed = value.arr.to_list() if isinstance(dtype, pl.Array) else value
        return listed.list.eval(
            convert_value(pl.element(), _to_instance(dtype.inner), type.element)
        )
    if isinstance(type, MapType) and isinstance(dtype, pl.Map):
        key, each = _to_instance(dtype.key), _to_instance(dtype.value)
        return map_entries.convert_entries(
            value,
            lambda part: convert_value(part, key, type.key),
            lambda part: convert_value(part, each, type.value),
        )
    if isinstance(type, Struct) and isinstance(dtype, pl.Struct):
        dtypes = {field.name: _to_instance(field.dtype) for field in dtype.fields}
        fields = [
            convert_value(value.struct.field(f.name), dtypes[f.name], f.type).alias(f.name)
            for f in type.fields
        ]
        return pl.when(value.is_not_null()).then(pl.struct(fields))
    return value.cast(to_polars(type))


def _to_instance(dtype: PolarsDataType) -> pl.DataType:
    """Return an instance of a Polars type given as an instance or a class."""
    return dtype() if isinstance(dtype, type) else dtype
