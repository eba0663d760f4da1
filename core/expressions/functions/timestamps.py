"""Functions of timestamps: their parts, the clock, and the start of their unit.

All timestamps are UTC. Where a timestamp is wanted, a date stands for its midnight, and a text
literal for the time that it denotes. A result out of the range of timestamps is NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.function import SqlFunction, TypedCall, function, overload
from headrace.core.expressions.functions import time_units
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    ExpressionError,
    PolarsForm,
    ProcessingTime,
    TypedExpression,
)
from headrace.core.types import calendar
from headrace.core.types.data_types import DATE, TIMESTAMP, Decimal

if TYPE_CHECKING:
    import polars as pl

FAMILY = "times"


def _define_part(name: str, doc: str, whole: str, unit: str, example: str) -> SqlFunction:
    """Define the function of a part of the time of day, as an int."""
    whole_us, unit_us = time_units.MICROSECONDS[whole], time_units.MICROSECONDS[unit]
    row = overload(
        f"{name}(time: timestamp) -> int",
        lambda time: calendar.to_int(calendar.to_micros(time) % whole_us // unit_us),
        nulls="strict",
    )
    call = f"{name}(timestamp '2024-05-06 07:08:09.5')"
    return function(name, FAMILY, doc, row, example=(call, example))


def _check_unit(bound: BoundArguments) -> None:
    unit = bound.constants[0]
    if isinstance(unit, str) and not (
        time_units.build_unit_start(unit) or time_units.unit_length_us(unit)
    ):
        hint = f"the units are {', '.join((*time_units.MICROSECONDS, *time_units.MONTHS))}"
        raise ExpressionError(f"'{unit}' is not a unit here", bound.arguments[0].span, hint)


def _build_date_trunc(bound: BoundArguments) -> PolarsForm:
    """Return the form: units of up to a day are truncated; longer units start with a day."""
    unit = bound.constants[0]
    first, length = time_units.build_unit_start(unit), time_units.unit_length_us(unit)

    def form(_: str, time: pl.Expr) -> pl.Expr:
        if first:
            return calendar.to_midnight(first(calendar.truncate_to_day(time)))
        assert length, "checked"
        rest = calendar.to_micros(time) % length
        return calendar.to_timestamp(calendar.to_int128(calendar.to_micros(time)) - rest)

    return form


_FIRST_MONTH_US = -106_751_981 * calendar.DAY_US
"""The first day of a month within the range of timestamps; it also starts a year."""


def _spark_form_of_trunc(bound: BoundArguments) -> str:
    """Return the Spark form, guarded where the unit started before the first timestamp, at which
    Spark fails; the first whole day is a Monday."""
    unit = str(bound.constants[0]).upper()
    length = time_units.unit_length_us("DAY" if unit == "WEEK" else unit)
    first = -(2**63 // length) * length if length else _FIRST_MONTH_US
    return f"if(unix_micros(timestamp({{1}})) >= {first}L, date_trunc({{0}}, {{1}}), null)"


def _resolve_now(call: TypedCall) -> TypedExpression:
    if call.arguments:
        message = f"{call.name} takes 0 arguments, got {len(call.arguments)}"
        raise ExpressionError(message, call.span)
    return ProcessingTime(TIMESTAMP, False, call.span)


def _resolve_today(call: TypedCall) -> TypedExpression:
    return build_cast(_resolve_now(call), DATE, call.span)


def _build_make_timestamp(bound: BoundArguments) -> PolarsForm:
    """Return the form: seconds are cast to decimal(16,6), as Spark casts any number here."""
    from headrace.core.expressions.batch_forms import compute_on_frame
    from headrace.core.expressions.casts import build_cast_form

    decimal = build_cast_form(bound.types[5], SECONDS_TYPE)
    form = compute_on_frame(_compute_timestamps, TIMESTAMP)
    return lambda *parts: form(*parts[:5], decimal(parts[5]))


def _compute_timestamps(frame: pl.DataFrame) -> pl.Series:
    """Compute timestamps: Java keeps 32 bits of the seconds' microseconds; exactly 60 seconds are
    the next minute."""
    import polars as pl

    year, month, day, hour, minute = (c.cast(pl.Int64) for c in frame.get_columns()[:5])
    second = frame.get_columns()[5].reinterpret(dtype=pl.Int128).cast(pl.Int64)
    second = (second + (1 << 31)) % (1 << 32) - (1 << 31)
    days = calendar.civil_date_to_days(year, month.set((month < 1) | (month > 12), None), day)
    minutes = days * 1440 + hour * 60 + minute
    real = [(hour >= 0) & (hour < 24), (minute >= 0) & (minute < 60)]
    real.append((second >= 0) & (second <= 60 * calendar.SECOND_US))
    whole = calendar.null_unless(minutes, *real)
    assert isinstance(whole, pl.Series)
    micros = whole.cast(pl.Int128) * pl.Series([60 * calendar.SECOND_US], dtype=pl.Int128) + second
    return micros.cast(pl.Int64, strict=False).cast(pl.Datetime("us", "UTC"))


SECONDS_TYPE = Decimal(16, 6)
"""The type to which `make_timestamp` casts its seconds."""

TIMESTAMPS: tuple[SqlFunction, ...] = (
    _define_part("hour", "The hour, from 0 to 23.", "DAY", "HOUR", "7"),
    _define_part("minute", "The minute, from 0 to 59.", "HOUR", "MINUTE", "8"),
    _define_part(
        "second", "The second, from 0 to 59, without its fraction.", "MINUTE", "SECOND", "9"
    ),
    function(
        "date_trunc",
        FAMILY,
        "The start of the unit that contains the time: MICROSECOND to DAY, WEEK (from Monday),"
        " MONTH, QUARTER or YEAR.",
        overload(
            "date_trunc(unit: constant string, time: timestamp) -> timestamp",
            build=_build_date_trunc,
            check=_check_unit,
            spark=_spark_form_of_trunc,
        ),
        example=("date_trunc('HOUR', timestamp '2024-05-06 07:08:09')", "2024-05-06 07:00:00"),
        more=(("date_trunc('WEEK', timestamp '2024-05-08 07:08:09')", "2024-05-06 00:00:00"),),
    ),
    function(
        "make_timestamp",
        FAMILY,
        "The timestamp of a year, month, day, hour, minute and seconds with a fraction; 60 seconds"
        " are the next minute; NULL if there is no such time.",
        overload(
            "make_timestamp(year: int, month: int, day: int, hour: int, minute: int, second: N)"
            " -> timestamp",
            build=_build_make_timestamp,
            spark=NO_SPARK_FORM,
        ),
        example=("make_timestamp(2024, 5, 6, 7, 8, 9.5)", "2024-05-06 07:08:09.5"),
    ),
    function(
        "current_timestamp",
        FAMILY,
        "The processing time, at which the row is processed; it differs between runs.",
        example=("current_timestamp() > timestamp '2024-01-01 00:00:00'", "true"),
        aliases=("now",),
        resolve=_resolve_now,
        signatures=("current_timestamp() -> timestamp",),
    ),
    function(
        "current_date",
        FAMILY,
        "The day of the processing time, at which the row is processed; it differs between runs.",
        example=("current_date() > date '2024-01-01'", "true"),
        aliases=("curdate",),
        resolve=_resolve_today,
        signatures=("current_date() -> date",),
    ),
)
"""Functions of timestamps."""
