"""Casts to text, and between text and binary."""

from __future__ import annotations

import polars as pl

from headrace.core.expressions.batch_forms import compute_on_column
from headrace.core.expressions.casts.clock_times import to_time_text
from headrace.core.expressions.casts.double_text import format_double
from headrace.core.expressions.casts.intervals import to_interval_text
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.calendar import FORMATTED_DAYS_LIMIT
from headrace.core.types.data_types import (
    BINARY,
    DATE,
    FLOAT_TYPES,
    INTEGER_TYPES,
    STRING,
    TIMESTAMP_TYPES,
    Array,
    Decimal,
    Interval,
    MapType,
    Struct,
    Time,
    Type,
)
from headrace.core.types.map_entries import KEY, VALUE

_BYTES: dict[Type, int] = dict(zip(INTEGER_TYPES, (1, 2, 4, 8), strict=True))

# The cycle in which the calendar repeats.
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400


def to_text(source: Type, *, plain: bool) -> PolarsForm:
    """Return the form of Spark's text of a value; `plain` decimals never have an exponent."""
    match source:
        case Decimal(_, scale) if scale > 6 and not plain:
            return compute_on_column(lambda value: _format_decimal(value, scale), STRING)
        case Array(element):
            return _format_array(to_text(element, plain=plain))
        case MapType(key, item):
            return _format_map(to_text(key, plain=plain), to_text(item, plain=plain))
        case Struct(fields):
            return _format_struct([to_text(field.type, plain=plain) for field in fields])
    if source in FLOAT_TYPES:
        return compute_on_column(format_double, STRING)
    if isinstance(source, Interval):
        return compute_on_column(lambda value: to_interval_text(value, source), STRING)
    if isinstance(source, Time):
        return compute_on_column(to_time_text, STRING)
    if source == BINARY:
        return compute_on_column(_decode_utf8, STRING)
    if source == DATE:
        return compute_on_column(_format_date, STRING)
    if source in TIMESTAMP_TYPES:
        return compute_on_column(_format_timestamp, STRING)
    return lambda value: value.cast(pl.String)


def _decode_utf8(value: pl.Series) -> pl.Series:
    """Decode UTF-8, with the replacement character for invalid bytes, as Java does."""
    try:
        return value.cast(pl.String)
    except pl.exceptions.ComputeError:
        texts = [None if item is None else item.decode("utf-8", "replace") for item in value]
        return pl.Series(value.name, texts, dtype=pl.String)


def _format_decimal(value: pl.Series, scale: int) -> pl.Series:
    """Format decimals as Java does: below a millionth with an exponent, as in 0E-18, 1.2E-7."""
    digits = value.reinterpret(dtype=pl.Int128).abs().cast(pl.String)
    small = digits.str.len_bytes().cast(pl.Int64) - scale < -5
    text = value.cast(pl.String)
    if not small.any():
        return text
    exponent = (digits.str.len_bytes().cast(pl.Int64) - 1 - scale).cast(pl.String)
    sign = text.str.extract("^(-?)")
    short = sign + digits.str.replace("^(.)(.+)$", "${1}.${2}") + "E" + exponent
    return short.zip_with(small, text)


def _format_date(value: pl.Series) -> pl.Series:
    days = value.to_physical().cast(pl.Int64)
    if _are_formattable(days):
        return value.dt.strftime("%Y-%m-%d")
    return _format_year(days) + _fold_days(days).dt.strftime("-%m-%d")


def _format_timestamp(value: pl.Series) -> pl.Series:
    """Format timestamps without trailing zeros, and without a point if no digit follows it."""
    micros = value.to_physical()
    days = micros // 86_400_000_000
    if _are_formattable(days):
        text = micros.cast(pl.Datetime("us")).dt.strftime("%Y-%m-%d %H:%M:%S%.6f")
    else:
        clock = (micros % 86_400_000_000).cast(pl.Datetime("us")).dt.strftime(" %H:%M:%S%.6f")
        text = _format_year(days) + _fold_days(days).dt.strftime("-%m-%d") + clock
    return text.str.strip_chars_end("0").str.strip_chars_end(".")


def _are_formattable(days: pl.Series) -> bool:
    return not (days.abs() > FORMATTED_DAYS_LIMIT).any()


def _fold_days(days: pl.Series) -> pl.Series:
    """Return the same day of the calendar in a year that Polars supports."""
    return (days % _CYCLE_DAYS).cast(pl.Int32).cast(pl.Date)


def _format_year(days: pl.Series) -> pl.Series:
    """Return a year of at least four digits, with a sign if it is not one of 0 to 9999."""
    year = _fold_days(days).dt.year().cast(pl.Int64) + days // _CYCLE_DAYS * _CYCLE_YEARS
    digits = year.abs().cast(pl.String).str.zfill(4)
    sign = pl.when(year < 0).then(pl.lit("-")).when(year > 9999).then(pl.lit("+"))
    return pl.select(sign.otherwise(pl.lit(""))).to_series() + digits


def _format_array(element: PolarsForm) -> PolarsForm:
    """Return the form of the text of an array: [1, 2, null]."""
    body = element(pl.element()).fill_null("null")
    return lambda value: pl.lit("[") + value.list.eval(body).list.join(", ") + pl.lit("]")


def _format_map(key: PolarsForm, item: PolarsForm) -> PolarsForm:
    """Return the form of the text of a map: {a -> 1, b -> null}."""
    parts = (pl.element().struct.field(name) for name in (KEY, VALUE))
    body = pl.concat_str(
        [form(part).fill_null("null") for form, part in zip((key, item), parts, strict=True)],
        separator=" -> ",
    )

    def form(value: pl.Expr) -> pl.Expr:
        return pl.lit("{") + value.map.entries().list.eval(body).list.join(", ") + pl.lit("}")

    return form


def _format_struct(fields: list[PolarsForm]) -> PolarsForm:
    """Return the form of the text of a struct: {1, null}."""

    def show(value: pl.Series) -> pl.Series:
        inside = value.struct.unnest()
        columns = [
            form(pl.col(name)).cast(pl.String).fill_null("null").alias(f"f{i}")
            for i, (name, form) in enumerate(zip(inside.columns, fields, strict=True))
        ]
        joined = inside.select(columns).select("{" + pl.concat_str("*", separator=", ") + "}")
        return pl.select(pl.when(value.is_not_null()).then(joined.to_series())).to_series()

    return compute_on_column(show, STRING)


def to_binary(source: Type) -> PolarsForm:
    """Return the form of a cast to binary: text as UTF-8, an integer as its bytes, the highest
    first."""
    if source == STRING:
        return lambda value: value.cast(pl.Binary)
    units = [1 << 8 * index for index in reversed(range(_BYTES[source]))]

    def pack_bytes(value: pl.Series) -> pl.Series:
        wide = value.cast(pl.Int64).fill_null(0)
        octets = [(wide // unit % 256).cast(pl.UInt8) for unit in units]
        listed = pl.select(pl.concat_list(octets).cast(pl.Binary)).to_series()
        return pl.select(pl.when(value.is_not_null()).then(listed)).to_series()

    return compute_on_column(pack_bytes, BINARY)
