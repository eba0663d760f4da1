"""Aggregates over the values of matched rows, as Python functions.

A condition reads the sum or the greatest value of a few rows, for one tested row after the other: a
frame each time takes a thousand times as long. Each function gives the same value as Polars; sums
of doubles are computed by Polars, since their last digits depend on the order of the additions.

Tests: tests/core/operators/matches/test_value_folds.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.core.types.data_types import (
    BOOLEAN,
    DATE,
    FLOAT_TYPES,
    STRING,
    TIMESTAMP_TYPES,
    Type,
    is_integer,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl

ValueFold: TypeAlias = Callable[[list[Any]], Any]
"""The aggregate of values in the order of their rows; times are whole numbers."""


def build_value_fold(function: str, type: Type) -> ValueFold | None:
    """Return the function of an aggregate over values of this type; None if there is none."""
    is_number = is_integer(type) or type in FLOAT_TYPES
    match function:
        case "count":
            return _count
        case "sum" if is_integer(type):
            return _sum_integers
        case "sum" | "avg" if is_number:
            return partial(_sum_doubles, to_polars(type), function == "avg")
        case "min" | "max" if is_number or type in (BOOLEAN, DATE, STRING, *TIMESTAMP_TYPES):
            return partial(_find_extreme, min if function == "min" else max)
    return None


def _count(values: list[Any]) -> int:
    return sum(value is not None for value in values)


def _sum_integers(values: list[Any]) -> int | None:
    found = [value for value in values if value is not None]
    return (sum(found) + (1 << 63)) % (1 << 64) - (1 << 63) if found else None  # sums wrap around


def _sum_doubles(type: pl.DataType, is_mean: bool, values: list[Any]) -> float | None:
    import polars as pl

    column = pl.Series(values, dtype=type)
    count = len(column) - column.null_count()
    if not count:
        return None
    total = float(column.cast(pl.Float64).sum())
    return total / count if is_mean else total


def _find_extreme(find: Callable[..., Any], values: list[Any]) -> Any:
    # NaN is the greatest of numbers.
    found = [value for value in values if value is not None]
    return find(found, key=lambda value: (value != value, value)) if found else None
