"""Casts between numbers, and between numbers and booleans."""

from __future__ import annotations

import polars as pl

from headrace.core.expressions.arithmetic.decimals import (
    from_unscaled,
    int128,
    round_half,
    to_unscaled,
)
from headrace.core.expressions.arithmetic.rounding import double_to_decimal
from headrace.core.expressions.batch_forms import compute_on_column, evaluate_once
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    FLOAT_TYPES,
    INT,
    INTEGER_TYPES,
    MAX_DIGITS,
    Decimal,
    Type,
    to_polars,
)


def to_boolean(value: pl.Expr) -> pl.Expr:
    """Return true for all numbers but zero; NaN is not zero."""
    return value.cast(pl.Boolean)


def to_integer(source: Type, target: Type, *, try_: bool) -> PolarsForm:
    """Return the form of a cast to an integer: integers wrap, doubles saturate (through int, where
    the target is narrower still)."""
    type = to_polars(target)
    if isinstance(source, Decimal):
        unit = int128(10**source.scale)
        return lambda value: _cast_or_wrap(to_unscaled(value).truncdiv(unit), type, try_=try_)
    if source in FLOAT_TYPES and try_:
        return _try_double_to_integer(target)
    if source in FLOAT_TYPES and target not in (INT, BIGINT):
        return lambda value: value.cast(pl.Int32, wrap_numerical=True).cast(
            type, wrap_numerical=True
        )
    return lambda value: _cast_or_wrap(value, type, try_=try_)


def _cast_or_wrap(value: pl.Expr, type: pl.DataType, *, try_: bool) -> pl.Expr:
    return value.cast(type, strict=False) if try_ else value.cast(type, wrap_numerical=True)


def _try_double_to_integer(target: Type) -> PolarsForm:
    """Return null where the number does not fit, except for 2 ** 63, the double that the greatest
    bigint rounds to."""
    if target != BIGINT:
        return lambda value: value.cast(to_polars(target), strict=False)
    return evaluate_once(
        lambda value: (
            pl.when(value.is_between(-(2.0**63), 2.0**63))
            .then(value)
            .cast(pl.Int64, wrap_numerical=True)
        ),
        BIGINT,
    )


def to_decimal(source: Type, target: Decimal) -> PolarsForm:
    """Return the form of a cast to a decimal: rounded half up, null where the target has too few
    digits."""
    type = to_polars(target)
    if source in FLOAT_TYPES:
        return compute_on_column(lambda value: double_to_decimal(value, target), target)
    if source == BOOLEAN:
        return lambda value: value.cast(pl.Int32).cast(type, strict=False)
    if source in INTEGER_TYPES:
        return lambda value: value.cast(type, strict=False)
    assert isinstance(source, Decimal)
    cut = source.scale - target.scale
    if cut <= 0:
        return lambda value: value.cast(type, strict=False)
    if source.precision < MAX_DIGITS:
        return lambda value: value.round(target.scale, mode="half_away_from_zero").cast(
            type, strict=False
        )
    return evaluate_once(
        lambda value: from_unscaled(round_half(to_unscaled(value), cut), target), target
    )


def to_double(target: Type) -> PolarsForm:
    """Return the form of a cast to the nearest float or double."""
    return lambda value: value.cast(to_polars(target))
