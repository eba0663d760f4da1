"""Dates and times over the whole range of a date and of a timestamp, as Spark counts them.

Polars' calendar ends with the years -262143 and 262142; beyond them it panics, or says null. Spark
goes on to the last day an int counts and the last microsecond a bigint does. But the Gregorian
calendar repeats every 400 years, days of the week included. So fields are read and months are
counted in the 400 years from 1970 (`folded`), where Polars is exact, and whole cycles are added
back. What leaves the range is null: there Spark fails the job, and an expression never does.

Expressions are trees: a value named twice is computed twice, or costs the optimizer time to see
that it is one. So the forms here name their input as rarely as they can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import polars as pl

CYCLE_YEARS = 400
CYCLE_MONTHS = 12 * CYCLE_YEARS
CYCLE_DAYS = 146_097
WRITTEN_DAYS = 95_000_000
"""So far from 1970 Polars writes dates and times."""

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
CYCLE_US = CYCLE_DAYS * DAY_US


def days(date: pl.Expr) -> pl.Expr:
    """Days since 1970, an int."""
    return date.to_physical()


def micros(time: pl.Expr) -> pl.Expr:
    """Microseconds since 1970 or of an interval, a bigint."""
    return time.to_physical()


def to_date(days: pl.Expr) -> pl.Expr:
    """The date of a number of days, null where it is no int."""
    import polars as pl

    return days.cast(pl.Int32, strict=False).cast(pl.Date)


def to_timestamp(micros: pl.Expr) -> pl.Expr:
    """The timestamp of a number of microseconds, null where it is no bigint."""
    import polars as pl

    return micros.cast(pl.Int64, strict=False).cast(pl.Datetime("us", "UTC"))


def to_interval(micros: pl.Expr) -> pl.Expr:
    """The interval of a number of microseconds, null where it is no bigint."""
    import polars as pl

    return micros.cast(pl.Int64, strict=False).cast(pl.Duration("us"))


def to_int(number: pl.Expr) -> pl.Expr:
    """As int, null where it is none."""
    import polars as pl

    return number.cast(pl.Int32, strict=False)


def bigint(number: pl.Expr) -> pl.Expr:
    """As bigint; an interval as its microseconds or months."""
    import polars as pl

    return number.to_physical().cast(pl.Int64)


def wide(number: pl.Expr) -> pl.Expr:
    """With 128 bits, in which sums and products of what has 64 are exact."""
    import polars as pl

    return number.cast(pl.Int128)


def date_of(time: pl.Expr) -> pl.Expr:
    """The day of a timestamp."""
    import polars as pl

    return time.cast(pl.Date)


def midnight(date: pl.Expr) -> pl.Expr:
    """The timestamp at which a date begins."""
    return to_timestamp(wide(days(date)) * DAY_US)


def folded(date: pl.Expr) -> pl.Expr:
    """The date of the same month, day and day of the week in the years 1970 to 2369."""
    import polars as pl

    return (days(date) % CYCLE_DAYS).cast(pl.Date)


def folded_time(time: pl.Expr) -> pl.Expr:
    """The same of a timestamp, without a time zone: Polars is faster so."""
    import polars as pl

    return (micros(time) % CYCLE_US).cast(pl.Datetime("us"))


def year(date: pl.Expr) -> pl.Expr:
    """The year: 0 is the one before 1, -1 the one before that."""
    return folded(date).dt.year() + days(date) // CYCLE_DAYS * CYCLE_YEARS


def month_number(date: pl.Expr) -> pl.Expr:
    """Months since the year 0 began, a bigint."""
    import polars as pl

    cycles = (days(date) // CYCLE_DAYS).cast(pl.Int64)
    inside = folded(date).dt.year().cast(pl.Int64) * 12 + folded(date).dt.month()
    return cycles * CYCLE_MONTHS + inside - 1


def plus_months(date: pl.Expr, months: pl.Expr | int) -> pl.Expr:
    """The date that many months later, or the last day of its month."""
    cycles, moved = _plus_months(folded(date), months)
    import polars as pl

    turns = (days(date) // CYCLE_DAYS).cast(pl.Int64) + cycles
    return to_date(turns * CYCLE_DAYS + days(moved))


def time_plus_months(time: pl.Expr, months: pl.Expr | int) -> pl.Expr:
    """The timestamp that many months later, at the same time of day."""
    cycles, moved = _plus_months(folded_time(time), months)
    turns = wide(micros(time) // CYCLE_US) + cycles
    return to_timestamp(turns * CYCLE_US + micros(moved))


def _plus_months(time: pl.Expr, months: pl.Expr | int) -> tuple[pl.Expr | int, pl.Expr]:
    """Whole cycles, and the folded time plus the rest."""
    if isinstance(months, int):
        return months // CYCLE_MONTHS, time.dt.offset_by(f"{months % CYCLE_MONTHS}mo")
    import polars as pl

    rest = (months % CYCLE_MONTHS).cast(pl.String) + "mo"
    return (months // CYCLE_MONTHS).cast(pl.Int64), time.dt.offset_by(rest)


# What is below is computed step by step, on columns: as one expression it would name its input so
# often that building it took longer than computing it.

Number: TypeAlias = "pl.Series | int"
"""A column of bigints, or one number for all its rows."""


def civil_days(year: Number, month: Number, day: Number) -> Number:
    """Days since 1970, null where the month, from 1 to 12, has no such day."""
    month = year * 12 + month - 3
    start = _month_start(month)
    return only(start + day - 1, day >= 1, day <= _month_start(month + 1) - start)


def ordinal_days(year: Number, day: Number) -> Number:
    """Days since 1970, null where the year has no such day."""
    start = _month_start(year * 12 - 2)
    return only(start + day - 1, day >= 1, day <= _month_start(year * 12 + 10) - start)


def _month_start(month: Number) -> Number:
    """Days since 1970 of a month's first day; months are counted from March of the year 0."""
    year, month = month // 12, month % 12
    return year * 365 + year // 4 - year // 100 + year // 400 + (month * 153 + 2) // 5 - 719_468


def only(value: Number, *conditions: pl.Series | bool) -> Number:
    """The value where all of it holds, else null; what is one for all rows holds."""
    for condition in conditions:
        if not isinstance(condition, bool) and not isinstance(value, int):
            value = value.set(~condition, None)
    return value
