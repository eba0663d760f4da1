"""Casts of the time of day: from and to text, timestamps and numbers of seconds."""

from __future__ import annotations

import polars as pl

from headrace.core.expressions.batch_forms import compute_on_column
from headrace.core.expressions.casts import numbers
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.calendar import DAY_US
from headrace.core.types.data_types import STRING, Decimal, Time, Type, to_polars

DAY_NS = DAY_US * 1000
SECOND_NS = 1_000_000_000
SECONDS_TYPE = Decimal(14, 9)
"""The decimal type of a time of day as seconds."""

_SPACE = "".join(map(chr, range(0x21))) + "\x7f"
_TEXT = (
    r"^T?(?<hour>[0-9]{1,2}):(?<minute>[0-9]{1,2})(?::(?<second>[0-9]{1,2})"
    r"(?:\.(?<fraction>[0-9]*))?)?[\x00-\x20]*(?<half>[AaPp][Mm])?$"
)


def parse_time(text: pl.Series, target: Time) -> pl.Series:
    """Parse times of day such as 7:08, 07:08:09.5 and 7:08 PM; further digits are cut off."""
    fields = text.str.strip_chars(_SPACE).str.extract_groups(_TEXT).struct.unnest()
    hour, minute, second = (pl.col(name).cast(pl.Int64) for name in ("hour", "minute", "second"))
    second, half = second.fill_null(0), pl.col("half").str.to_uppercase()
    limit = pl.when(half.is_null()).then(hour < 24).otherwise(hour.is_between(1, 12))
    hours = pl.when(half.is_null()).then(hour).when(half == "AM").then(hour % 12)
    fraction = pl.col("fraction").fill_null("").str.head(target.precision).str.pad_end(9, "0")
    nanos = (
        hours.otherwise(hour % 12 + 12) * 3600 + minute * 60 + second
    ) * SECOND_NS + fraction.cast(pl.Int64)
    valid = limit & (minute < 60) & (second < 60)
    return fields.select(pl.when(valid).then(nanos).cast(pl.Time)).to_series()


def to_time_text(value: pl.Series) -> pl.Series:
    """Format times without trailing zeros, and without a point if no digit follows it."""
    text = value.dt.strftime("%H:%M:%S%.9f")
    return text.str.head(8) + text.str.slice(8).str.strip_chars_end("0").str.strip_chars_end(".")


def cut_precision(target: Time) -> PolarsForm:
    """Return the form of a time with fewer digits."""
    unit = int(10 ** (9 - target.precision))
    return lambda value: (value.to_physical() // unit * unit).cast(pl.Time)


def extract_time(target: Time) -> PolarsForm:
    """Return the form of the time of day of a timestamp."""
    unit = 10 ** (6 - target.precision)
    return lambda value: (value.to_physical() % DAY_US // unit * (unit * 1000)).cast(pl.Time)


def to_number(target: Type) -> PolarsForm:
    """Return the form of the seconds since midnight; null where they do not fit."""
    if not isinstance(target, Decimal):
        return lambda value: (value.to_physical() // SECOND_NS).cast(
            to_polars(target), strict=False
        )
    rounded, exact = numbers.to_decimal(SECONDS_TYPE, target), to_polars(SECONDS_TYPE)
    return lambda value: rounded(value.to_physical().cast(pl.Int128).reinterpret(dtype=exact))


def build_time_form(source: Type, target: Type) -> PolarsForm:
    """Return the form of a cast from or to a time of day."""
    if isinstance(target, Time):
        if source == STRING:
            return compute_on_column(lambda text: parse_time(text, target), target)
        return cut_precision(target) if isinstance(source, Time) else extract_time(target)
    if target == STRING:
        return compute_on_column(to_time_text, STRING)
    return to_number(target)
