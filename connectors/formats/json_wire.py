"""Wire types: the Polars type as which a JSON column is read, and its conversion.

Polars' reader is strict about booleans, numbers, arrays and structs, and accepts any JSON value as
text. Types that it cannot read directly (dates, timestamps, decimals, binary) are read as text or
as a wider number, and converted a column at a time. A conversion gives null for an invalid value: a
null that was not null before marks a bad record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from headrace.connectors.formats import times
from headrace.connectors.formats.decimals import parse_decimals
from headrace.core.expressions.casts import build_cast_form
from headrace.core.types import map_entries
from headrace.core.types.data_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Array,
    Decimal,
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

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
"""A value of a JSON column, as Polars gives it to Python."""

# The types that Polars reads directly. It has no reader for numbers of 8 and 16 bits, and reads
# a number that is too large for 32 bits as infinity.
DIRECT_TYPES = (BOOLEAN, INT, BIGINT, DOUBLE, STRING)

# The units of an epoch in a second.
UNITS_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


def contains_type(type: Type, *leaves: Type | type[Type]) -> bool:
    """Whether the type is one of these, or contains one."""
    match type:
        case Array(element):
            return contains_type(element, *leaves)
        case MapType(key, value):
            return contains_type(key, *leaves) or contains_type(value, *leaves)
        case Struct(fields):
            return any(contains_type(field.type, *leaves) for field in fields)
    return any(type == leaf or leaf is type.__class__ for leaf in leaves)


def is_exact(type: Type) -> bool:
    """Whether Polars' reader would lose precision of values of the type."""
    return contains_type(type, Decimal, BINARY)


def to_wire_type(type: Type, epoch: str | None, *, words: bool = False) -> pl.DataType:
    """Return the type as which a column is read; with `words`, doubles are read as text."""
    import polars as pl

    match type:
        case Array(element):
            return pl.List(to_wire_type(element, epoch, words=words))
        case MapType(_, value):  # the keys of JSON objects are texts
            return pl.Map(pl.String(), to_wire_type(value, epoch, words=words))
        case Struct(fields):
            return pl.Struct(
                {field.name: to_wire_type(field.type, epoch, words=words) for field in fields}
            )
    if type in (TINYINT, SMALLINT):
        return pl.Int32()
    if type in (FLOAT, DOUBLE):
        return pl.String() if words else pl.Float64()
    if type == TIMESTAMP and epoch:
        return pl.Int64()
    return to_polars(type) if type in DIRECT_TYPES else pl.String()


def needs_no_conversion(type: Type) -> bool:
    """Whether the type needs no conversion after reading."""
    match type:
        case Array(element):
            return needs_no_conversion(element)
        case MapType(key, value):
            return key == STRING and needs_no_conversion(value)
        case Struct(fields):
            return all(needs_no_conversion(field.type) for field in fields)
    return type in DIRECT_TYPES


def convert_column(column: pl.Series, type: Type, epoch: str | None) -> tuple[pl.Series, list[int]]:
    """Convert a column to its type; also return the rows whose value is invalid."""
    import polars as pl

    if isinstance(type, Decimal):
        value = parse_decimals(column, type)
    elif type == TIMESTAMP and not epoch:
        value = times.parse_timestamp_column(column)
    elif type == TIMESTAMP and (instants := _convert_all_units(column, epoch or "us")) is not None:
        return instants, []
    else:
        raw = pl.col(column.name)
        value = (
            column.to_frame()
            .select(_convert_value(raw, type, epoch).alias(column.name))
            .to_series()
        )
        if is_nested(type):
            wrong = column.to_frame().select(_is_invalid(raw, type, epoch)).to_series()
            return value, wrong.arg_true().to_list()
    if value.null_count() == column.null_count():
        return value, []
    return value, (value.is_null() & column.is_not_null()).arg_true().to_list()


def _convert_value(raw: pl.Expr, type: Type, epoch: str | None) -> pl.Expr:
    """Convert one value; null if it is invalid."""
    import polars as pl

    match type:
        case Array(element):
            return raw.list.eval(_convert_value(pl.element(), element, epoch))
        case MapType(_, of):
            return map_entries.convert_entries(
                raw, lambda key: key, lambda value: _convert_value(value, of, epoch)
            )
        case Struct(fields):
            inner = [
                _convert_value(raw.struct.field(field.name), field.type, epoch).alias(field.name)
                for field in fields
            ]
            return pl.when(raw.is_not_null()).then(pl.struct(inner))
        case Decimal():
            return raw.cast(to_polars(type))
    if type == FLOAT:
        narrow = raw.cast(pl.Float32)
        return pl.when(~(narrow.is_infinite() & raw.is_finite())).then(narrow)
    if type == BINARY:
        return raw.str.decode("base64", strict=False)
    if type == DATE:
        return times.parse_dates(raw)
    if type == TIMESTAMP:
        return _convert_units(raw, epoch) if epoch else times.parse_timestamps(raw)
    if type == TIMESTAMP_NTZ:
        return times.parse_local_timestamps(raw)
    if isinstance(type, Interval):
        return build_cast_form(STRING, type)(raw)
    if isinstance(type, Time):
        return times.parse_clock_times(raw, type.precision)
    return raw.cast(to_polars(type), strict=False)


def _is_invalid(raw: pl.Expr, type: Type, epoch: str | None) -> pl.Expr:
    """Whether a value, or one within it, is invalid."""
    import polars as pl

    match type:
        case Array(element):
            return (
                raw.list.eval(_is_invalid(pl.element(), element, epoch)).list.any().fill_null(False)
            )
        case MapType(_, value):
            return _is_invalid(raw.map.values(), Array(value), epoch)
        case Struct(fields):
            return pl.any_horizontal(
                [_is_invalid(raw.struct.field(field.name), field.type, epoch) for field in fields]
            )
    return _convert_value(raw, type, epoch).is_null() & raw.is_not_null()


def _convert_all_units(units: pl.Series, epoch: str) -> pl.Series | None:
    """Convert whole units since 1970 to timestamps, if all fit: in an eighth of the time."""
    import polars as pl

    factor, finer = divmod(UNITS_PER_SECOND["us"], UNITS_PER_SECOND[epoch])
    limit = (2**63 - 1) // max(factor, 1)
    least, most = units.min(), units.max()
    if finer or (least is not None and (least < -limit or most > limit)):  # type: ignore[operator]
        return None
    return (units if factor == 1 else units * factor).cast(pl.Datetime("us", "UTC"))


def _convert_units(units: pl.Expr, epoch: str) -> pl.Expr:
    """Convert whole units since 1970 to a timestamp, truncated to microseconds."""
    import polars as pl

    micros = UNITS_PER_SECOND["us"]
    if UNITS_PER_SECOND[epoch] > micros:
        return units.floordiv(UNITS_PER_SECOND[epoch] // micros).cast(pl.Datetime("us", "UTC"))
    factor = micros // UNITS_PER_SECOND[epoch]
    limit = (2**63 - 1) // factor
    fits = units.is_between(-limit, limit)
    return pl.when(fits).then(units * factor).cast(pl.Datetime("us", "UTC"))
