"""Time zones by Java's names, and the shift of times between UTC and the clock of a zone.

A zone is an offset (`+02:00`, `GMT+1`, `Z`), a region (`Europe/Berlin`) or one of Java's old
abbreviations (`PST`). Polars has the regions' transitions until 2099 and no calendar for remote
years: before 1800 every region has the offset of 1800, and a later year has that of a year before
2100 that begins on the same weekday and is as long.
"""

from __future__ import annotations

import calendar as python_calendar
import re
from functools import cache
from typing import TYPE_CHECKING

from headrace.core.types import calendar
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

# Java's ZoneId.SHORT_IDS.
_SHORT_NAMES = dict(
    pair.split("=")
    for pair in """
    ACT=Australia/Darwin AET=Australia/Sydney AGT=America/Argentina/Buenos_Aires ART=Africa/Cairo
    AST=America/Anchorage BET=America/Sao_Paulo BST=Asia/Dhaka CAT=Africa/Harare
    CNT=America/St_Johns CST=America/Chicago CTT=Asia/Shanghai EAT=Africa/Addis_Ababa
    ECT=Europe/Paris IET=America/Indiana/Indianapolis IST=Asia/Kolkata JST=Asia/Tokyo
    MIT=Pacific/Apia NET=Asia/Yerevan NST=Pacific/Auckland PLT=Asia/Karachi PNT=America/Phoenix
    PRT=America/Puerto_Rico PST=America/Los_Angeles SST=Pacific/Guadalcanal VST=Asia/Ho_Chi_Minh
    EST=-05:00 MST=-07:00 HST=-10:00
    """.split()
)
_NOT_IN_JAVA = frozenset(("ROC", "Factory", "localtime", "posixrules"))
_OFFSET = re.compile(
    r"(?P<sign>[+-])(?:(\d{1,2})(?::(\d{1,2})|:(\d\d):(\d\d))?|(\d\d)(\d\d)(\d\d)?)",
    re.ASCII,
)
_MAX_OFFSET_S = 18 * 3600


@dataclass(frozen=True, slots=True)
class TimeZone:
    """A fixed offset from UTC, or the region that decides it."""

    offset_us: int = 0
    region: str = ""


@cache
def find_time_zone(name: str) -> TimeZone | None:
    """Return the zone of a name, None if Java has no such zone; capitals matter.

    >>> find_time_zone("GMT+1"), find_time_zone("europe/berlin")
    (TimeZone(offset_us=3600000000, region=''), None)
    """
    name = _SHORT_NAMES.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return TimeZone()
    for prefix in ("UTC", "GMT", "UT"):
        if name.startswith((f"{prefix}+", f"{prefix}-")):
            return _parse_offset(name.removeprefix(prefix))
    if name.startswith(("+", "-")):
        return _parse_offset(name)
    return TimeZone(region=name) if _is_region(name) else None


def _parse_offset(text: str) -> TimeZone | None:
    match = _OFFSET.fullmatch(text)
    if match is None:
        return None
    numbers = [int(digits) for digits in match.groups()[1:] if digits]
    hour, minute, second = (*numbers, 0, 0)[:3]
    size = hour * 3600 + minute * 60 + second
    if minute > 59 or second > 59 or size > _MAX_OFFSET_S:
        return None
    sign = -1 if match["sign"] == "-" else 1
    return TimeZone(sign * size * calendar.SECOND_US)


def _is_region(name: str) -> bool:
    """Whether Polars has the region: it knows the names of its own time zone data only."""
    import polars as pl

    if name in _NOT_IN_JAVA or not re.fullmatch(r"[A-Z][A-Za-z0-9~/._+-]+", name, re.ASCII):
        return False
    try:
        pl.Series([0]).cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(name)
    except pl.exceptions.PolarsError:
        return False
    return True


def convert_from_utc(micros: pl.Series, zone: TimeZone) -> pl.Series:
    """Return what the clocks of the zone show at instants, null out of the range of a bigint."""
    return _add_exactly(micros, _find_offsets(micros, zone))


def convert_to_utc(micros: pl.Series, zone: TimeZone) -> pl.Series:
    """Return the instants at which the clocks of the zone show times, null out of range.

    A time that the clocks show twice is the first of the two; one that they skip is later by the
    length of the gap.
    """
    import polars as pl

    if not zone.region:
        return _add_exactly(micros, -zone.offset_us)
    folded = _fold(micros)
    shown = folded.cast(pl.Datetime("us")).dt.replace_time_zone(
        zone.region, ambiguous="earliest", non_existent="null"
    )
    shift = shown.to_physical() - folded
    if shift.null_count() > micros.null_count():
        # No region changes its clocks twice within three days.
        shift = shift.fill_null(-_find_region_offsets(folded - calendar.DAY_US, zone.region))
    return _add_exactly(micros, shift)


def _find_offsets(micros: pl.Series, zone: TimeZone) -> pl.Series | int:
    return _find_region_offsets(_fold(micros), zone.region) if zone.region else zone.offset_us


def _find_region_offsets(micros: pl.Series, region: str) -> pl.Series:
    import polars as pl

    instants = micros.cast(pl.Datetime("us", "UTC"))
    shown = instants.dt.convert_time_zone(region).dt.replace_time_zone(None)
    return shown.to_physical() - micros


def _add_exactly(micros: pl.Series, shift: pl.Series | int) -> pl.Series:
    """Return the sums, null out of the range of a bigint."""
    import polars as pl

    wide = micros.cast(pl.Int128) + (
        pl.Series([shift], dtype=pl.Int128) if isinstance(shift, int) else shift.cast(pl.Int128)
    )
    return wide.cast(pl.Int64, strict=False)


_FIRST_YEAR, _END_YEAR = 1800, 2100
_FIRST_US, _END_US = (
    (year - 1970) * 365 * calendar.DAY_US + leap_days * calendar.DAY_US
    for year, leap_days in ((_FIRST_YEAR, -41), (_END_YEAR, 32))
)
"""The first microsecond of each of these years."""


def _fold(micros: pl.Series) -> pl.Series:
    """Return times of the same offsets in the years 1800 to 2099."""
    first, last = micros.min(), micros.max()
    assert isinstance(first, int | None) and isinstance(last, int | None)
    if first is not None and first < _FIRST_US:
        micros = micros.clip(lower_bound=_FIRST_US)
    return micros if last is None or last < _END_US else _fold_late(micros)


def _fold_late(micros: pl.Series) -> pl.Series:
    import polars as pl

    late = pl.col("t") >= _END_US
    time = (pl.col("t") % calendar.CYCLE_US).cast(pl.Datetime("us"))  # of the years 1970 to 2369
    year = time.dt.year()
    start = pl.datetime(year, 1, 1, time_unit="us").to_physical()
    like = pl.datetime(
        year.replace_strict(_find_like_years(), return_dtype=pl.Int32), 1, 1, time_unit="us"
    )
    folded = time.to_physical() - start + like.to_physical()
    return pl.DataFrame({"t": micros}).select(pl.when(late).then(folded).otherwise("t")).to_series()


@cache
def _find_like_years() -> dict[int, int]:
    """Return for each year of a cycle the one of 2072 to 2099 with the same days."""
    kinds = {_describe_year(year): year for year in range(_END_YEAR - 28, _END_YEAR)}
    return {year: kinds[_describe_year(year)] for year in range(1970, 1970 + calendar.CYCLE_YEARS)}


def _describe_year(year: int) -> tuple[int, bool]:
    return python_calendar.weekday(year, 1, 1), python_calendar.isleap(year)
