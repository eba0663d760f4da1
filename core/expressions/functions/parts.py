"""`date_part` and `extract(field from source)`: a part of a date or timestamp, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions import calendar
from headrace.core.expressions.coercion import coerce
from headrace.core.expressions.function import Call, Function, function
from headrace.core.expressions.functions.dates import DATES
from headrace.core.expressions.functions.times import TIMES
from headrace.core.expressions.functions.units import MICROSECONDS
from headrace.core.expressions.typed import Apply, Constant, ExpressionError, Form, Typed
from headrace.core.problems import did_you_mean
from headrace.core.types import DATE, INT, NULL, STRING, TIMESTAMP, Decimal, Type

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
_LONG_NAMES = (
    *("year", "yearofweek", "quarter", "month", "week", "day", "dayofweek", "dayofweek_iso"),
    *("doy", "hour", "minute", "second"),
)
_ROWS = {row.name: row for row in (*DATES, *TIMES)}


def _year_of_week(date: pl.Expr) -> pl.Expr:
    cycles = calendar.days(date) // calendar.CYCLE_DAYS
    return calendar.folded(date).dt.iso_year() + cycles * calendar.CYCLE_YEARS


def _second(time: pl.Expr) -> pl.Expr:
    import polars as pl

    micros = calendar.micros(time) % MICROSECONDS["MINUTE"]
    return calendar.wide(micros).reinterpret(dtype=pl.Decimal(8, 6))


# Parts without a function of their own: argument type, result type, form.
_PARTS: dict[str, tuple[Type, Type, Form]] = {
    "yearofweek": (DATE, INT, _year_of_week),
    "dayofweek_iso": (DATE, INT, lambda date: (calendar.days(date) % 7 + 3) % 7 + 1),
    "second": (TIMESTAMP, Decimal(8, 6), _second),
}


def _date_part(call: Call) -> Typed:
    if len(call.arguments) != 2:
        message = f"{call.name} takes 2 arguments, got {len(call.arguments)}"
        raise ExpressionError(message, call.span, "write date_part(field, source)")
    field, source = call.arguments
    if not isinstance(field, Constant) or not isinstance(field.value, str):
        raise ExpressionError(f"{call.name} wants the name of a field in quotes", field.span)
    name = _FIELDS.get(field.value.lower())
    if name is None:
        near = did_you_mean(field.value.lower(), _FIELDS)
        hint = near or f"the fields are {', '.join(_LONG_NAMES)}"
        raise ExpressionError(f'unknown field "{field.value}"', field.span, hint)
    return _part(name, call, source)


def _part(name: str, call: Call, source: Typed) -> Typed:
    wanted, result, form = _PARTS.get(name, (TIMESTAMP, INT, None))
    taken = coerce(source, wanted)
    if taken is None or source.type not in (DATE, TIMESTAMP, STRING, NULL):
        hint = "timestampdiff(unit, start, end) counts units between two times"
        hint = "to_timestamp(...) reads text" if source.type == STRING else hint
        message = f"{call.name} wants a date or timestamp, got {source.type}"
        raise ExpressionError(message, source.span, hint)
    if form is None:
        return _ROWS[name].resolve(Call(call.name, (source,), call.span))
    return Apply(result, taken.nullable, call.span, call.name, (taken,), form)


PARTS: tuple[Function, ...] = (
    function(
        "date_part",
        "times",
        "A part of a date or timestamp by its name, the same as extract(name from source):"
        " an int, but SECOND is a decimal with the fraction.",
        example=("date_part('SECOND', timestamp '2024-05-06 07:08:09.5')", "9.500000"),
        more=(("extract(YEAROFWEEK from date '2021-01-01')", "2020"),),
        aliases=("datepart",),
        resolve=_date_part,
        signatures=("date_part(field: constant string, source: timestamp) -> int or decimal(8,6)",),
    ),
)
"""The functions of `date_part`."""
