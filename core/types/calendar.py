"""Date and time arithmetic over the whole range of dates and timestamps, with Spark's results.

Polars' calendar ends with the years -262143 and 262142; beyond them it panics or returns null.
Spark's ends with the last day of an int and the last microsecond of a bigint. The Gregorian
calendar repeats every 400 years, days of the week included. So fields are read and months are
counted in the 400 years from 1970 (`fold_date`), where Polars is exact, and whole cycles are added
back. A result out of range is null: there Spark fails the job, and an expression here does not.

Expressions are trees: an input that is mentioned twice is computed twice, or costs the optimizer
time to find the duplicate. So the forms here mention their input as rarely as they can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import polars as pl

CYCLE_YEARS = 400
CYCLE_MONTHS = 12 * CYCLE_YEARS
CYCLE_DAYS = 146_097
FORMATTED_DAYS_LIMIT = 95_000_000
"""Polars formats dates and times up to this many days from 1970."""

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
CYCLE_US = CYCLE_DAYS * DAY_US


def to_days(date: pl.Expr) -> pl.Expr:
    """Return the days since 1970, as an int."""
    return date.to_physical()


def to_micros(time: pl.Expr) -> pl.Expr:
    """Return the microseconds since 1970, or of an interval, as a bigint."""
    return time.to_physical()


def to_date(days: pl.Expr) -> pl.Expr:
    """Convert a number of days to a date, null where the number is out of the range of an int."""
    import polars as pl

    return days.cast(pl.Int32, strict=False).cast(pl.Date)


def to_timestamp(micros: pl.Expr) -> pl.Expr:
    """Convert a number of microseconds to a timestamp, null where it is out of the range of a
    bigint."""
    import polars as pl

    return micros.cast(pl.Int64, strict=False).cast(pl.Datetime("us", "UTC"))


def drop_zone(time: pl.Expr) -> pl.Expr:
    """Return a timestamp as what a clock shows in UTC, a timestamp without a time zone."""
    import polars as pl

    return time.to_physical().cast(pl.Datetime("us"))


def to_time(nanos: pl.Expr) -> pl.Expr:
    """Convert nanoseconds since midnight to a time of day, null outside of the day."""
    import polars as pl

    inside = nanos.is_between(0, DAY_US * 1000 - 1)
    return pl.when(inside).then(nanos).cast(pl.Int64).cast(pl.Time)


def to_interval(micros: pl.Expr) -> pl.Expr:
    """Convert a number of microseconds to an interval, null where it is out of the range of a
    bigint."""
    import polars as pl

    return micros.cast(pl.Int64, strict=False).cast(pl.Duration("us"))


def to_int(number: pl.Expr) -> pl.Expr:
    """Cast to int, null where the number is out of range."""
    import polars as pl

    return number.cast(pl.Int32, strict=False)


def to_bigint(number: pl.Expr) -> pl.Expr:
    """Cast to bigint; an interval becomes its microseconds or months."""
    import polars as pl

    return number.to_physical().cast(pl.Int64)


def to_int128(number: pl.Expr) -> pl.Expr:
    """Cast to 128 bits, in which sums and products of 64-bit numbers are exact."""
    import polars as pl

    return number.cast(pl.Int128)


def truncate_to_day(time: pl.Expr) -> pl.Expr:
    """Return the day of a timestamp."""
    import polars as pl

    return time.cast(pl.Date)


def to_midnight(date: pl.Expr) -> pl.Expr:
    """Return the timestamp at which a date begins."""
    return to_timestamp(to_int128(to_days(date)) * DAY_US)


def fold_date(date: pl.Expr) -> pl.Expr:
    """Return the date of the same month, day and weekday in the years 1970 to 2369."""
    import polars as pl

    return (to_days(date) % CYCLE_DAYS).cast(pl.Date)


def fold_time(time: pl.Expr) -> pl.Expr:
    """Fold a timestamp in the same way; without a time zone, which makes Polars faster."""
    import polars as pl

    return (to_micros(time) % CYCLE_US).cast(pl.Datetime("us"))


def extract_year(date: pl.Expr) -> pl.Expr:
    """Return the year: 0 is the year before 1, and -1 the year before 0."""
    return fold_date(date).dt.year() + to_days(date) // CYCLE_DAYS * CYCLE_YEARS


def count_months(date: pl.Expr) -> pl.Expr:
    """Return the months since the start of the year 0, as a bigint."""
    import polars as pl

    cycles = (to_days(date) // CYCLE_DAYS).cast(pl.Int64)
    inside = fold_date(date).dt.year().cast(pl.Int64) * 12 + fold_date(date).dt.month()
    return cycles * CYCLE_MONTHS + inside - 1


def add_months(date: pl.Expr, months: pl.Expr | int) -> pl.Expr:
    """Return the date that many months later, or the last day of that month."""
    cycles, folded_date = _add_folded_months(fold_date(date), months)
    import polars as pl

    turns = (to_days(date) // CYCLE_DAYS).cast(pl.Int64) + cycles
    return to_date(turns * CYCLE_DAYS + to_days(folded_date))


def add_months_to_time(time: pl.Expr, months: pl.Expr | int) -> pl.Expr:
    """Return the timestamp that many months later, at the same time of day."""
    cycles, folded_time = _add_folded_months(fold_time(time), months)
    turns = to_int128(to_micros(time) // CYCLE_US) + cycles
    return to_timestamp(turns * CYCLE_US + to_micros(folded_time))


def _add_folded_months(time: pl.Expr, months: pl.Expr | int) -> tuple[pl.Expr | int, pl.Expr]:
    """Return whole cycles, and the folded time plus the remaining months."""
    if isinstance(months, int):
        return months // CYCLE_MONTHS, time.dt.offset_by(f"{months % CYCLE_MONTHS}mo")
    import polars as pl

    rest = (months % CYCLE_MONTHS).cast(pl.String) + "mo"
    return (months // CYCLE_MONTHS).cast(pl.Int64), time.dt.offset_by(rest)


# The functions below compute step by step, on columns: as one expression they would mention their
# input so often that building it took longer than computing it.

ColumnOrInt: TypeAlias = "pl.Series | int"
"""A column of bigints, or one number for all its rows."""


def civil_date_to_days(year: ColumnOrInt, month: ColumnOrInt, day: ColumnOrInt) -> ColumnOrInt:
    """Return the days since 1970, null where the month (1 to 12) has no such day."""
    month = year * 12 + month - 3
    start = _month_start_day(month)
    return null_unless(start + day - 1, day >= 1, day <= _month_start_day(month + 1) - start)


def ordinal_date_to_days(year: ColumnOrInt, day: ColumnOrInt) -> ColumnOrInt:
    """Return the days since 1970, null where the year has no such day."""
    start = _month_start_day(year * 12 - 2)
    return null_unless(start + day - 1, day >= 1, day <= _month_start_day(year * 12 + 10) - start)


def _month_start_day(month: ColumnOrInt) -> ColumnOrInt:
    """Return the days since 1970 of the first day of a month, counted from March of the year 0."""
    year, month = month // 12, month % 12
    return year * 365 + year // 4 - year // 100 + year // 400 + (month * 153 + 2) // 5 - 719_468


def null_unless(value: ColumnOrInt, *conditions: pl.Series | bool) -> ColumnOrInt:
    """Return the value where all conditions hold, else null; a plain bool is taken as true."""
    for condition in conditions:
        if not isinstance(condition, bool) and not isinstance(value, int):
            value = value.set(~condition, None)
    return value
