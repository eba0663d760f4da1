"""Dates and timestamps in ISO-8601, parsed by column.

A timestamp is `2026-01-31T08:00:00.123456Z`: a date, `T` or a space, hours and minutes, then, all
optional, seconds, a fraction of any length (truncated to microseconds) and a zone (`Z`, `+02:00`,
`+0200`, `+02`; none is UTC). A date alone is its midnight. Each part has its full number of digits;
years are 0001 to 9999.

Polars' own parser is lenient (`2026-1-31` and second 60 pass) and slow with fractions, so a pattern
checks the text and only fixed positions are parsed. An invalid text becomes null.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

DATE_PATTERN = r"(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-[0-9]{2}-[0-9]{2}"
CLOCK_PATTERN = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
SECONDS_PATTERN = r":[0-5][0-9]"
ZONE_PATTERN = r"[Zz]|[+-](?:0[0-9]|1[0-7])(?::?[0-5][0-9])?|[+-]18(?::?00)?"

ONLY_DATE_PATTERN = rf"^{DATE_PATTERN}$"
USUAL_PATTERN = rf"^{DATE_PATTERN}T{CLOCK_PATTERN}{SECONDS_PATTERN}(?:\.[0-9]{{1,9}})?Z$"
ANY_PATTERN = (
    rf"^(?<date>{DATE_PATTERN})(?:[Tt ](?<clock>{CLOCK_PATTERN})"
    rf"(?:(?<seconds>{SECONDS_PATTERN})(?:\.(?<fraction>[0-9]+))?)?(?<zone>{ZONE_PATTERN})?)?$"
)

MICROS_PER_SECOND = 1_000_000
LENGTH_WITH_POINT = len("2026-01-31T08:00:00.Z")


def parse_dates(text: pl.Expr) -> pl.Expr:
    """Parse texts such as `2026-01-31` as dates."""
    import polars as pl

    fits = text.str.contains(ONLY_DATE_PATTERN)
    return pl.when(fits).then(text.str.to_date("%Y-%m-%d", strict=False, cache=False))


def parse_timestamp_column(texts: pl.Series) -> pl.Series:
    """Parse texts as timestamps; if all have the usual form, at a third of the cost."""
    frame = texts.alias("text").to_frame()
    usual = frame.select(_parse_usual(_count_fraction_digits(texts))).to_series()
    if usual.null_count() == texts.null_count():
        return usual.alias(texts.name)
    return frame.select(parse_timestamps(_text_column())).to_series().alias(texts.name)


def parse_timestamps(text: pl.Expr) -> pl.Expr:
    """Parse texts in any form as timestamps."""
    import polars as pl

    parts = text.str.extract_groups(ANY_PATTERN).struct
    clock = parts.field("clock").fill_null("00:00")
    seconds = parts.field("seconds").fill_null(":00")
    whole = _parse_seconds(pl.concat_str(parts.field("date"), pl.lit("T"), clock, seconds))
    micros = (
        whole
        + _parse_fraction(parts.field("fraction").fill_null(""))
        - _parse_zone(parts.field("zone"))
    )
    return micros.cast(pl.Datetime("us", "UTC"))


def parse_local_timestamps(text: pl.Expr) -> pl.Expr:
    """Parse texts in any form as timestamps without a time zone; a text with one is invalid."""
    import polars as pl

    zoned = text.str.extract_groups(ANY_PATTERN).struct.field("zone").is_not_null()
    shown = parse_timestamps(text).dt.replace_time_zone(None)
    return pl.when(zoned.not_()).then(shown)


TIME_PATTERN = rf"^{CLOCK_PATTERN}(?:{SECONDS_PATTERN}(?:\.[0-9]+)?)?$"


def parse_clock_times(text: pl.Expr, precision: int) -> pl.Expr:
    """Parse texts such as `08:00:00.5` as times of day; further digits are cut off."""
    import polars as pl

    second = text.str.slice(6, 2).str.pad_end(2, "0").cast(pl.Int64, strict=False)
    hour, minute = (text.str.slice(at, 2).cast(pl.Int64, strict=False) for at in (0, 3))
    digits = text.str.slice(9, precision).str.pad_end(9, "0").cast(pl.Int64, strict=False)
    nanos = (hour * 3600 + minute * 60 + second) * (MICROS_PER_SECOND * 1000) + digits
    return pl.when(text.str.contains(TIME_PATTERN)).then(nanos).cast(pl.Time)


@cache
def _parse_usual(digits: int | None) -> pl.Expr:
    """Parse texts of the usual form; cheaper if all fractions have that number of digits."""
    import polars as pl

    text = _text_column()
    if digits is None:
        fraction = _parse_fraction(text.str.slice(20).str.strip_suffix("Z"))
    else:
        number = text.str.slice(20, min(digits, 6)).cast(pl.Int64, strict=False)
        fraction = number * 10 ** (6 - min(digits, 6))
    micros = _parse_seconds(text.str.slice(0, 19)) + fraction
    instant = micros.cast(pl.Datetime("us", "UTC"))
    return pl.when(text.str.contains(USUAL_PATTERN)).then(instant)


def _count_fraction_digits(texts: pl.Series) -> int | None:
    """Return the common number of fraction digits, from the texts' length; None if it varies."""
    lengths = texts.str.len_bytes()
    shortest, longest = lengths.min(), lengths.max()
    digits = longest - LENGTH_WITH_POINT if isinstance(longest, int) else 0
    return digits if shortest == longest and 1 <= digits <= 9 else None


def _text_column() -> pl.Expr:
    import polars as pl

    return pl.col("text")


def _parse_seconds(text: pl.Expr) -> pl.Expr:
    """Parse `2026-01-31T08:00:00` to microseconds."""
    import polars as pl

    form = "%Y-%m-%dT%H:%M:%S"
    parsed = text.str.to_datetime(form, time_unit="us", strict=False, cache=False)
    return parsed.cast(pl.Int64)


def _parse_fraction(digits: pl.Expr) -> pl.Expr:
    """Convert the digits after the point to microseconds."""
    import polars as pl

    return digits.str.pad_end(6, "0").str.head(6).cast(pl.Int64, strict=False)


def _parse_zone(zone: pl.Expr) -> pl.Expr:
    """Convert a zone such as `+02:00` to microseconds; none and `Z` are 0."""
    import polars as pl

    digits = zone.str.replace_all(":", "", literal=True).str.slice(1).str.pad_end(4, "0")
    hours = digits.str.head(2).cast(pl.Int64, strict=False)
    minutes = digits.str.slice(2).cast(pl.Int64, strict=False)
    east = (hours * 3600 + minutes * 60) * MICROS_PER_SECOND
    return pl.when(zone.str.starts_with("-")).then(-east).otherwise(east).fill_null(0)
