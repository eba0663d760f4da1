"""Text parsed to numbers and booleans, as Spark's `cast` parses it.

Spark accepts much: white space around the text, `+5`, `.5`, `5.`, `1e3`, `1d`, `inf`, fractions for
an integer (truncated), any digits of Unicode for a decimal. Polars parses the plain forms fast, so
every parser tries Polars first and parses the remaining texts itself. Text that is not a number is
null. A float or a double may be a hexadecimal number with an exponent of two (`0x1p3`).

Text parsed to dates and timestamps, as Spark's `cast` parses it.

    2024   2024-1   2024-01-02   2024-01-02 3:4   2024-01-02T03:04:05.123456+02:00

Fields may be short, years may be long and negative, digits past microseconds are truncated, and a
time zone has one of Java's names (`types/time_zones`). By decision, text with only a time of day is
null.
"""

from __future__ import annotations

import unicodedata
from functools import cache

import polars as pl

from headrace.core.expressions.arithmetic.decimal_text import parse_unscaled
from headrace.core.expressions.batch_forms import fill_unparsed
from headrace.core.expressions.casts.hexadecimal import parse_hexadecimal
from headrace.core.expressions.casts.numbers import to_decimal
from headrace.core.types.data_types import (
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
    Type,
    to_polars,
)
from headrace.core.types.time_zones import convert_to_utc, find_time_zone

# The characters that Spark's own parsers trim, and those of Java's `trim`, which the others use.
SPARK_SPACE = "".join(map(chr, range(0x21))) + "\x7f"


JAVA_SPACE = SPARK_SPACE[:-1]


_BOOLEAN_WORDS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}


def parse_boolean(text: pl.Expr) -> pl.Expr:
    """Parse Spark's words for true and false, in any case."""
    word = text.str.strip_chars(SPARK_SPACE).str.to_lowercase()
    return word.replace_strict(_BOOLEAN_WORDS, default=None, return_dtype=pl.Boolean)


def parse_integer(text: pl.Series, target: Type, *, fraction: bool) -> pl.Series:
    """Parse integers that fit; with `fraction`, digits after the point are truncated."""
    type = to_polars(target)

    def parse_rest(text: pl.Series) -> pl.Series:
        trimmed = text.str.strip_chars(SPARK_SPACE)
        if fraction:
            trimmed = trimmed.str.replace(r"^([+-]?)(\.[0-9]*)$", "${1}0${2}")
            trimmed = trimmed.str.extract(r"^([+-]?[0-9]+)(?:\.[0-9]*)?$")
        return trimmed.cast(type, strict=False)

    return fill_unparsed(text, text.cast(type, strict=False), parse_rest)


def parse_double(text: pl.Series, target: Type) -> pl.Series:
    """Parse floats and doubles as Java does, then `inf`, `infinity` and `nan` in any case."""
    type = to_polars(target)

    def parse_rest(text: pl.Series) -> pl.Series:
        trimmed = text.str.strip_chars(JAVA_SPACE)
        trimmed = trimmed.str.replace(r"^(.*[0-9.])[dDfF]$", "${1}")
        trimmed = trimmed.str.replace(r"^[+-]NaN$", "NaN").str.replace(r"^[+-](?i:nan)$", "")
        read = trimmed.cast(type, strict=False)
        return fill_unparsed(trimmed, read, lambda rest: parse_hexadecimal(rest, target))

    return fill_unparsed(text, text.cast(type, strict=False).fill_nan(None), parse_rest)


_PLAIN_DECIMAL = r"(?-u)^[+-]?[0-9]{1,19}(?:\.[0-9]{1,18})?$"


_PARSED_DECIMAL = Decimal(38, 18)


def parse_decimal(text: pl.Series, target: Decimal) -> pl.Series:
    """Parse decimals of any number of digits and with any exponent, rounded half up."""
    plain = text.str.contains(_PLAIN_DECIMAL)
    rounded = to_decimal(_PARSED_DECIMAL, target)
    read = pl.when(plain).then(text).cast(to_polars(_PARSED_DECIMAL), strict=False)
    unscaled = pl.select(rounded(read).reinterpret(dtype=pl.Int128)).to_series()

    unscaled = fill_unparsed(text, unscaled, lambda rest: _parse_any_decimal(rest, target))
    return unscaled.reinterpret(dtype=to_polars(target))


def _parse_any_decimal(text: pl.Series, target: Decimal) -> pl.Series:
    trimmed = text.str.strip_chars(JAVA_SPACE)
    if trimmed.str.contains(r"[^\x00-\x7F]").any():
        trimmed = trimmed.str.replace_many(_unicode_digits())
    unscaled = parse_unscaled(trimmed, target.scale)
    return unscaled.set(unscaled.abs() >= 10**target.precision, None)


@cache
def _unicode_digits() -> dict[str, str]:
    """Return the decimal digits of all scripts, as far as one `char` of Java holds them."""
    beyond = (chr(code) for code in range(0x80, 0x10000))
    return {c: str(unicodedata.digit(c)) for c in beyond if unicodedata.category(c) == "Nd"}


_DATE = r"(?s)^([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?$"


_CLOCK = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?({zone})?)?)?"


_ZONE = r"[\x00-\x20]*[A-Za-z+-][A-Za-z0-9~/._+:-]*"


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
    return _parse_micros(text, local=False).cast(to_polars(TIMESTAMP))


def parse_timestamp_ntz(text: pl.Series) -> pl.Series:
    """Parse timestamps without a time zone; a zone in the text has no effect."""
    return _parse_micros(text, local=True).cast(to_polars(TIMESTAMP_NTZ))


def _parse_micros(text: pl.Series, *, local: bool) -> pl.Series:
    plain = pl.when(text.str.contains(_PLAIN_TIMESTAMP)).then(text)
    blank = plain.str.strip_suffix("Z").str.replace("T", " ", literal=True)
    read = blank.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
    micros = pl.select(read.to_physical()).to_series()
    return fill_unparsed(text, micros, lambda rest: _parse_any_timestamp(rest, local=local))


def _parse_any_date(text: pl.Series) -> pl.Series:
    """Parse any date to days since the epoch."""
    fields = _extract_fields(text, _DATE, ["year", "month", "day"])
    days = pl.when(_is_valid_day()).then(_days_since_epoch()).cast(pl.Int32, strict=False)
    return fields.select(days).to_series()


def _parse_any_timestamp(text: pl.Series, *, local: bool) -> pl.Series:
    """Parse any timestamp to microseconds since the epoch; if `local`, the zone has no effect."""
    fields = _extract_fields(text, _TIMESTAMP, [*_NUMBER_FIELDS, "fraction", "zone"])
    hour, minute, second = map(pl.col, ("hour", "minute", "second"))
    good = _is_valid_day() & (hour < 24) & (minute < 60) & (second < 60)
    seconds = _days_since_epoch() * 86_400 + hour * 3600 + minute * 60 + second
    fraction = pl.col("fraction").fill_null("").str.head(6).str.pad_end(6, "0").cast(pl.Int64)
    micros = seconds.cast(pl.Int128) * pl.lit(1_000_000, dtype=pl.Int128) + fraction
    shown = fields.select(pl.when(good).then(micros)).to_series()
    return _apply_zones(shown, fields["zone"], local=local)


def _apply_zones(shown: pl.Series, zones: pl.Series, *, local: bool) -> pl.Series:
    """Return the instants of what clocks show, null where there is no such zone or instant."""
    names = zones.str.strip_chars(SPARK_SPACE)
    for name in names.drop_nulls().unique():
        rows, zone = (names == name).fill_null(False).arg_true(), find_time_zone(name)
        given = shown[rows]
        if zone is None:
            instants = given.clear(len(given))
        elif local:
            instants = given
        elif zone.region:
            narrow = given.cast(pl.Int64, strict=False)
            instants = convert_to_utc(narrow, zone).cast(pl.Int128)
        else:
            instants = given - pl.Series([zone.offset_us], dtype=pl.Int128)
        shown = shown.scatter(rows, instants)
    return shown.cast(pl.Int64, strict=False)


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
