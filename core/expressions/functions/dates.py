"""Functions of dates: their parts, their arithmetic, and making them from numbers.

Where a date is wanted, a timestamp stands for its day, and a text literal for the date that it
denotes. Dates continue past the year 9999, and wrap around at the end of an int of days.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace.core.expressions.function import Overload, SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import (
    build_by_text,
    build_evaluating_once,
    literal_int,
    literal_text,
)
from headrace.core.expressions.functions.time_units import (
    THURSDAY,
    build_unit_start,
    find_next_weekday,
)
from headrace.core.expressions.signature import BoundArguments, evaluate_constant
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    ExpressionError,
    PolarsForm,
    find_inputs,
)
from headrace.core.types import calendar
from headrace.core.types.data_types import BIGINT, DATE

if TYPE_CHECKING:
    import polars as pl

FAMILY = "dates"

# ASCII digits, with the white space around them that Spark trims.
_WHOLE_NUMBER = re.compile(r"[\x00-\x20\x7f]*([+-]?[0-9]{1,20})[\x00-\x20\x7f]*")


def _define_part(
    name: str, doc: str, form: PolarsForm, example: str, *, aliases: tuple[str, ...] = ()
) -> SqlFunction:
    """Define the function of a part of a date, as an int; only the year mentions the date twice."""
    signature, call = f"{name}(date: date) -> int", f"{name}(date '2024-05-06')"
    build = build_evaluating_once(form) if name == "year" else lambda bound: form
    row = overload(signature, build=build, nulls="strict")
    return function(name, FAMILY, doc, row, example=(call, example), aliases=aliases)


_DAY_NAMES = dict(enumerate("Mon Tue Wed Thu Fri Sat Sun".split(), 1))
_MONTH_NAMES = dict(enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1))


def _name_weekday(date: pl.Expr) -> pl.Expr:
    import polars as pl

    return calendar.fold_date(date).dt.weekday().replace_strict(_DAY_NAMES, return_dtype=pl.String)


def _name_month(date: pl.Expr) -> pl.Expr:
    import polars as pl

    return calendar.fold_date(date).dt.month().replace_strict(_MONTH_NAMES, return_dtype=pl.String)


def refuse_bigint(bound: BoundArguments) -> None:
    """Refuse a bigint as number of days: Spark, too, takes nothing wider than an int."""
    days = next(a for a in bound.arguments if a.type == bound.type_arguments["I"])
    if days.type == BIGINT:
        hint = "cast(... as int) converts explicitly"
        raise ExpressionError("a number of days must be an int, got bigint", days.span, hint)


def _check_number_text(bound: BoundArguments) -> None:
    """Refuse a text that is no whole number of days."""
    _read_number_text(bound)


def _read_number_text(bound: BoundArguments) -> int:
    """Return the days of a text without columns; to Spark, the text NULL stands for 0."""
    number = bound.arguments[1]
    if find_inputs(number):
        hint = "cast(... as int) converts explicitly"
        raise ExpressionError("a number of days must be an int, got string", number.span, hint)
    text = evaluate_constant(number).value
    if text is None:
        return 0
    found = _WHOLE_NUMBER.fullmatch(text) if isinstance(text, str) else None
    if not found or not -(2**31) <= (days := int(found[1])) < 2**31:
        message = f"a number of days must be an int, got {text!r}"
        raise ExpressionError(message, number.span, "as in date_add(date '2024-02-28', 1)")
    return days


def _define_text_days(name: str, form: PolarsForm) -> Overload:
    """Return the overload with the number of days as a text without columns, as Spark has it."""

    def build(bound: BoundArguments) -> PolarsForm:
        import polars as pl

        days = _read_number_text(bound)
        return lambda date, *_: form(date, pl.lit(days, dtype=pl.Int32))

    return overload(
        f"{name}(start: date, number: exact string) -> date",
        build=build,
        check=_check_number_text,
        nulls="strict",
    )


def add_days(date: pl.Expr, days: pl.Expr) -> pl.Expr:
    """Return the date this many days later."""
    return calendar.to_date(calendar.to_days(date) + calendar.to_int(days))


def subtract_days(date: pl.Expr, days: pl.Expr) -> pl.Expr:
    """Return the date this many days earlier."""
    return calendar.to_date(calendar.to_days(date) - calendar.to_int(days))


def build_add_months(bound: BoundArguments) -> PolarsForm:
    """Return the form of a date plus months, which are the second argument."""
    from headrace.core.expressions.batch_forms import evaluate_once

    months = literal_int(bound.arguments[1])
    if months is None:
        return evaluate_once(calendar.add_months, DATE)
    form = evaluate_once(lambda date: calendar.add_months(date, months), DATE)
    return lambda date, _: form(date)


def _compute_last_day(date: pl.Expr) -> pl.Expr:
    days = calendar.fold_date(date).dt.days_in_month() - calendar.fold_date(date).dt.day()
    return calendar.to_date(calendar.to_days(date) + calendar.to_int(days))


_WEEKDAY_NAMES = ("THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY")
_WEEKDAYS = {
    name[:length]: day
    for day, name in enumerate(_WEEKDAY_NAMES, THURSDAY)
    for length in (2, 3, len(name))
}


def _check_weekday(bound: BoundArguments) -> None:
    name = literal_text(bound.arguments[1])
    if name is not None and name.upper() not in _WEEKDAYS:
        hint = "the days are MO or MON or MONDAY, and so on"
        raise ExpressionError(f"'{name}' is not a day of the week", bound.arguments[1].span, hint)


def _make_next_day(name: str) -> PolarsForm | None:
    day = _WEEKDAYS.get(name.upper())
    if day is None:
        return None
    return lambda date: calendar.to_date(find_next_weekday(calendar.to_days(date), day))


def _check_unit(bound: BoundArguments) -> None:
    unit = literal_text(bound.arguments[1])
    if unit is not None and not build_unit_start(unit):
        hint = "the units are WEEK, MONTH, QUARTER, YEAR; date_trunc takes shorter units"
        raise ExpressionError(f"'{unit}' is not a unit here", bound.arguments[1].span, hint)


def _compute_dates(frame: pl.DataFrame) -> pl.Series:
    import polars as pl

    year, month, day = (column.cast(pl.Int64) for column in frame.get_columns())
    real_month = month.set((month < 1) | (month > 12), None)
    days = calendar.civil_date_to_days(year, real_month, day)
    assert isinstance(days, pl.Series)
    return days.cast(pl.Int32, strict=False).cast(pl.Date)


def _build_make_date(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_frame

    return compute_on_frame(_compute_dates, DATE)


DATES: tuple[SqlFunction, ...] = (
    _define_part(
        "year", "The year; the years before 1 are 0, -1 and so on.", calendar.extract_year, "2024"
    ),
    _define_part(
        "quarter",
        "The quarter of the year, from 1 to 4.",
        lambda date: calendar.to_int(calendar.fold_date(date).dt.quarter()),
        "2",
    ),
    _define_part(
        "month",
        "The month, from 1 to 12.",
        lambda date: calendar.to_int(calendar.fold_date(date).dt.month()),
        "5",
    ),
    _define_part(
        "day",
        "The day of the month, from 1.",
        lambda date: calendar.to_int(calendar.fold_date(date).dt.day()),
        "6",
        aliases=("dayofmonth",),
    ),
    _define_part(
        "dayofweek",
        "The day of the week: 1 is Sunday, 7 is Saturday.",
        lambda date: (calendar.to_days(date) % 7 + 4) % 7 + 1,
        "2",
    ),
    _define_part(
        "weekday",
        "The day of the week: 0 is Monday, 6 is Sunday.",
        lambda date: (calendar.to_days(date) % 7 + 3) % 7,
        "0",
    ),
    _define_part(
        "dayofyear",
        "The day of the year, from 1.",
        lambda date: calendar.to_int(calendar.fold_date(date).dt.ordinal_day()),
        "127",
    ),
    _define_part(
        "weekofyear",
        "The ISO week: weeks start on Monday, and the first has the first Thursday of the year.",
        lambda date: calendar.to_int(calendar.fold_date(date).dt.week()),
        "19",
    ),
    function(
        "date_add",
        FAMILY,
        "The date a number of days later, or earlier if the number is negative.",
        overload(
            "date_add(start: date, days: I) -> date", add_days, check=refuse_bigint, nulls="strict"
        ),
        _define_text_days("date_add", add_days),
        example=("date_add(date '2024-02-28', 2)", "2024-03-01"),
        aliases=("dateadd",),
    ),
    function(
        "date_sub",
        FAMILY,
        "The date a number of days earlier, or later if the number is negative.",
        overload(
            "date_sub(start: date, days: I) -> date",
            subtract_days,
            check=refuse_bigint,
            nulls="strict",
        ),
        _define_text_days("date_sub", subtract_days),
        example=("date_sub(date '2024-03-01', 2)", "2024-02-28"),
    ),
    function(
        "datediff",
        FAMILY,
        "The days from the second date to the first; the time of day of timestamps is ignored.",
        overload(
            "datediff(end: date, start: date) -> int",
            lambda end, start: calendar.to_days(end) - calendar.to_days(start),
            nulls="strict",
        ),
        example=("datediff(date '2024-03-01', date '2024-02-01')", "29"),
        aliases=("date_diff",),
    ),
    function(
        "dayname",
        FAMILY,
        "The weekday of the date by its first three letters, as Mon.",
        overload("dayname(date: date) -> string", _name_weekday, nulls="strict"),
        example=("dayname(date '2024-05-06')", "Mon"),
    ),
    function(
        "monthname",
        FAMILY,
        "The month of the date by its first three letters, as Jan.",
        overload("monthname(date: date) -> string", _name_month, nulls="strict"),
        example=("monthname(date '2024-05-06')", "May"),
    ),
    function(
        "add_months",
        FAMILY,
        "The same day some months later, or the last day of that month; NULL if out of range.",
        overload(
            "add_months(start: date, months: int) -> date",
            build=build_add_months,
            spark=NO_SPARK_FORM,
        ),
        example=("add_months(date '2024-01-31', 1)", "2024-02-29"),
    ),
    function(
        "last_day",
        FAMILY,
        "The last day of the date's month.",
        overload(
            "last_day(date: date) -> date",
            build=build_evaluating_once(_compute_last_day),
            nulls="strict",
        ),
        example=("last_day(date '2024-02-03')", "2024-02-29"),
    ),
    function(
        "next_day",
        FAMILY,
        "The first day after the date that is the given weekday, as 'MO', 'Mon' or 'monday'; NULL"
        " if a column has no such day.",
        overload(
            "next_day(start: date, day: string) -> date",
            build=build_by_text(1, _make_next_day),
            check=_check_weekday,
        ),
        example=("next_day(date '2024-05-06', 'Mon')", "2024-05-13"),
    ),
    function(
        "trunc",
        FAMILY,
        "The first day of the year, quarter, month or week of the date.",
        overload(
            "trunc(date: date, unit: string) -> date",
            build=build_by_text(1, build_unit_start),
            check=_check_unit,
        ),
        example=("trunc(date '2024-05-06', 'MONTH')", "2024-05-01"),
    ),
    function(
        "make_date",
        FAMILY,
        "The date of a year, a month and a day; NULL if there is no such date.",
        overload(
            "make_date(year: int, month: int, day: int) -> date",
            build=_build_make_date,
            spark=NO_SPARK_FORM,
        ),
        example=("make_date(2024, 2, 29)", "2024-02-29"),
        more=(("make_date(2023, 2, 29)", "NULL"),),
    ),
    function(
        "unix_date",
        FAMILY,
        "The days since 1970-01-01, negative before it.",
        overload("unix_date(date: exact date) -> int", calendar.to_days, nulls="strict"),
        example=("unix_date(date '1970-01-02')", "1"),
    ),
    function(
        "date_from_unix_date",
        FAMILY,
        "The date this many days after 1970-01-01.",
        overload("date_from_unix_date(days: int) -> date", calendar.to_date, nulls="strict"),
        example=("date_from_unix_date(1)", "1970-01-02"),
    ),
)
"""The functions of dates."""
