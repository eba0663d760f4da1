"""Text parsed to dates and timestamps, as Spark's `cast` parses it.

    2024   2024-1   2024-01-02   2024-01-02 3:4   2024-01-02T03:04:05.123456+02:00

Fields may be short, years may be long and negative, digits past microseconds are truncated, and a
time zone is an offset, Z or UTC. By decision, text with the name of another zone and text with only
a time of day are null.
"""

from __future__ import annotations

import polars as pl

from headrace.core.expressions.batches import fill_unparsed
from headrace.core.expressions.casts.text import SPARK_SPACE
from headrace.core.types import DATE, TIMESTAMP, to_polars

_DATE = r"(?s)^([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?$"
_CLOCK = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?({zone})?)?)?"
_OFFSET = r"[+-](?:[0-9]{1,2}|[0-9]{4}|[0-9]{6}|[0-9]{1,2}:[0-9]{1,2}|[0-9]{1,2}:[0-9]{2}:[0-9]{2})"
_ZONE = rf"[\x00-\x20]*(?:Z|(?:UTC|GMT|UT)?{_OFFSET}|UTC|GMT|UT)"
_TIMESTAMP = (
    r"^([+-]?[0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T]"
    + _CLOCK.replace("{zone}", _ZONE)
    + r")?)?)?$"
)
# The usual form, which Polars parses as Spark does.
_PLAIN_DATE = r"(?-u)^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_PLAIN_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?Z?$"
_PLAIN_TIMESTAMP = _PLAIN_DATE + "[ T]" + _PLAIN_CLOCK
_NUMBER_FIELDS = ("year", "month", "day", "hour", "minute", "second")


def parse_date(text: pl.Series) -> pl.Series:
    """Parse dates; text after a whole date and a blank or a T is ignored."""
    plain = pl.when(text.str.contains(_PLAIN_DATE + "(?:[ T]|$)")).then(text).str.head(10)
    read = plain.str.to_date("%Y-%m-%d", strict=False).to_physical()
    days = fill_unparsed(text, pl.select(read).to_series(), _parse_any_date)
    return days.cast(to_polars(DATE))


def parse_timestamp(text: pl.Series) -> pl.Series:
    """Parse timestamps; text without a time zone is UTC."""
    plain = pl.when(text.str.contains(_PLAIN_TIMESTAMP)).then(text)
    blank = plain.str.strip_suffix("Z").str.replace("T", " ", literal=True)
    read = blank.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
    micros = fill_unparsed(text, pl.select(read.to_physical()).to_series(), _parse_any_timestamp)
    return micros.cast(to_polars(TIMESTAMP))


def _parse_any_date(text: pl.Series) -> pl.Series:
    """Parse any date to days since the epoch."""
    fields = _extract_fields(text, _DATE, ["year", "month", "day"])
    days = pl.when(_is_valid_day()).then(_days_since_epoch()).cast(pl.Int32, strict=False)
    return fields.select(days).to_series()


def _parse_any_timestamp(text: pl.Series) -> pl.Series:
    """Parse any timestamp to microseconds since the epoch."""
    fields = _extract_fields(text, _TIMESTAMP, [*_NUMBER_FIELDS, "fraction", "zone"])
    offset = _parse_offset(fields["zone"])
    fields = fields.with_columns(offset.alias("offset"))
    hour, minute, second = map(pl.col, ("hour", "minute", "second"))
    good = _is_valid_day() & (hour < 24) & (minute < 60) & (second < 60)
    seconds = _days_since_epoch() * 86_400 + hour * 3600 + minute * 60 + second - pl.col("offset")
    fraction = pl.col("fraction").fill_null("").str.head(6).str.pad_end(6, "0").cast(pl.Int64)
    micros = seconds.cast(pl.Int128) * pl.lit(1_000_000, dtype=pl.Int128) + fraction
    stamps = pl.when(good).then(micros).cast(pl.Int64, strict=False)
    return fields.select(stamps).to_series()


def _extract_fields(text: pl.Series, pattern: str, names: list[str]) -> pl.DataFrame:
    """Split text into its fields, numbers as integers; a missing month or day is the first."""
    fields = text.str.strip_chars(SPARK_SPACE).str.extract_groups(pattern).struct.unnest()
    fields.columns = names
    first = {"month": 1, "day": 1}
    return fields.with_columns(
        pl.col(name).cast(pl.Int64).fill_null(first.get(name, 0))
        for name in names
        if name in _NUMBER_FIELDS and name != "year"
    ).with_columns(pl.col("year").cast(pl.Int64))


def _is_valid_day() -> pl.Expr:
    """Whether the year has that month, and the month that day."""
    year, month, day = map(pl.col, ("year", "month", "day"))
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    short = 28 + leap.cast(pl.Int64)
    last = pl.when(month == 2).then(short).otherwise(30 + (month + month // 8) % 2)
    return month.is_between(1, 12) & day.is_between(1, last)


def _days_since_epoch() -> pl.Expr:
    """Return the days since the epoch in the Gregorian calendar, whose years are counted from
    March."""
    year, month, day = map(pl.col, ("year", "month", "day"))
    year = year - (month <= 2).cast(pl.Int64)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + of_year - 719_468


def _parse_offset(zone: pl.Series) -> pl.Series:
    """Return the seconds east of UTC; null past 18 hours, 0 where there is no zone."""
    none = pl.Series([0], dtype=pl.Int64).new_from_index(0, len(zone))
    written = zone.str.contains(r"[0-9]").fill_null(False)
    if not written.any():
        return none
    # +1:5 becomes +01:05, and then the colons are removed.
    digits = zone.str.replace(r"([+-])([0-9])(:|$)", "${1}0${2}${3}")
    digits = digits.str.replace(r"([+-][0-9]{2}):([0-9])$", "${1}0${2}").str.replace_all(":", "")
    parts = digits.str.extract_groups(r"([+-])([0-9]{2})([0-9]{2})?([0-9]{2})?$").struct.unnest()
    parts.columns = ["sign", "hour", "minute", "second"]
    hour, minute, second = (
        pl.col(name).cast(pl.Int64).fill_null(0) for name in ("hour", "minute", "second")
    )
    size = hour * 3600 + minute * 60 + second
    east = pl.when(pl.col("sign") == "-").then(-size).otherwise(size)
    good = (minute < 60) & (second < 60) & (size <= 18 * 3600)
    return none.zip_with(~written, parts.select(pl.when(good).then(east)).to_series())
