"""Timestamps as numbers since 1970, and the reverse.

A number out of the range of timestamps is NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions import calendar
from headrace.core.expressions.function import Function, Overload, function, overload
from headrace.core.expressions.functions.arguments import repeating
from headrace.core.expressions.signature import Bound
from headrace.core.expressions.typed import AS_WRITTEN, OURS, Form
from headrace.core.types import DOUBLE, Decimal, to_polars

if TYPE_CHECKING:
    import polars as pl

FAMILY = "times"


def _since(name: str, doc: str, unit: int, example: str) -> Function:
    """Define a function that counts whole units since 1970, rounded down also before 1970."""
    row = overload(
        f"{name}(time: exact timestamp) -> bigint",
        lambda time: calendar.micros(time) // unit,
        nulls="strict",
    )
    call = f"{name}(timestamp '1970-01-01 00:00:01.5')"
    return function(name, FAMILY, doc, row, example=(call, example))


def _times(unit: int) -> Form:
    """Return the form of a whole number of units as a timestamp."""
    return lambda number: calendar.to_timestamp(calendar.wide(number) * unit)


def _decimal_seconds(bound: Bound) -> Form:
    """Return the form; digits past the microsecond cannot be stored in a timestamp, so the result
    is NULL."""
    type = bound.types[0]
    assert isinstance(type, Decimal)
    return repeating(lambda seconds: _exact_micros(seconds, type.scale))(bound)


def _exact_micros(seconds: pl.Expr, scale: int) -> pl.Expr:
    import polars as pl

    number = seconds.reinterpret(dtype=pl.Int128)
    if scale <= 6:
        # Narrowed first, so that the product has room.
        short = calendar.wide(number.cast(pl.Int64, strict=False))
        return calendar.to_timestamp(short * pl.lit(10 ** (6 - scale), dtype=pl.Int128))
    unit = pl.lit(10 ** (scale - 6), dtype=pl.Int128)
    return calendar.to_timestamp(pl.when(number % unit == 0).then(number // unit))


def _floating_seconds(seconds: pl.Expr) -> pl.Expr:
    """Truncate to the microsecond, and to the ends of the range."""
    import polars as pl

    micros = pl.when(seconds.is_finite()).then(seconds * float(calendar.SECOND_US))
    return micros.cast(pl.Int64, wrap_numerical=True).cast(pl.Datetime("us", "UTC"))


def _timestamp_of(name: str, unit: int) -> Overload:
    most = (2**63 - 1) // unit
    within = f"if({{0}} between -{most}L and {most}L, {name}({{0}}), null)"
    spark = AS_WRITTEN if unit == 1 else within
    return overload(f"{name}(number: I) -> timestamp", _times(unit), spark=spark)


EPOCHS: tuple[Function, ...] = (
    _since("unix_seconds", "The whole seconds since 1970-01-01 00:00:00.", calendar.SECOND_US, "1"),
    _since("unix_millis", "The whole milliseconds since 1970-01-01 00:00:00.", 1000, "1500"),
    _since("unix_micros", "The microseconds since 1970-01-01 00:00:00.", 1, "1500000"),
    function(
        "timestamp_seconds",
        FAMILY,
        "The timestamp this many seconds after 1970-01-01 00:00:00; NULL for a decimal with digits"
        " past the microsecond, a double is truncated.",
        _timestamp_of("timestamp_seconds", calendar.SECOND_US),
        overload("timestamp_seconds(number: D) -> timestamp", build=_decimal_seconds, spark=OURS),
        overload(
            "timestamp_seconds(number: F) -> timestamp",
            build=repeating(lambda seconds: _floating_seconds(seconds.cast(to_polars(DOUBLE)))),
            spark=OURS,
        ),
        example=("timestamp_seconds(1.5)", "1970-01-01 00:00:01.5"),
    ),
    function(
        "timestamp_millis",
        FAMILY,
        "The timestamp this many milliseconds after 1970-01-01 00:00:00.",
        _timestamp_of("timestamp_millis", 1000),
        example=("timestamp_millis(1500)", "1970-01-01 00:00:01.5"),
    ),
    function(
        "timestamp_micros",
        FAMILY,
        "The timestamp this many microseconds after 1970-01-01 00:00:00.",
        _timestamp_of("timestamp_micros", 1),
        example=("timestamp_micros(1500000)", "1970-01-01 00:00:01.5"),
    ),
)
"""The functions between timestamps and numbers."""
