"""`date_part` and `extract(field from source)`: a part of a date or timestamp, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.coercion import coerce_argument
from headrace.core.expressions.function import SqlFunction, TypedCall, function
from headrace.core.expressions.functions.dates import DATES
from headrace.core.expressions.functions.interval_fields import build_field
from headrace.core.expressions.functions.time_units import MICROSECONDS
from headrace.core.expressions.functions.timestamps import TIMESTAMPS
from headrace.core.expressions.typed import (
    Constant,
    ExpressionError,
    FunctionCall,
    PolarsForm,
    TypedExpression,
)
from headrace.core.types import calendar
from headrace.core.types.data_types import (
    DATE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_TYPES,
    Decimal,
    Interval,
    Time,
    Type,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl

# Spark's names of the fields, and the part of each.
_FIELDS = {
    **dict.fromkeys(("year", "y", "years", "yr", "yrs"), "year"),
    "yearofweek": "yearofweek",
    **dict.fromkeys(("quarter", "qtr"), "quarter"),
    **dict.fromkeys(("month", "mon", "mons", "months"), "month"),
    **dict.fromkeys(("week", "w", "weeks"), "weekofyear"),
    **dict.fromkeys(("day", "d", "days"), "day"),
    **dict.fromkeys(("dayofweek", "dow"), "dayofweek"),
    **dict.fromkeys(("dayofweek_iso", "dow_iso"), "dayofweek_iso"),
    "doy": "dayofyear",
    **dict.fromkeys(("hour", "h", "hours", "hr", "hrs"), "hour"),
    **dict.fromkeys(("minute", "m", "min", "mins", "minutes"), "minute"),
    **dict.fromkeys(("second", "s", "sec", "seconds", "secs"), "second"),
}
_FIELD_NAMES = (
    *("year", "yearofweek", "quarter", "month", "week", "day", "dayofweek", "dayofweek_iso"),
    *("doy", "hour", "minute", "second"),
)
_PART_FUNCTIONS = {row.name: row for row in (*DATES, *TIMESTAMPS)}


def _extract_week_year(date: pl.Expr) -> pl.Expr:
    cycles = calendar.to_days(date) // calendar.CYCLE_DAYS
    return calendar.fold_date(date).dt.iso_year() + cycles * calendar.CYCLE_YEARS


def _extract_second(time: pl.Expr) -> pl.Expr:
    import polars as pl

    micros = calendar.to_micros(time) % MICROSECONDS["MINUTE"]
    return calendar.to_int128(micros).reinterpret(dtype=pl.Decimal(8, 6))


# Parts without a function of their own: argument type, result type, form.
_OWN_PARTS: dict[str, tuple[Type, Type, PolarsForm]] = {
    "yearofweek": (DATE, INT, _extract_week_year),
    "dayofweek_iso": (DATE, INT, lambda date: (calendar.to_days(date) % 7 + 3) % 7 + 1),
    "second": (TIMESTAMP, Decimal(8, 6), _extract_second),
}


def _resolve_date_part(call: TypedCall) -> TypedExpression:
    if len(call.arguments) != 2:
        message = f"{call.name} takes 2 arguments, got {len(call.arguments)}"
        raise ExpressionError(message, call.span, "as in date_part('year', time)")
    field, source = call.arguments
    if not isinstance(field, Constant) or not isinstance(field.value, str):
        raise ExpressionError(f"{call.name} wants the name of a field in quotes", field.span)
    name = _FIELDS.get(field.value.lower())
    if name is None:
        if field.value.lower() == "epoch":
            raise ExpressionError('unknown field "epoch"', call.span, "as in unix_timestamp(time)")
        near = suggest_name(field.value.lower(), _FIELDS)
        hint = near or f"the fields are {', '.join(_FIELD_NAMES)}"
        raise ExpressionError(f'unknown field "{field.value}"', field.span, hint)
    return _resolve_part(name, call, source)


def _resolve_part(name: str, call: TypedCall, source: TypedExpression) -> TypedExpression:
    if isinstance(source.type, Interval):
        return _resolve_interval_part(name, call, source, source.type)
    if isinstance(source.type, Time):
        return _resolve_clock_part(name, call, source, source.type)
    wanted, result, form = _OWN_PARTS.get(name, (TIMESTAMP, INT, None))
    argument = coerce_argument(source, wanted)
    if argument is None or source.type not in (DATE, *TIMESTAMP_TYPES, STRING, NULL):
        hint = "timestampdiff(unit, start, end) counts units between two times"
        hint = "to_timestamp(...) reads text" if source.type == STRING else hint
        message = f"{call.name} wants a date or timestamp, got {source.type}"
        raise ExpressionError(message, source.span, hint)
    if form is None:
        return _PART_FUNCTIONS[name].resolve(TypedCall(call.name, (source,), call.span))
    return FunctionCall(result, argument.nullable, call.span, call.name, (argument,), form)


def _resolve_interval_part(
    name: str, call: TypedCall, source: TypedExpression, type: Interval
) -> TypedExpression:
    found = build_field(type, name)
    if found is None:
        hint = f"it has {', '.join(field.upper() for field in type.fields)}"
        raise ExpressionError(f"{call.name} finds no {name} in {type}", call.span, hint)
    result, form = found
    return FunctionCall(result, source.nullable, call.span, call.name, (source,), form)


def _resolve_clock_part(
    name: str, call: TypedCall, source: TypedExpression, type: Time
) -> TypedExpression:
    """Resolve a part of a time of day; its seconds have the digits of the type."""
    if name not in ("hour", "minute", "second"):
        hint = "a time of day has HOUR, MINUTE and SECOND"
        raise ExpressionError(f"{call.name} finds no {name} in {type}", call.span, hint)
    if name != "second":
        return _PART_FUNCTIONS[name].resolve(TypedCall(call.name, (source,), call.span))
    result, unit = Decimal(2 + type.precision, type.precision), 10 ** (9 - type.precision)

    def extract(time: pl.Expr) -> pl.Expr:
        digits = calendar.to_int128(time.to_physical() % (60 * 10**9) // unit)
        return digits.reinterpret(dtype=to_polars(result))

    return FunctionCall(result, source.nullable, call.span, call.name, (source,), extract)


DATE_PART: tuple[SqlFunction, ...] = (
    function(
        "date_part",
        "times",
        "A part of a date or timestamp by its name, the same as extract(name from source):"
        " an int, but SECOND is a decimal with the fraction.",
        example=("date_part('SECOND', timestamp '2024-05-06 07:08:09.5')", "9.500000"),
        more=(("extract(YEAROFWEEK from date '2021-01-01')", "2020"),),
        aliases=("datepart",),
        resolve=_resolve_date_part,
        signatures=("date_part(field: constant string, source: timestamp) -> int or decimal(8,6)",),
    ),
)
"""The functions of `date_part`."""
