"""Functions of timestamps: their parts, the clock, and the start of their unit.

All timestamps are UTC. Where a timestamp is wanted, a date stands for its midnight, and a text
literal for the time that it denotes. A result out of the range of timestamps is NULL.
"""

from __future__ import annotations

from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.function import SqlFunction, TypedCall, function, overload
from headrace.core.expressions.functions import time_units
from headrace.core.expressions.functions.arguments import build_by_text, literal_text
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    ExpressionError,
    PolarsForm,
    ProcessingTime,
    TypedExpression,
)
from headrace.core.types import calendar
from headrace.core.types.data_types import DATE, TIMESTAMP, TIMESTAMP_NTZ

FAMILY = "times"


def _define_part(name: str, doc: str, whole: str, unit: str, example: str) -> SqlFunction:
    """Define the function of a part of the time of day, as an int."""
    whole_us, unit_us = time_units.MICROSECONDS[whole], time_units.MICROSECONDS[unit]
    rows = (
        overload(
            f"{name}(time: timestamp) -> int",
            lambda time: calendar.to_int(calendar.to_micros(time) % whole_us // unit_us),
            nulls="strict",
        ),
        overload(
            f"{name}(time: P) -> int",
            lambda time: calendar.to_int(time.to_physical() // 1000 % whole_us // unit_us),
            nulls="strict",
        ),
    )
    call = f"{name}(timestamp '2024-05-06 07:08:09.5')"
    return function(name, FAMILY, doc, *rows, example=(call, example))


def _check_unit(bound: BoundArguments) -> None:
    unit = literal_text(bound.arguments[0])
    if unit is not None and not _make_date_trunc(unit):
        hint = f"the units are {', '.join((*time_units.MICROSECONDS, *time_units.MONTHS))}"
        raise ExpressionError(f"'{unit}' is not a unit here", bound.arguments[0].span, hint)


def _make_date_trunc(unit: str) -> PolarsForm | None:
    """Return the form: units of up to a day are truncated; longer units start with a day."""
    first, length = time_units.build_unit_start(unit), time_units.unit_length_us(unit)
    if first:
        return lambda time: calendar.to_midnight(first(calendar.truncate_to_day(time)))
    if length:
        return lambda time: calendar.to_timestamp(
            calendar.to_int128(calendar.to_micros(time)) - calendar.to_micros(time) % length
        )
    return None


_FIRST_MONTH_US = -106_751_981 * calendar.DAY_US
"""The first day of a month within the range of timestamps; it also starts a year."""


def _spark_form_of_trunc(bound: BoundArguments) -> str:
    """Return the Spark form, guarded where the unit started before the first timestamp, at which
    Spark fails; the first whole day is a Monday."""
    written = literal_text(bound.arguments[0])
    if written is None:
        return NO_SPARK_FORM
    unit = written.upper()
    length = time_units.unit_length_us("DAY" if unit == "WEEK" else unit)
    first = -(2**63 // length) * length if length else _FIRST_MONTH_US
    return f"if(unix_micros(timestamp({{1}})) >= {first}L, date_trunc({{0}}, {{1}}), null)"


def _resolve_now(call: TypedCall) -> TypedExpression:
    if call.arguments:
        message = f"{call.name} takes 0 arguments, got {len(call.arguments)}"
        raise ExpressionError(message, call.span)
    return ProcessingTime(TIMESTAMP, False, call.span)


def _resolve_local_now(call: TypedCall) -> TypedExpression:
    return build_cast(_resolve_now(call), TIMESTAMP_NTZ, call.span)


def _resolve_today(call: TypedCall) -> TypedExpression:
    return build_cast(_resolve_now(call), DATE, call.span)


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
            "date_trunc(unit: string, time: timestamp) -> timestamp",
            build=build_by_text(0, _make_date_trunc),
            check=_check_unit,
            spark=_spark_form_of_trunc,
        ),
        example=("date_trunc('HOUR', timestamp '2024-05-06 07:08:09')", "2024-05-06 07:00:00"),
        more=(("date_trunc('WEEK', timestamp '2024-05-08 07:08:09')", "2024-05-06 00:00:00"),),
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
        "localtimestamp",
        FAMILY,
        "The processing time as a timestamp without a time zone, in UTC; it differs between runs.",
        example=("localtimestamp() > timestamp_ntz '2024-01-01 00:00:00'", "true"),
        resolve=_resolve_local_now,
        signatures=("localtimestamp() -> timestamp_ntz",),
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
