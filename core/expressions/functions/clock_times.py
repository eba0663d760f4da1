"""Functions of times of day: making, truncating, comparing and converting them to numbers.

A result outside of the day, at which Spark fails, is NULL.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.function import Overload, SqlFunction, TypedCall, function, overload
from headrace.core.expressions.functions.arguments import (
    build_by_text,
    build_evaluating_once,
    literal_int,
    literal_text,
)
from headrace.core.expressions.functions.time_formats import allow_cast, check_parser, make_parser
from headrace.core.expressions.functions.time_units import MICROSECONDS
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    ExpressionError,
    PolarsForm,
    ProcessingTime,
    TypedExpression,
)
from headrace.core.types import calendar
from headrace.core.types.data_types import (
    MAX_TIME_DIGITS,
    TIME,
    TIMESTAMP,
    Decimal,
    Time,
)

if TYPE_CHECKING:
    import polars as pl

FAMILY = "times"
_SECOND_NS = 1_000_000_000
_UNITS = {
    name: MICROSECONDS[name] * 1000
    for name in ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
}
"""The nanoseconds of each unit."""


def _check_unit(bound: BoundArguments) -> None:
    unit = literal_text(bound.arguments[0])
    if unit is not None and unit.upper() not in _UNITS:
        hint = f"the units are {', '.join(_UNITS)}"
        raise ExpressionError(f"'{unit}' is not a unit here", bound.arguments[0].span, hint)


def _make_trunc(unit: str) -> PolarsForm | None:
    length = _UNITS.get(unit.upper())
    if length is None:
        return None
    return lambda time: calendar.to_time(time.to_physical() // length * length)


def _make_difference(unit: str) -> PolarsForm | None:
    length = _UNITS.get(unit.upper())
    if length is None:
        return None
    return lambda start, end: (end.to_physical() - start.to_physical()).truncdiv(length)


def _make_time_parser(pattern: str) -> PolarsForm | None:
    form = make_parser(pattern, local=True)
    if form is None:
        return None
    return lambda text: calendar.to_time(form(text).to_physical() % calendar.DAY_US * 1000)


def _build_make_time(bound: BoundArguments) -> PolarsForm:
    """Return the form: seconds are cast to decimal(16,6), as Spark casts any number here."""
    from headrace.core.expressions.batch_forms import compute_on_frame
    from headrace.core.expressions.casts import build_cast_form

    decimal = build_cast_form(bound.types[2], Decimal(16, 6))
    form = compute_on_frame(_compute_times, TIME)
    return lambda hour, minute, second: form(hour, minute, decimal(second))


def _compute_times(frame: pl.DataFrame) -> pl.Series:
    import polars as pl

    hour, minute = (pl.col(name).cast(pl.Int64) for name in ("a0", "a1"))
    second = pl.col("a2").reinterpret(dtype=pl.Int128).cast(pl.Int64)
    real = hour.is_between(0, 23) & minute.is_between(0, 59)
    real &= second.is_between(0, 60 * calendar.SECOND_US - 1)
    micros = (hour * 3600 + minute * 60) * calendar.SECOND_US + second
    return frame.select(pl.when(real).then(micros * 1000).cast(pl.Time)).to_series()


def _resolve_now(call: TypedCall) -> TypedExpression:
    """Resolve the clock: its argument is the number of digits of the second's fraction."""
    digits = MAX_TIME_DIGITS
    if len(call.arguments) > 1:
        message = f"{call.name} takes 0 to 1 arguments, got {len(call.arguments)}"
        raise ExpressionError(message, call.span)
    for argument in call.arguments:
        number = literal_int(argument)
        if number is None or not 0 <= number <= MAX_TIME_DIGITS:
            message = f"{call.name} wants a number of digits from 0 to {MAX_TIME_DIGITS}"
            raise ExpressionError(message, argument.span, f"as in {call.name}(3)")
        digits = number
    now = ProcessingTime(TIMESTAMP, False, call.span)
    return build_cast(now, Time(digits), call.span)


def _build_from_units(unit: int, bound: BoundArguments) -> PolarsForm:
    def form(number: pl.Expr) -> pl.Expr:
        return calendar.to_time(calendar.to_int128(number) * unit)

    return build_evaluating_once(form)(bound)


def _build_from_decimal(bound: BoundArguments) -> PolarsForm:
    """Return the form: more than nine digits, at which Spark fails, are NULL."""
    import polars as pl

    type = bound.types[0]
    assert isinstance(type, Decimal)
    more, less = 10 ** max(9 - type.scale, 0), 10 ** max(type.scale - 9, 0)

    def form(seconds: pl.Expr) -> pl.Expr:
        number = seconds.reinterpret(dtype=pl.Int128)
        short = number.truncdiv(pl.lit(less, dtype=pl.Int128)).cast(pl.Int64, strict=False)
        nanos = calendar.to_int128(short) * pl.lit(more, dtype=pl.Int128)
        exact = number % pl.lit(less, dtype=pl.Int128) == 0
        return calendar.to_time(pl.when(exact).then(nanos))

    return build_evaluating_once(form)(bound)


def _double_to_time(seconds: pl.Expr) -> pl.Expr:
    import polars as pl

    nanos = seconds.cast(pl.Float64) * float(_SECOND_NS)
    inside = seconds.is_finite() & nanos.is_between(0, 8.64e13)
    return calendar.to_time(pl.when(inside).then(nanos).cast(pl.Int64, strict=False))


def _define_from_units(name: str, doc: str, unit: int, call: str, *more: Overload) -> SqlFunction:
    return function(
        name,
        FAMILY,
        doc,
        overload(
            f"{name}(number: I) -> time(6)",
            build=partial(_build_from_units, unit),
            spark=NO_SPARK_FORM,
        ),
        *more,
        example=(call, "14:30:00.5"),
    )


def _define_to_units(name: str, doc: str, unit: int, value: str) -> SqlFunction:
    row = overload(
        f"{name}(time: P) -> bigint", lambda time: time.to_physical() // unit, nulls="strict"
    )
    return function(name, FAMILY, doc, row, example=(f"{name}(time '14:30:00.5')", value))


def _to_seconds(time: pl.Expr) -> pl.Expr:
    import polars as pl

    micros = calendar.to_int128(time.to_physical() // 1000)
    return micros.reinterpret(dtype=pl.Decimal(14, 6))


CLOCK_TIMES: tuple[SqlFunction, ...] = (
    function(
        "make_time",
        FAMILY,
        "The time of day of an hour, a minute and seconds with a fraction; NULL if there is no such"
        " time.",
        overload(
            "make_time(hour: int, minute: int, second: N) -> time(6)",
            build=_build_make_time,
            spark=NO_SPARK_FORM,
        ),
        example=("make_time(7, 8, 9.5)", "07:08:09.5"),
    ),
    allow_cast(
        function(
            "to_time",
            FAMILY,
            "The time of day of a text, parsed like cast(... as time) or by a pattern of Java's"
            " letters; NULL if the text is not a time.",
            overload(
                "to_time(text: string, pattern: string) -> time(6)",
                build=build_by_text(1, _make_time_parser),
                check=check_parser,
                spark=NO_SPARK_FORM,
            ),
            example=("to_time('7.08.09', 'H.mm.ss')", "07:08:09"),
            more=(("to_time('07:08')", "07:08:00"),),
            aliases=("try_to_time",),
        ),
        TIME,
    ),
    function(
        "time_trunc",
        FAMILY,
        "The start of the unit that contains the time of day: HOUR to MICROSECOND.",
        *(
            overload(
                f"time_trunc(unit: string, time: {type}) -> {type}",
                build=build_by_text(0, _make_trunc),
                check=_check_unit,
                spark=NO_SPARK_FORM,
            )
            for type in ("P", "time(6)")
        ),
        example=("time_trunc('HOUR', time '07:08:09')", "07:00:00"),
    ),
    function(
        "time_diff",
        FAMILY,
        "The whole units from the first time of day to the second, truncated towards zero.",
        overload(
            "time_diff(unit: string, start: P, end: P) -> bigint",
            build=build_by_text(0, _make_difference),
            check=_check_unit,
            spark=NO_SPARK_FORM,
        ),
        example=("time_diff('HOUR', time '20:30:29', time '12:00:00')", "-8"),
    ),
    function(
        "current_time",
        FAMILY,
        "The time of day of the processing time, in UTC; it differs between runs.",
        example=("current_time() >= time '00:00:00'", "true"),
        aliases=("localtime",),
        resolve=_resolve_now,
        signatures=("current_time([digits: constant int]) -> time(6)",),
    ),
    _define_from_units(
        "time_from_micros",
        "The time of day this many microseconds after midnight.",
        1000,
        "time_from_micros(52200500000)",
    ),
    _define_from_units(
        "time_from_millis",
        "The time of day this many milliseconds after midnight.",
        1_000_000,
        "time_from_millis(52200500)",
    ),
    _define_from_units(
        "time_from_seconds",
        "The time of day this many seconds after midnight.",
        _SECOND_NS,
        "time_from_seconds(52200.5)",
        overload(
            "time_from_seconds(number: D) -> time(6)",
            build=_build_from_decimal,
            spark=NO_SPARK_FORM,
        ),
        overload(
            "time_from_seconds(number: F) -> time(6)",
            build=build_evaluating_once(_double_to_time),
            spark=NO_SPARK_FORM,
        ),
    ),
    _define_to_units("time_to_micros", "The microseconds since midnight.", 1000, "52200500000"),
    _define_to_units(
        "time_to_millis", "The whole milliseconds since midnight.", 1_000_000, "52200500"
    ),
    function(
        "time_to_seconds",
        FAMILY,
        "The seconds since midnight, with their fraction.",
        overload("time_to_seconds(time: P) -> decimal(14,6)", _to_seconds, nulls="strict"),
        example=("time_to_seconds(time '14:30:00.5')", "52200.500000"),
    ),
)
"""The functions of times of day."""
