"""Casts between numbers, dates and timestamps. A number stands for seconds."""

from __future__ import annotations

import polars as pl

from headrace.core.expressions.batches import once, per_column
from headrace.core.expressions.exact import scaled_up, unscaled, whole
from headrace.core.expressions.floating import over
from headrace.core.expressions.typed import Form
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    FLOATS,
    INTEGERS,
    TIMESTAMP,
    Decimal,
    Type,
    to_polars,
)

SECONDS = Decimal(19, 6)
"""The decimal type of a timestamp as seconds."""

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_RANGE = (-(2**63), 2**63 - 1)


def number_to_timestamp(source: Type, *, try_: bool) -> Form:
    """Return the form of a cast to a timestamp: out of range it is the first or the last timestamp,
    but a decimal wraps."""
    micros = _micros(source, try_=try_)
    return lambda value: micros(value).cast(to_polars(TIMESTAMP))


def _micros(source: Type, *, try_: bool) -> Form:
    if source == BOOLEAN:
        return lambda value: value.cast(pl.Int64)
    if source in INTEGERS:
        low, high = map(whole, _RANGE)
        return lambda value: (value.cast(pl.Int128) * whole(_SECOND)).clip(low, high).cast(pl.Int64)
    if source in FLOATS:
        return _floating_micros(try_=try_)
    assert isinstance(source, Decimal)
    more, less = max(6 - source.scale, 0), whole(10 ** max(source.scale - 6, 0))
    return lambda value: (
        scaled_up(unscaled(value), more).truncdiv(less).cast(pl.Int64, wrap_numerical=True)
    )


def _floating_micros(*, try_: bool) -> Form:
    """Return the form in microseconds: NaN and infinity are null; with `try_cast` also values out
    of range."""
    low, high = -(2.0**63), 2.0**63

    def form(value: pl.Expr) -> pl.Expr:
        micros = value.cast(pl.Float64) * float(_SECOND)
        good = micros.is_between(low, high) if try_ else value.is_finite()
        return pl.when(good).then(micros).cast(pl.Int64, wrap_numerical=True)

    return once(form, BIGINT)


def timestamp_to_number(target: Type) -> Form:
    """Return the form of the seconds of a timestamp, rounded down also before 1970; null where they
    do not fit."""
    if target == BOOLEAN:
        return lambda value: value.to_physical() != 0
    if target in INTEGERS:
        return lambda value: (value.to_physical() // _SECOND).cast(to_polars(target), strict=False)
    if target in FLOATS:
        return per_column(lambda value: _floating_seconds(value, target), target)
    type = to_polars(SECONDS)
    return lambda value: value.to_physical().cast(pl.Int128).reinterpret(dtype=type)


def _floating_seconds(value: pl.Series, target: Type) -> pl.Series:
    seconds = over(value.to_physical().cast(pl.Float64), float(_SECOND))
    return seconds.cast(to_polars(target))


def date_to_timestamp(value: pl.Expr) -> pl.Expr:
    """Return midnight; null for a date beyond the range of timestamps."""
    micros = value.to_physical().cast(pl.Int128) * whole(_DAY)
    return micros.cast(pl.Int64, strict=False).cast(to_polars(TIMESTAMP))


def timestamp_to_date(value: pl.Expr) -> pl.Expr:
    """Return the day of the timestamp."""
    return value.cast(pl.Date)
