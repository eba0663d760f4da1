"""Casts between numbers, dates and timestamps. A number stands for seconds."""

from __future__ import annotations

import polars as pl

from headrace.core.expressions.arithmetic.decimals import append_zeros, int128, to_unscaled
from headrace.core.expressions.arithmetic.doubles import divide_by
from headrace.core.expressions.batch_forms import compute_on_column, evaluate_once
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    FLOAT_TYPES,
    INTEGER_TYPES,
    TIMESTAMP,
    Decimal,
    Type,
    to_polars,
)

SECONDS_TYPE = Decimal(19, 6)
"""The decimal type of a timestamp as seconds."""

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_RANGE = (-(2**63), 2**63 - 1)


def number_to_timestamp(source: Type, *, try_: bool) -> PolarsForm:
    """Return the form of a cast to a timestamp: out of range it is the first or the last timestamp,
    but a decimal wraps."""
    micros = _to_micros(source, try_=try_)
    return lambda value: micros(value).cast(to_polars(TIMESTAMP))


def _to_micros(source: Type, *, try_: bool) -> PolarsForm:
    if source == BOOLEAN:
        return lambda value: value.cast(pl.Int64)
    if source in INTEGER_TYPES:
        low, high = map(int128, _RANGE)
        return lambda value: (
            (value.cast(pl.Int128) * int128(_SECOND)).clip(low, high).cast(pl.Int64)
        )
    if source in FLOAT_TYPES:
        return _double_to_micros(try_=try_)
    assert isinstance(source, Decimal)
    more, less = max(6 - source.scale, 0), int128(10 ** max(source.scale - 6, 0))
    return lambda value: (
        append_zeros(to_unscaled(value), more).truncdiv(less).cast(pl.Int64, wrap_numerical=True)
    )


def _double_to_micros(*, try_: bool) -> PolarsForm:
    """Return the form in microseconds: NaN and infinity are null; with `try_cast` also values out
    of range."""
    low, high = -(2.0**63), 2.0**63

    def form(value: pl.Expr) -> pl.Expr:
        micros = value.cast(pl.Float64) * float(_SECOND)
        good = micros.is_between(low, high) if try_ else value.is_finite()
        return pl.when(good).then(micros).cast(pl.Int64, wrap_numerical=True)

    return evaluate_once(form, BIGINT)


def timestamp_to_number(target: Type) -> PolarsForm:
    """Return the form of the seconds of a timestamp, rounded down also before 1970; null where they
    do not fit."""
    if target == BOOLEAN:
        return lambda value: value.to_physical() != 0
    if target in INTEGER_TYPES:
        return lambda value: (value.to_physical() // _SECOND).cast(to_polars(target), strict=False)
    if target in FLOAT_TYPES:
        return compute_on_column(lambda value: _to_double_seconds(value, target), target)
    type = to_polars(SECONDS_TYPE)
    return lambda value: value.to_physical().cast(pl.Int128).reinterpret(dtype=type)


def _to_double_seconds(value: pl.Series, target: Type) -> pl.Series:
    seconds = divide_by(value.to_physical().cast(pl.Float64), float(_SECOND))
    return seconds.cast(to_polars(target))


def date_to_timestamp(value: pl.Expr) -> pl.Expr:
    """Return midnight; null for a date beyond the range of timestamps."""
    micros = value.to_physical().cast(pl.Int128) * int128(_DAY)
    return micros.cast(pl.Int64, strict=False).cast(to_polars(TIMESTAMP))


def timestamp_to_date(value: pl.Expr) -> pl.Expr:
    """Return the day of the timestamp."""
    return value.cast(pl.Date)
