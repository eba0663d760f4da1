"""Conversion of the fields that a regular expression captured to a timestamp.

Computed step by step, on columns: as one expression it would mention its input too often (see
`calendar`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.java_time.field_patterns import MONTHS
from headrace.core.types import calendar
from headrace.core.types.calendar import ColumnOrInt
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class CapturedFields:
    """The texts of the captured fields; optional ones may be missing where the text matched."""

    texts: dict[str, pl.Series]
    optional_fields: frozenset[str]

    def number_of_field(self, field: str, default: int) -> ColumnOrInt:
        """Return the number of a field; null where the whole text did not match."""
        text = self.texts.get(field)
        return default if text is None else self.fill_default(field, _to_bigint(text), default)

    def fill_default(self, field: str, value: pl.Series, default: int) -> pl.Series:
        """Return the value with the default where an optional field is missing."""
        return value.fill_null(default) if field in self.optional_fields else value


def _to_bigint(column: pl.Series) -> pl.Series:
    import polars as pl

    return column.cast(pl.Int64)


def build_timestamps(caught: CapturedFields) -> pl.Series:
    import polars as pl

    time = (
        _compute_hour(caught) * 3600
        + caught.number_of_field("minute", 0) * 60
        + caught.number_of_field("second", 0)
    )
    seconds = _compute_days(caught) * 86_400 + time - _compute_offset(caught)
    column = pl.Series([seconds]) if isinstance(seconds, int) else seconds
    micros = column.cast(pl.Int128) * pl.Series([calendar.SECOND_US], dtype=pl.Int128)
    if "fraction" in caught.texts:
        micros = micros + _compute_fraction(caught)
    return micros.cast(pl.Int64, strict=False).cast(pl.Datetime("us", "UTC"))


def _compute_days(caught: CapturedFields) -> ColumnOrInt:
    year = caught.number_of_field("year", 1970)
    if "short_year" in caught.texts:
        year = caught.number_of_field("short_year", -30) + 2000
    if "day_of_year" in caught.texts:
        return calendar.ordinal_date_to_days(year, caught.number_of_field("day_of_year", 1))
    return calendar.civil_date_to_days(
        year, _compute_month(caught), caught.number_of_field("day", 1)
    )


def _compute_month(caught: CapturedFields) -> ColumnOrInt:
    import polars as pl

    name = caught.texts.get("month_name")
    if name is None:
        return caught.number_of_field("month", 1)
    numbers = {month[:3].upper(): number for number, month in enumerate(MONTHS, 1)}
    short = name.str.slice(0, 3).str.to_uppercase().str.replace("\u0130", "I", literal=True)
    found = short.replace_strict(numbers, default=None, return_dtype=pl.Int64)
    return caught.fill_default("month_name", found, 1)


def _compute_hour(caught: CapturedFields) -> ColumnOrInt:
    """Return the hour of the day; a 12-hour clock is taken as AM unless the text has PM."""
    half = caught.texts.get("half")
    later: ColumnOrInt = 0
    if half is not None:
        later = caught.fill_default("half", _to_bigint((half == "P") | (half == "p")), 0) * 12
    if "hour_from_1" in caught.texts:
        return caught.number_of_field("hour_from_1", 0) % 24
    if "half_hour_from_1" in caught.texts:
        return caught.number_of_field("half_hour_from_1", 0) % 12 + later
    return caught.number_of_field("hour", 0) + caught.number_of_field("half_hour", 0) + later


def _compute_offset(caught: CapturedFields) -> ColumnOrInt:
    """Return the offset east of UTC in seconds; null beyond 18 hours."""
    zone = caught.texts.get("zone")
    if zone is None:
        return 0
    minutes = _to_bigint(caught.texts["zone_minute"]).fill_null(0)
    size = (_to_bigint(caught.texts["zone_hour"]) * 60 + minutes) * 60
    east = (size * (1 - _to_bigint(zone == "-") * 2)).fill_null(0)
    return calendar.null_unless(east, (size <= 18 * 3600).fill_null(True))


def _compute_fraction(caught: CapturedFields) -> pl.Series:
    """Return the first six digits after the decimal point."""
    digits = caught.texts["fraction"].str.pad_end(6, "0").str.slice(0, 6)
    return caught.fill_default("fraction", _to_bigint(digits), 0)
