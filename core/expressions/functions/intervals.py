"""Arithmetic with intervals: the overloads of `+ - * /` and of the signs for intervals.

A date plus days is a date, plus any other interval of days and time a timestamp. Months clamp to
the end of the month. Intervals are computed with room to spare: where Spark fails because a result
is out of range, it is NULL here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.expressions import calendar
from headrace.core.expressions.function import Overload, overload
from headrace.core.expressions.functions.arguments import literal_int, repeating
from headrace.core.expressions.functions.dates import minus_days, no_bigint, plus_days
from headrace.core.expressions.signature import Bound
from headrace.core.expressions.typed import AS_WRITTEN, OURS, ExpressionError, Form
from headrace.core.types import DOUBLE, FLOATS, YEAR_MONTH, Decimal, Type

if TYPE_CHECKING:
    import polars as pl

# Null where the plain operators fail.
_TRY_ADD, _TRY_SUBTRACT = "try_add({0}, {1})", "try_subtract({0}, {1})"
_DAY, _TIME, _MONTHS = "interval day", "interval day to second", "interval year to month"


def _sum(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return calendar.wide(calendar.micros(a)) + calendar.wide(calendar.micros(b))


def _difference(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return calendar.wide(calendar.micros(a)) - calendar.wide(calendar.micros(b))


def _days(interval: pl.Expr) -> pl.Expr:
    """Return the number of days of an interval."""
    return calendar.micros(interval) // calendar.DAY_US


def _plain(form: Form) -> Callable[[Bound], Form]:
    return lambda bound: form


def _months_later(sign: int, move: Callable[..., pl.Expr]) -> Callable[[Bound], Form]:
    """Return the builder of a date or timestamp plus or minus months, which are the second
    argument."""

    def build(bound: Bound) -> Form:
        from headrace.core.expressions.batches import once

        months = literal_int(bound.arguments[1])
        if months is None:
            return once(
                lambda time, months: move(time, calendar.bigint(months) * sign), bound.result
            )
        form = once(lambda time: move(time, sign * months), bound.result)
        return lambda time, _: form(time)

    return build


def _both_ways(
    time: str, interval: str, result: str, build: Callable[[Bound], Form], spark: str = _TRY_ADD
) -> tuple[Overload, Overload]:
    """Return the overloads of a sum in both orders of its operands."""
    check = no_bigint if interval == "I" else None

    def swapped(bound: Bound) -> Form:
        form = build(Bound(bound.arguments[::-1], {}, bound.letters, bound.result))
        return lambda a, b: form(b, a)

    return (
        overload(
            f"+(left: {time}, right: {interval}) -> {result}",
            build=build,
            check=check,
            spark=spark,
        ),
        overload(
            f"+(left: {interval}, right: {time}) -> {result}",
            build=swapped,
            check=check,
            spark=spark,
        ),
    )


def _minus(
    left: str,
    right: str,
    result: str,
    build: Callable[[Bound], Form],
    spark: str = _TRY_SUBTRACT,
) -> Overload:
    check = no_bigint if right == "I" else None
    signature = f"-(left: {left}, right: {right}) -> {result}"
    return overload(signature, build=build, check=check, spark=spark)


def _to_midnight(form: Form) -> Form:
    """Adapt a form of timestamps to a first argument that is a date."""
    return lambda date, other: form(calendar.midnight(date), other)


def _time_plus(time: pl.Expr, interval: pl.Expr) -> pl.Expr:
    return calendar.to_timestamp(_sum(time, interval))


def _time_minus(time: pl.Expr, interval: pl.Expr) -> pl.Expr:
    return calendar.to_timestamp(_difference(time, interval))


def _between(end: pl.Expr, start: pl.Expr) -> pl.Expr:
    return calendar.to_interval(_difference(end, start))


def _days_between(end: pl.Expr, start: pl.Expr) -> pl.Expr:
    days = calendar.wide(calendar.days(end)) - calendar.days(start)
    return calendar.to_interval(days * calendar.DAY_US)


# The order decides the type of a bare NULL, and is Spark's: with an interval the same interval,
# with a date an interval in a sum and a date in a difference.
PLUS_OVERLOADS: tuple[Overload, ...] = (
    *(
        overload(
            f"+(left: {name}, right: {name}) -> {name}",
            lambda a, b: calendar.to_interval(_sum(a, b)),
            spark=_TRY_ADD,
        )
        for name in (_DAY, _TIME)
    ),
    overload(
        f"+(left: {_MONTHS}, right: {_MONTHS}) -> {_MONTHS}",
        lambda a, b: calendar.to_int(calendar.bigint(a) + b),
        spark=_TRY_ADD,
    ),
    *_both_ways("exact timestamp", _TIME, "timestamp", _plain(_time_plus)),
    *_both_ways("exact date", _TIME, "timestamp", _plain(_to_midnight(_time_plus))),
    *_both_ways(
        *("exact date", "exact interval day", "date"),
        _plain(lambda date, interval: plus_days(date, _days(interval))),
        AS_WRITTEN,
    ),
    *_both_ways("exact date", "I", "date", _plain(plus_days), AS_WRITTEN),
    *_both_ways("exact date", _MONTHS, "date", _months_later(1, calendar.plus_months)),
    *_both_ways(
        "exact timestamp", _MONTHS, "timestamp", _months_later(1, calendar.time_plus_months)
    ),
)

MINUS_OVERLOADS: tuple[Overload, ...] = (
    *(
        overload(f"-(left: {name}, right: {name}) -> {name}", _between, spark=_TRY_SUBTRACT)
        for name in (_DAY, _TIME)
    ),
    overload(
        f"-(left: {_MONTHS}, right: {_MONTHS}) -> {_MONTHS}",
        lambda a, b: calendar.to_int(calendar.bigint(a) - b),
        spark=_TRY_SUBTRACT,
    ),
    _minus("exact date", "exact date", _DAY, _plain(_days_between)),
    _minus("exact timestamp", "exact timestamp", _TIME, _plain(_between)),
    _minus("exact date", "exact timestamp", _TIME, _plain(_to_midnight(_between))),
    _minus(
        *("exact timestamp", "exact date", _TIME),
        _plain(lambda end, start: _between(end, calendar.midnight(start))),
    ),
    _minus("exact timestamp", _TIME, "timestamp", _plain(_time_minus)),
    _minus("exact date", _TIME, "timestamp", _plain(_to_midnight(_time_minus))),
    _minus(
        *("exact date", "exact interval day", "date"),
        _plain(lambda date, interval: minus_days(date, _days(interval))),
        AS_WRITTEN,
    ),
    _minus("exact date", "I", "date", _plain(minus_days), AS_WRITTEN),
    _minus("exact date", _MONTHS, "date", _months_later(-1, calendar.plus_months)),
    _minus("exact timestamp", _MONTHS, "timestamp", _months_later(-1, calendar.time_plus_months)),
)


# An interval times or divided by a number, rounded half up (away from zero).

_MOST_DIGITS = 18


def _short(bound: Bound) -> None:
    """Refuse decimals whose product with an interval may have more digits than are computed."""
    for argument in bound.arguments:
        if isinstance(argument.type, Decimal) and argument.type.precision > _MOST_DIGITS:
            most = f"an interval can be combined with decimals of up to {_MOST_DIGITS} digits"
            message = f"{most}, got {argument.type}"
            raise ExpressionError(message, argument.span, "convert it with cast(... as double)")


def _scaled(bound: Bound, form: Callable[[Type], Form]) -> Form:
    """Return the form for the type of the number, with the interval and its result as integers."""
    months = bound.result == YEAR_MONTH
    number = next(
        argument.type for argument in bound.arguments if argument.type in bound.letters.values()
    )
    compute = form(number)

    def scaled(interval: pl.Expr, number: pl.Expr) -> pl.Expr:
        count = compute(calendar.bigint(interval), number)
        return calendar.to_int(count) if months else calendar.to_interval(count)

    return scaled


def _product(type: Type) -> Form:
    import polars as pl

    from headrace.core.expressions.exact import halved

    if type in FLOATS:
        return lambda count, number: _rounded(count.cast(pl.Float64) * number.cast(pl.Float64))
    if isinstance(type, Decimal):
        scale = type.scale
        return lambda count, number: halved(
            calendar.wide(count) * number.reinterpret(dtype=pl.Int128), scale
        )
    return lambda count, number: calendar.wide(count) * calendar.wide(number)


def _quotient(type: Type) -> Form:
    import polars as pl

    from headrace.core.expressions.batches import staged
    from headrace.core.expressions.floating import divided

    if type in FLOATS:
        quotient = staged(divided, DOUBLE)
        return lambda count, number: _rounded(
            quotient(count.cast(pl.Float64), number.cast(pl.Float64))
        )
    if isinstance(type, Decimal):
        unit = pl.lit(10**type.scale, dtype=pl.Int128)
        return lambda count, number: _divided(
            calendar.wide(count) * unit, number.reinterpret(dtype=pl.Int128)
        )
    return lambda count, number: _divided(calendar.wide(count), calendar.wide(number))


def _rounded(number: pl.Expr) -> pl.Expr:
    return number.round(mode="half_away_from_zero")


def _divided(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """Divide, rounding half away from zero; null where the divisor is zero."""
    size = (a.abs() * 2 + b.abs()).truncdiv(b.abs() * 2)
    return size * a.sign() * b.sign()


def _times(interval: str, result: str) -> tuple[Overload, Overload]:
    def build(bound: Bound) -> Form:
        form = repeating(_scaled(bound, _product))(bound)
        if bound.types[0] in bound.letters.values():
            return lambda number, interval: form(interval, number)
        return form

    return (
        overload(
            f"*(left: {interval}, right: N) -> {result}", build=build, check=_short, spark=OURS
        ),
        overload(
            f"*(left: N, right: {interval}) -> {result}", build=build, check=_short, spark=OURS
        ),
    )


TIMES_OVERLOADS: tuple[Overload, ...] = (*_times(_TIME, _TIME), *_times(_MONTHS, _MONTHS))

DIVIDE_OVERLOADS: tuple[Overload, ...] = tuple(
    overload(
        f"/(left: {interval}, right: N) -> {interval}",
        build=lambda bound: repeating(_scaled(bound, _quotient))(bound),
        check=_short,
        spark=OURS,
    )
    for interval in (_TIME, _MONTHS)
)

NEGATIVE_OVERLOADS: tuple[Overload, ...] = (
    *(
        overload(
            f"negative(value: {name}) -> {name}",
            lambda value: calendar.to_interval(0 - calendar.wide(calendar.micros(value))),
            spark=OURS,
        )
        for name in (_DAY, _TIME)
    ),
    overload(
        f"negative(value: {_MONTHS}) -> {_MONTHS}",
        lambda value: calendar.to_int(-calendar.bigint(value)),
        spark=OURS,
    ),
)

POSITIVE_OVERLOADS: tuple[Overload, ...] = tuple(
    overload(f"positive(value: {name}) -> {name}", lambda value: value, nulls="strict")
    for name in (_DAY, _TIME, _MONTHS)
)
