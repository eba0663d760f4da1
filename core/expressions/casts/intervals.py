"""Casts of intervals: from and to text, numbers and other fields.

An interval is a number of months or of microseconds. A number stands for the last field of the
type; text is what Spark writes, with or without the words around it. What does not fit is null.
"""

from __future__ import annotations

import polars as pl

from headrace.core.expressions.arithmetic.decimals import round_half
from headrace.core.expressions.batch_forms import compute_on_column
from headrace.core.expressions.casts import numbers
from headrace.core.expressions.casts.interval_units import UNITS
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import (
    INTEGER_TYPES,
    STRING,
    Decimal,
    Interval,
    Type,
    to_polars,
)

_BELOW = {"month": 12, "hour": 24, "minute": 60, "second": 60}
"""The number of a field in the one before it."""


def build_interval_form(source: Type, target: Type) -> PolarsForm:
    """Return the form of a cast from or to an interval."""
    if isinstance(target, Interval):
        if isinstance(source, Interval):
            return _cut_fields(target)
        if source == STRING:
            return compute_on_column(lambda text: parse_interval_text(text, target), target)
        return _from_number(source, target)
    assert isinstance(source, Interval)
    if target == STRING:
        return compute_on_column(lambda value: to_interval_text(value, source), STRING)
    return _to_number(source, target)


def _to_count(value: pl.Expr) -> pl.Expr:
    return value.to_physical().cast(pl.Int128)


def _from_count(count: pl.Expr, target: Interval) -> pl.Expr:
    """Convert months or microseconds to an interval, null out of range."""
    physical = pl.Int32() if target.is_months else pl.Int64()
    return count.cast(physical, strict=False).cast(to_polars(target))


def _cut_fields(target: Interval) -> PolarsForm:
    """Return the form that drops the fields after the last one of the target."""
    unit = UNITS[target.last]
    if target.last in ("month", "second"):
        return lambda value: value
    return lambda value: _from_count(_to_count(value).truncdiv(unit) * unit, target)


def _from_number(source: Type, target: Interval) -> PolarsForm:
    unit = UNITS[target.last]
    if not isinstance(source, Decimal):
        return lambda value: _from_count(value.cast(pl.Int128) * unit, target)
    if target.last == "second":
        step = numbers.to_decimal(source, Decimal(38, 6))
        return lambda value: _from_count(step(value).reinterpret(dtype=pl.Int128), target)
    if target.is_months:
        return lambda value: _from_count(
            round_half(value.reinterpret(dtype=pl.Int128) * unit, source.scale), target
        )
    whole = pl.lit(10**source.scale, dtype=pl.Int128)
    return lambda value: _from_count(
        value.reinterpret(dtype=pl.Int128).truncdiv(whole) * unit, target
    )


def _to_number(source: Interval, target: Type) -> PolarsForm:
    unit = UNITS[source.last]
    if target in INTEGER_TYPES:
        return lambda value: (
            value.to_physical().cast(pl.Int64).truncdiv(unit).cast(to_polars(target), strict=False)
        )
    assert isinstance(target, Decimal)
    if source.last != "second":
        whole = numbers.to_decimal(Decimal(19, 0), target)
        plain = to_polars(Decimal(19, 0))
        return lambda value: whole(_to_count(value).truncdiv(unit).reinterpret(dtype=plain))
    rounded, exact = numbers.to_decimal(Decimal(19, 6), target), to_polars(Decimal(19, 6))
    return lambda value: rounded(_to_count(value).reinterpret(dtype=exact))


def to_interval_text(value: pl.Series, type: Interval) -> pl.Series:
    """Format intervals as literals: INTERVAL '1 02:03:04.5' DAY TO SECOND."""
    name = str(type).removeprefix("interval ").upper()
    frame = pl.DataFrame({"n": value.to_physical().cast(pl.Int128)})
    size = pl.col("n").abs()
    sign = pl.when(pl.col("n") < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    texts: list[pl.Expr] = []
    for index, field in enumerate(type.fields):
        number = size // UNITS[field]
        if index:
            number = number % _BELOW[field]
            texts.append(pl.lit({"month": "-", "hour": " "}.get(field, ":")))
        text = number.cast(pl.String)
        texts.append(text if field in ("year", "month", "day") else text.str.zfill(2))
    if type.last == "second":
        digits = (size % 1_000_000).cast(pl.String).str.zfill(6).str.strip_chars_end("0")
        texts.append(pl.when(digits != "").then("." + digits).otherwise(pl.lit("")))
    whole = pl.concat_str(pl.lit("INTERVAL '"), sign, *texts, pl.lit(f"' {name}"))
    return frame.select(whole).to_series()


def parse_interval_text(text: pl.Series, target: Interval) -> pl.Series:
    """Parse texts of the target's fields, such as 1 02:03:04.5, or literals of its type."""
    name = str(target).removeprefix("interval ")
    pattern = (
        rf"(?i)^\s*(?:interval\s+(?<minus>[+-]?)\s*')?(?<sign>[+-]?){_build_pattern(target)}"
        rf"(?:'\s+{name.replace(' ', chr(92) + 's+')})?\s*$"
    )
    fields = text.str.extract_groups(pattern).struct.unnest()
    total = sum(
        (pl.col(field).cast(pl.Int128) * UNITS[field] for field in target.fields),
        start=pl.lit(0, dtype=pl.Int128),
    )
    valid = pl.lit(True)
    for field in target.fields[1:]:
        valid &= pl.col(field).cast(pl.Int64, strict=False) < _BELOW[field]
    if target.last == "second":
        digits = pl.col("fraction").fill_null("").str.head(6).str.pad_end(6, "0")
        total += digits.cast(pl.Int128)
    negative = (pl.col("sign") == "-") != (pl.col("minus") == "-").fill_null(False)
    count = pl.when(negative).then(total * -1).otherwise(total)
    given = pl.col(target.fields[0]).is_not_null() & valid
    return fields.select(_from_count(pl.when(given).then(count), target)).to_series()


def _build_pattern(target: Interval) -> str:
    parts = []
    for index, field in enumerate(target.fields):
        if index:
            parts.append({"month": "-", "hour": r"\s+"}.get(field, ":"))
        parts.append(rf"(?<{field}>[0-9]{{1,{2 if index else 18}}})")
    return "".join(parts) + (r"(?:\.(?<fraction>[0-9]{1,9}))?" if target.last == "second" else "")
