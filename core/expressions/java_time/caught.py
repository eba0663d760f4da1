"""Conversion of the fields that a regular expression captured to a timestamp.

Computed step by step, on columns: as one expression it would mention its input too often (see
`calendar`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.expressions import calendar
from headrace.core.expressions.calendar import Number
from headrace.core.expressions.java_time.fields import MONTHS

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Caught:
    """The texts of the captured fields; optional ones may be missing where the text matched."""

    texts: dict[str, pl.Series]
    optional: frozenset[str]

    def number(self, field: str, default: int) -> Number:
        """Return the number of a field; null where the whole text did not match."""
        text = self.texts.get(field)
        return default if text is None else self.filled(field, _bigint(text), default)

    def filled(self, field: str, value: pl.Series, default: int) -> pl.Series:
        """Return the value with the default where an optional field is missing."""
        return value.fill_null(default) if field in self.optional else value


def _bigint(column: pl.Series) -> pl.Series:
    import polars as pl

    return column.cast(pl.Int64)


def timestamp(caught: Caught) -> pl.Series:
    import polars as pl

    time = _hour(caught) * 3600 + caught.number("minute", 0) * 60 + caught.number("second", 0)
    seconds = _days(caught) * 86_400 + time - _offset(caught)
    column = pl.Series([seconds]) if isinstance(seconds, int) else seconds
    micros = column.cast(pl.Int128) * pl.Series([calendar.SECOND_US], dtype=pl.Int128)
    if "fraction" in caught.texts:
        micros = micros + _fraction(caught)
    return micros.cast(pl.Int64, strict=False).cast(pl.Datetime("us", "UTC"))


def _days(caught: Caught) -> Number:
    year = caught.number("year", 1970)
    if "short_year" in caught.texts:
        year = caught.number("short_year", -30) + 2000
    if "day_of_year" in caught.texts:
        return calendar.ordinal_days(year, caught.number("day_of_year", 1))
    return calendar.civil_days(year, _month(caught), caught.number("day", 1))


def _month(caught: Caught) -> Number:
    import polars as pl

    name = caught.texts.get("month_name")
    if name is None:
        return caught.number("month", 1)
    numbers = {month[:3].upper(): number for number, month in enumerate(MONTHS, 1)}
    short = name.str.slice(0, 3).str.to_uppercase().str.replace("\u0130", "I", literal=True)
    found = short.replace_strict(numbers, default=None, return_dtype=pl.Int64)
    return caught.filled("month_name", found, 1)


def _hour(caught: Caught) -> Number:
    """Return the hour of the day; a 12-hour clock is taken as AM unless the text has PM."""
    half = caught.texts.get("half")
    later: Number = 0
    if half is not None:
        later = caught.filled("half", _bigint((half == "P") | (half == "p")), 0) * 12
    if "hour_from_1" in caught.texts:
        return caught.number("hour_from_1", 0) % 24
    if "half_hour_from_1" in caught.texts:
        return caught.number("half_hour_from_1", 0) % 12 + later
    return caught.number("hour", 0) + caught.number("half_hour", 0) + later


def _offset(caught: Caught) -> Number:
    """Return the offset east of UTC in seconds; null beyond 18 hours."""
    zone = caught.texts.get("zone")
    if zone is None:
        return 0
    minutes = _bigint(caught.texts["zone_minute"]).fill_null(0)
    size = (_bigint(caught.texts["zone_hour"]) * 60 + minutes) * 60
    east = (size * (1 - _bigint(zone == "-") * 2)).fill_null(0)
    return calendar.only(east, (size <= 18 * 3600).fill_null(True))


def _fraction(caught: Caught) -> pl.Series:
    """Return the first six digits after the decimal point."""
    digits = caught.texts["fraction"].str.pad_end(6, "0").str.slice(0, 6)
    return caught.filled("fraction", _bigint(digits), 0)
