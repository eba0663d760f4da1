"""Units of time by name: the start of a unit, and its length."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.types import calendar

if TYPE_CHECKING:
    import polars as pl

MICROSECONDS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": calendar.SECOND_US,
    "MINUTE": 60 * calendar.SECOND_US,
    "HOUR": 3600 * calendar.SECOND_US,
    "DAY": calendar.DAY_US,
    "WEEK": 7 * calendar.DAY_US,
}
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}

THURSDAY, MONDAY = 0, 4
"""Weekdays as days since a Thursday: 1970 began with one."""


def find_next_weekday(days: pl.Expr, weekday: int) -> pl.Expr:
    """Return the first such weekday after a day; it wraps around as Java's ints do."""
    return days + 1 + (weekday - 1 - days) % 7


def _week_start(date: pl.Expr) -> pl.Expr:
    return find_next_weekday(calendar.to_days(date) - 7, MONDAY)


def _month_start(date: pl.Expr) -> pl.Expr:
    return calendar.to_days(date) - calendar.to_int(calendar.fold_date(date).dt.day()) + 1


def _quarter_start(date: pl.Expr) -> pl.Expr:
    import polars as pl

    folded = calendar.fold_date(date)
    into = calendar.to_days(folded) - calendar.to_days(folded.dt.truncate("3mo"))
    return calendar.to_days(date).cast(pl.Int64) - into


def _year_start(date: pl.Expr) -> pl.Expr:
    return calendar.to_days(date) - calendar.to_int(calendar.fold_date(date).dt.ordinal_day()) + 1


_FIRST_DAYS: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "WEEK": _week_start,
    **dict.fromkeys(("MONTH", "MON", "MM"), _month_start),
    "QUARTER": _quarter_start,
    **dict.fromkeys(("YEAR", "YYYY", "YY"), _year_start),
}


def build_unit_start(unit: object) -> Callable[[pl.Expr], pl.Expr] | None:
    """Return the function from a date to the first day of its unit, by any name of the unit."""
    days = _FIRST_DAYS.get(unit.upper()) if isinstance(unit, str) else None
    return (lambda date: calendar.to_date(days(date))) if days else None


def unit_length_us(unit: object) -> int | None:
    """Return the microseconds of a unit of at most a day, by any name of the unit."""
    name = unit.upper() if isinstance(unit, str) else ""
    return MICROSECONDS.get({"DD": "DAY"}.get(name, name)) if name != "WEEK" else None
