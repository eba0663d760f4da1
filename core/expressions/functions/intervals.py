"""Arithmetic with intervals: the overloads of `+ - * /` and of the signs for intervals.

A date plus days is a date, plus any other interval of days and time a timestamp. Months clamp to
the end of the month. Intervals are computed with room to spare: where Spark fails because a result
is out of range, it is NULL here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.expressions.function import Overload, overload
from headrace.core.expressions.functions.arguments import (
    build_evaluating_once,
    fit_time_zone,
    literal_int,
)
from headrace.core.expressions.functions.dates import add_days, refuse_bigint, subtract_days
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import AS_WRITTEN, NO_SPARK_FORM, ExpressionError, PolarsForm
from headrace.core.types import calendar
from headrace.core.types.data_types import (
    DOUBLE,
    FLOAT_TYPES,
    TIME,
    TIMESTAMP,
    TIMESTAMP_TYPES,
    YEAR_MONTH,
    Decimal,
    Interval,
    Time,
    Type,
)

if TYPE_CHECKING:
    import polars as pl

# Null where the plain operators fail.
_TRY_ADD, _TRY_SUBTRACT = "try_add({0}, {1})", "try_subtract({0}, {1})"
_DAY_INTERVAL, _TIME_INTERVAL, _MONTH_INTERVAL = (
    "interval day",
    "interval day to second",
    "interval year to month",
)


def _add_micros(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return calendar.to_int128(calendar.to_micros(a)) + calendar.to_int128(calendar.to_micros(b))


def _subtract_micros(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return calendar.to_int128(calendar.to_micros(a)) - calendar.to_int128(calendar.to_micros(b))


def _count_days(interval: pl.Expr) -> pl.Expr:
    """Return the number of days of an interval."""
    return calendar.to_micros(interval) // calendar.DAY_US


def _build_ignoring_types(form: PolarsForm) -> Callable[[BoundArguments], PolarsForm]:
    return lambda bound: form


def _build_month_shift(
    sign: int, move: Callable[..., pl.Expr]
) -> Callable[[BoundArguments], PolarsForm]:
    """Return the builder of a date or timestamp plus or minus months, which are the second
    argument."""

    def build(bound: BoundArguments) -> PolarsForm:
        from headrace.core.expressions.batch_forms import evaluate_once

        months = literal_int(bound.arguments[1])
        if months is None:
            return evaluate_once(
                lambda time, months: move(time, calendar.to_bigint(months) * sign), bound.result
            )
        form = evaluate_once(lambda time: move(time, sign * months), bound.result)
        return lambda time, _: form(time)

    return build


def _commuted_overloads(
    time: str,
    interval: str,
    result: str,
    build: Callable[[BoundArguments], PolarsForm],
    spark: str = _TRY_ADD,
    returns: Callable[[BoundArguments], Type] | None = None,
) -> tuple[Overload, Overload]:
    """Return the overloads of a sum in both orders of its operands."""
    check = refuse_bigint if interval == "I" else None

    def build_swapped(bound: BoundArguments) -> PolarsForm:
        form = build(BoundArguments(bound.arguments[::-1], {}, bound.type_arguments, bound.result))
        return lambda a, b: form(b, a)

    return (
        overload(
            f"+(left: {time}, right: {interval}) -> {result}",
            build=build,
            returns=returns,
            check=check,
            spark=spark,
        ),
        overload(
            f"+(left: {interval}, right: {time}) -> {result}",
            build=build_swapped,
            returns=returns,
            check=check,
            spark=spark,
        ),
    )


def _minus_overload(
    left: str,
    right: str,
    result: str,
    build: Callable[[BoundArguments], PolarsForm],
    spark: str = _TRY_SUBTRACT,
) -> Overload:
    check = refuse_bigint if right == "I" else None
    signature = f"-(left: {left}, right: {right}) -> {result}"
    return overload(signature, build=build, check=check, spark=spark)


def _convert_date_argument(form: PolarsForm) -> PolarsForm:
    """Adapt a form of timestamps to a first argument that is a date."""
    return lambda date, other: form(calendar.to_midnight(date), other)


def _add_to_time(time: pl.Expr, interval: pl.Expr) -> pl.Expr:
    return calendar.to_timestamp(_add_micros(time, interval))


def _subtract_from_time(time: pl.Expr, interval: pl.Expr) -> pl.Expr:
    return calendar.to_timestamp(_subtract_micros(time, interval))


def _subtract_times(end: pl.Expr, start: pl.Expr) -> pl.Expr:
    return calendar.to_interval(_subtract_micros(end, start))


def _subtract_dates(end: pl.Expr, start: pl.Expr) -> pl.Expr:
    days = calendar.to_int128(calendar.to_days(end)) - calendar.to_days(start)
    return calendar.to_interval(days * calendar.DAY_US)


def _time_sums(
    interval: str, build: Callable[[BoundArguments], PolarsForm]
) -> tuple[Overload, ...]:
    """Return the overloads of a timestamp of either type plus an interval."""
    return tuple(
        overload
        for type in TIMESTAMP_TYPES
        for overload in _commuted_overloads(
            f"exact {type}", interval, str(type), _build_of_type(build)
        )
    )


def _time_differences(
    interval: str, build: Callable[[BoundArguments], PolarsForm]
) -> tuple[Overload, ...]:
    """Return the overloads of a timestamp of either type minus an interval."""
    return tuple(
        _minus_overload(f"exact {type}", interval, str(type), _build_of_type(build))
        for type in TIMESTAMP_TYPES
    )


def _build_of_type(
    build: Callable[[BoundArguments], PolarsForm],
) -> Callable[[BoundArguments], PolarsForm]:
    """Return the builder of a form whose result has a time zone only if the call's has one."""

    def build_typed(bound: BoundArguments) -> PolarsForm:
        return fit_time_zone(build(replace(bound, result=TIMESTAMP)), bound.result)

    return build_typed


def _find_clock_type(bound: BoundArguments) -> Type:
    """Return the type of a time of day plus an interval: all digits if it may have seconds."""
    interval = next(type for type in bound.types if isinstance(type, Interval))
    time = next(type for type in bound.types if isinstance(type, Time))
    return TIME if interval.last == "second" else time


def _build_clock_shift(sign: int) -> Callable[[BoundArguments], PolarsForm]:
    """Return the builder of a time of day plus or minus an interval, NULL outside of the day."""

    def shift(time: pl.Expr, interval: pl.Expr) -> pl.Expr:
        nanos = calendar.to_int128(calendar.to_micros(interval)) * (1000 * sign)
        return calendar.to_time(nanos + calendar.to_int128(time.to_physical()))

    return build_evaluating_once(shift)


# The order decides the type of a bare NULL, and is Spark's: with an interval the same interval,
# with a date an interval in a sum and a date in a difference.
PLUS_OVERLOADS: tuple[Overload, ...] = (
    overload(
        "+(left: Q, right: Q) -> Q",
        lambda a, b: calendar.to_interval(_add_micros(a, b)),
        spark=_TRY_ADD,
    ),
    overload(
        "+(left: Y, right: Y) -> Y",
        lambda a, b: calendar.to_int(calendar.to_bigint(a) + b),
        spark=_TRY_ADD,
    ),
    *_time_sums(_TIME_INTERVAL, _build_ignoring_types(_add_to_time)),
    *_commuted_overloads(
        "exact date",
        _TIME_INTERVAL,
        "timestamp",
        _build_ignoring_types(_convert_date_argument(_add_to_time)),
    ),
    *_commuted_overloads(
        *("exact date", "exact interval day", "date"),
        _build_ignoring_types(lambda date, interval: add_days(date, _count_days(interval))),
        AS_WRITTEN,
    ),
    *_commuted_overloads("P", "Q", "P", _build_clock_shift(1), NO_SPARK_FORM, _find_clock_type),
    *_commuted_overloads("exact date", "I", "date", _build_ignoring_types(add_days), AS_WRITTEN),
    *_commuted_overloads(
        "exact date", _MONTH_INTERVAL, "date", _build_month_shift(1, calendar.add_months)
    ),
    *_time_sums(_MONTH_INTERVAL, _build_month_shift(1, calendar.add_months_to_time)),
)

MINUS_OVERLOADS: tuple[Overload, ...] = (
    overload("-(left: Q, right: Q) -> Q", _subtract_times, spark=_TRY_SUBTRACT),
    overload(
        "-(left: Y, right: Y) -> Y",
        lambda a, b: calendar.to_int(calendar.to_bigint(a) - b),
        spark=_TRY_SUBTRACT,
    ),
    _minus_overload(
        "exact date", "exact date", _DAY_INTERVAL, _build_ignoring_types(_subtract_dates)
    ),
    *(
        _minus_overload(
            f"exact {end}", f"exact {start}", _TIME_INTERVAL, _build_ignoring_types(_subtract_times)
        )
        for end in TIMESTAMP_TYPES
        for start in TIMESTAMP_TYPES
    ),
    *(
        _minus_overload(
            "exact date",
            f"exact {start}",
            _TIME_INTERVAL,
            _build_ignoring_types(_convert_date_argument(_subtract_times)),
        )
        for start in TIMESTAMP_TYPES
    ),
    *(
        _minus_overload(
            *(f"exact {end}", "exact date", _TIME_INTERVAL),
            _build_ignoring_types(
                lambda end, start: _subtract_times(end, calendar.to_midnight(start))
            ),
        )
        for end in TIMESTAMP_TYPES
    ),
    overload(
        "-(left: P, right: P) -> interval hour to second",
        lambda end, start: calendar.to_interval((end.to_physical() - start.to_physical()) // 1000),
    ),
    overload(
        "-(left: P, right: Q) -> P",
        build=_build_clock_shift(-1),
        returns=_find_clock_type,
        spark=NO_SPARK_FORM,
    ),
    *_time_differences(_TIME_INTERVAL, _build_ignoring_types(_subtract_from_time)),
    _minus_overload(
        "exact date",
        _TIME_INTERVAL,
        "timestamp",
        _build_ignoring_types(_convert_date_argument(_subtract_from_time)),
    ),
    _minus_overload(
        *("exact date", "exact interval day", "date"),
        _build_ignoring_types(lambda date, interval: subtract_days(date, _count_days(interval))),
        AS_WRITTEN,
    ),
    _minus_overload("exact date", "I", "date", _build_ignoring_types(subtract_days), AS_WRITTEN),
    _minus_overload(
        "exact date", _MONTH_INTERVAL, "date", _build_month_shift(-1, calendar.add_months)
    ),
    *_time_differences(_MONTH_INTERVAL, _build_month_shift(-1, calendar.add_months_to_time)),
)


# An interval times or divided by a number, rounded half up (away from zero).

_MAX_DECIMAL_DIGITS = 18


def _check_decimal_digits(bound: BoundArguments) -> None:
    """Refuse decimals whose product with an interval may have more digits than are computed."""
    for argument in bound.arguments:
        if isinstance(argument.type, Decimal) and argument.type.precision > _MAX_DECIMAL_DIGITS:
            limit_text = (
                f"an interval can be combined with decimals of up to {_MAX_DECIMAL_DIGITS} digits"
            )
            message = f"{limit_text}, got {argument.type}"
            raise ExpressionError(message, argument.span, "convert it with cast(... as double)")


def _build_scaling(bound: BoundArguments, form: Callable[[Type], PolarsForm]) -> PolarsForm:
    """Return the form for the type of the number, with the interval and its result as integers."""
    months = bound.result == YEAR_MONTH
    number = next(
        argument.type
        for argument in bound.arguments
        if argument.type in bound.type_arguments.values()
    )
    compute = form(number)

    def scale_interval(interval: pl.Expr, number: pl.Expr) -> pl.Expr:
        count = compute(calendar.to_bigint(interval), number)
        return calendar.to_int(count) if months else calendar.to_interval(count)

    return scale_interval


def _build_product(type: Type) -> PolarsForm:
    import polars as pl

    from headrace.core.expressions.arithmetic.decimals import round_half

    if type in FLOAT_TYPES:
        return lambda count, number: _round_half_up(
            count.cast(pl.Float64) * number.cast(pl.Float64)
        )
    if isinstance(type, Decimal):
        scale = type.scale
        return lambda count, number: round_half(
            calendar.to_int128(count) * number.reinterpret(dtype=pl.Int128), scale
        )
    return lambda count, number: calendar.to_int128(count) * calendar.to_int128(number)


def _build_quotient(type: Type) -> PolarsForm:
    import polars as pl

    from headrace.core.expressions.arithmetic.doubles import divide_floats
    from headrace.core.expressions.batch_forms import compute_on_frame

    if type in FLOAT_TYPES:
        quotient = compute_on_frame(divide_floats, DOUBLE)
        return lambda count, number: _round_half_up(
            quotient(count.cast(pl.Float64), number.cast(pl.Float64))
        )
    if isinstance(type, Decimal):
        unit = pl.lit(10**type.scale, dtype=pl.Int128)
        return lambda count, number: _divide_rounded(
            calendar.to_int128(count) * unit, number.reinterpret(dtype=pl.Int128)
        )
    return lambda count, number: _divide_rounded(
        calendar.to_int128(count), calendar.to_int128(number)
    )


def _round_half_up(number: pl.Expr) -> pl.Expr:
    return number.round(mode="half_away_from_zero")


def _divide_rounded(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """Divide, rounding half away from zero; null where the divisor is zero."""
    size = (a.abs() * 2 + b.abs()).truncdiv(b.abs() * 2)
    return size * a.sign() * b.sign()


def _times_overloads(interval: str, result: str) -> tuple[Overload, Overload]:
    def build(bound: BoundArguments) -> PolarsForm:
        form = build_evaluating_once(_build_scaling(bound, _build_product))(bound)
        if bound.types[0] in bound.type_arguments.values():
            return lambda number, interval: form(interval, number)
        return form

    return (
        overload(
            f"*(left: {interval}, right: N) -> {result}",
            build=build,
            check=_check_decimal_digits,
            spark=NO_SPARK_FORM,
        ),
        overload(
            f"*(left: N, right: {interval}) -> {result}",
            build=build,
            check=_check_decimal_digits,
            spark=NO_SPARK_FORM,
        ),
    )


TIMES_OVERLOADS: tuple[Overload, ...] = (
    *_times_overloads(_TIME_INTERVAL, _TIME_INTERVAL),
    *_times_overloads(_MONTH_INTERVAL, _MONTH_INTERVAL),
)

DIVIDE_OVERLOADS: tuple[Overload, ...] = tuple(
    overload(
        f"/(left: {interval}, right: N) -> {interval}",
        build=lambda bound: build_evaluating_once(_build_scaling(bound, _build_quotient))(bound),
        check=_check_decimal_digits,
        spark=NO_SPARK_FORM,
    )
    for interval in (_TIME_INTERVAL, _MONTH_INTERVAL)
)

NEGATIVE_OVERLOADS: tuple[Overload, ...] = (
    overload(
        "negative(value: Q) -> Q",
        lambda value: calendar.to_interval(0 - calendar.to_int128(calendar.to_micros(value))),
        spark=NO_SPARK_FORM,
    ),
    overload(
        "negative(value: Y) -> Y",
        lambda value: calendar.to_int(-calendar.to_bigint(value)),
        spark=NO_SPARK_FORM,
    ),
)

POSITIVE_OVERLOADS: tuple[Overload, ...] = tuple(
    overload(f"positive(value: {letter}) -> {letter}", lambda value: value, nulls="strict")
    for letter in "QY"
)
