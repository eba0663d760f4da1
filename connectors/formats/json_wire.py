"""How a column travels from JSON: the Polars type it is read as, and what is made of that.

Polars' reader is strict about booleans, numbers, arrays and structs, and takes any JSON value as a
text. What it cannot read as it is (dates, instants, decimals, binary) comes as text or as a wider
number, and is converted a column at a time. A conversion gives null for what does not fit: a null
that was none before marks a bad record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from headrace.connectors.formats import times
from headrace.connectors.formats.decimals import decimals
from headrace.core.types import (
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
    TINYINT,
    Array,
    Decimal,
    Struct,
    Type,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
"""A value on its way: what Polars gives Python of a column that is read from JSON."""

# What Polars reads as it stands. It has no reader for numbers of 8 and 16 bits, and makes an
# infinity of a number that is too large for 32.
AS_IT_IS = (BOOLEAN, INT, BIGINT, DOUBLE, STRING)

# How many units of an epoch are a second.
EPOCHS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


def has(type: Type, *leaves: Type | type[Type]) -> bool:
    """Whether the type is one of these, or has one somewhere within."""
    match type:
        case Array(element):
            return has(element, *leaves)
        case Struct(fields):
            return any(has(field.type, *leaves) for field in fields)
    return any(type == leaf or leaf is type.__class__ for leaf in leaves)


def is_exact(type: Type) -> bool:
    """Whether the type has values of which Polars' reader keeps too little."""
    return has(type, Decimal, BINARY)


def is_nested(type: Type) -> bool:
    """Whether it is an array or a struct."""
    return isinstance(type, Array | Struct)


def wire(type: Type, epoch: str | None, *, words: bool = False) -> pl.DataType:
    """The type a column is read as; with `words`, what may hold `"NaN"` is read as text."""
    import polars as pl

    match type:
        case Array(element):
            return pl.List(wire(element, epoch, words=words))
        case Struct(fields):
            return pl.Struct({field.name: wire(field.type, epoch, words=words) for field in fields})
    if type in (TINYINT, SMALLINT):
        return pl.Int32()
    if type in (FLOAT, DOUBLE):
        return pl.String() if words else pl.Float64()
    if type == TIMESTAMP and epoch:
        return pl.Int64()
    return to_polars(type) if type in AS_IT_IS else pl.String()


def is_plain(type: Type) -> bool:
    """Whether nothing is to be made of what Polars reads."""
    match type:
        case Array(element):
            return is_plain(element)
        case Struct(fields):
            return all(is_plain(field.type) for field in fields)
    return type in AS_IT_IS


def converted(column: pl.Series, type: Type, epoch: str | None) -> tuple[pl.Series, list[int]]:
    """The column in its own type, and the rows in which it could not be made."""
    import polars as pl

    if isinstance(type, Decimal):
        value = decimals(column, type)
    elif type == TIMESTAMP and not epoch:
        value = times.instants(column)
    elif type == TIMESTAMP and (instants := _fitting(column, epoch or "us")) is not None:
        return instants, []
    else:
        raw = pl.col(column.name)
        value = column.to_frame().select(_value(raw, type, epoch).alias(column.name)).to_series()
        if is_nested(type):
            wrong = column.to_frame().select(_wrong(raw, type, epoch)).to_series()
            return value, wrong.arg_true().to_list()
    if value.null_count() == column.null_count():
        return value, []
    return value, (value.is_null() & column.is_not_null()).arg_true().to_list()


def _value(raw: pl.Expr, type: Type, epoch: str | None) -> pl.Expr:
    """What is made of one value; null where it does not fit."""
    import polars as pl

    match type:
        case Array(element):
            return raw.list.eval(_value(pl.element(), element, epoch))
        case Struct(fields):
            inner = [
                _value(raw.struct.field(field.name), field.type, epoch).alias(field.name)
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
        return times.dates(raw)
    if type == TIMESTAMP:
        return _since_epoch(raw, epoch) if epoch else times.instant(raw)
    return raw.cast(to_polars(type), strict=False)


def _wrong(raw: pl.Expr, type: Type, epoch: str | None) -> pl.Expr:
    """Whether something within could not be made."""
    import polars as pl

    match type:
        case Array(element):
            return raw.list.eval(_wrong(pl.element(), element, epoch)).list.any().fill_null(False)
        case Struct(fields):
            return pl.any_horizontal(
                [_wrong(raw.struct.field(field.name), field.type, epoch) for field in fields]
            )
    return _value(raw, type, epoch).is_null() & raw.is_not_null()


def _fitting(units: pl.Series, epoch: str) -> pl.Series | None:
    """Whole units since 1970 as instants, if all fit: an eighth of asking it of each."""
    import polars as pl

    factor, finer = divmod(EPOCHS["us"], EPOCHS[epoch])
    limit = (2**63 - 1) // max(factor, 1)
    if finer or not units.is_between(-limit, limit).all():
        return None
    return (units * factor).cast(pl.Datetime("us", "UTC"))


def _since_epoch(units: pl.Expr, epoch: str) -> pl.Expr:
    """Whole units since 1970 as an instant; what is finer than a microsecond is cut off."""
    import polars as pl

    micros = EPOCHS["us"]
    if EPOCHS[epoch] > micros:
        return units.floordiv(EPOCHS[epoch] // micros).cast(pl.Datetime("us", "UTC"))
    factor = micros // EPOCHS[epoch]
    limit = (2**63 - 1) // factor
    fits = units.is_between(-limit, limit)
    return pl.when(fits).then(units * factor).cast(pl.Datetime("us", "UTC"))
