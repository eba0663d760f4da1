"""Timestamps as numbers since 1970, and the reverse.

A number out of the range of timestamps is NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.function import Overload, SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import build_evaluating_once
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import AS_WRITTEN, NO_SPARK_FORM, PolarsForm
from headrace.core.types import calendar
from headrace.core.types.data_types import DOUBLE, TIMESTAMP_TYPES, Decimal, to_polars

if TYPE_CHECKING:
    import polars as pl

FAMILY = "times"


def _define_since_epoch(name: str, doc: str, unit: int, example: str) -> SqlFunction:
    """Define a function that counts whole units since 1970, rounded down also before 1970."""
    rows = (
        overload(
            f"{name}(time: exact {type}) -> bigint",
            lambda time: calendar.to_micros(time) // unit,
            nulls="strict",
        )
        for type in TIMESTAMP_TYPES
    )
    call = f"{name}(timestamp '1970-01-01 00:00:01.5')"
    return function(name, FAMILY, doc, *rows, example=(call, example))


def _build_timestamp(unit: int) -> PolarsForm:
    """Return the form of a whole number of units as a timestamp."""
    return lambda number: calendar.to_timestamp(calendar.to_int128(number) * unit)


def _build_from_decimal(bound: BoundArguments) -> PolarsForm:
    """Return the form; digits past the microsecond cannot be stored in a timestamp, so the result
    is NULL."""
    type = bound.types[0]
    assert isinstance(type, Decimal)
    return build_evaluating_once(lambda seconds: _decimal_to_timestamp(seconds, type.scale))(bound)


def _decimal_to_timestamp(seconds: pl.Expr, scale: int) -> pl.Expr:
    import polars as pl

    number = seconds.reinterpret(dtype=pl.Int128)
    if scale <= 6:
        # Narrowed first, so that the product has room.
        short = calendar.to_int128(number.cast(pl.Int64, strict=False))
        return calendar.to_timestamp(short * pl.lit(10 ** (6 - scale), dtype=pl.Int128))
    unit = pl.lit(10 ** (scale - 6), dtype=pl.Int128)
    return calendar.to_timestamp(pl.when(number % unit == 0).then(number // unit))


def _double_to_timestamp(seconds: pl.Expr) -> pl.Expr:
    """Truncate to the microsecond, and to the ends of the range."""
    import polars as pl

    micros = pl.when(seconds.is_finite()).then(seconds * float(calendar.SECOND_US))
    return micros.cast(pl.Int64, wrap_numerical=True).cast(pl.Datetime("us", "UTC"))


def _define_timestamp_overload(name: str, unit: int) -> Overload:
    max_number = (2**63 - 1) // unit
    within = f"if({{0}} between -{max_number}L and {max_number}L, {name}({{0}}), null)"
    spark = AS_WRITTEN if unit == 1 else within
    return overload(f"{name}(number: I) -> timestamp", _build_timestamp(unit), spark=spark)


UNIX_TIME: tuple[SqlFunction, ...] = (
    _define_since_epoch(
        "unix_seconds", "The whole seconds since 1970-01-01 00:00:00.", calendar.SECOND_US, "1"
    ),
    _define_since_epoch(
        "unix_millis", "The whole milliseconds since 1970-01-01 00:00:00.", 1000, "1500"
    ),
    _define_since_epoch("unix_micros", "The microseconds since 1970-01-01 00:00:00.", 1, "1500000"),
    function(
        "timestamp_seconds",
        FAMILY,
        "The timestamp this many seconds after 1970-01-01 00:00:00; NULL for a decimal with digits"
        " past the microsecond, a double is truncated.",
        _define_timestamp_overload("timestamp_seconds", calendar.SECOND_US),
        overload(
            "timestamp_seconds(number: exact D) -> timestamp",
            build=_build_from_decimal,
            spark=NO_SPARK_FORM,
        ),
        overload(
            "timestamp_seconds(number: exact F) -> timestamp",
            build=build_evaluating_once(
                lambda seconds: _double_to_timestamp(seconds.cast(to_polars(DOUBLE)))
            ),
            spark=NO_SPARK_FORM,
        ),
        example=("timestamp_seconds(1.5)", "1970-01-01 00:00:01.5"),
    ),
    function(
        "timestamp_millis",
        FAMILY,
        "The timestamp this many milliseconds after 1970-01-01 00:00:00.",
        _define_timestamp_overload("timestamp_millis", 1000),
        example=("timestamp_millis(1500)", "1970-01-01 00:00:01.5"),
    ),
    function(
        "timestamp_micros",
        FAMILY,
        "The timestamp this many microseconds after 1970-01-01 00:00:00.",
        _define_timestamp_overload("timestamp_micros", 1),
        example=("timestamp_micros(1500000)", "1970-01-01 00:00:01.5"),
    ),
)
"""The functions between timestamps and numbers."""
