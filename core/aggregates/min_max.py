"""The least and the greatest, of values and of conditions; the value is its own partial state.

NaN is the greatest of numbers: `max` is NaN when one value is, `min` only when all are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.aggregates.accumulator import Accumulator
from headrace.core.expressions.signature import BoundArguments
from headrace.core.types.data_types import BOOLEAN, FLOAT_TYPES, Type, is_nested

if TYPE_CHECKING:
    import polars as pl


def _build_extreme(name: str, type: Type) -> Accumulator:
    def step(values: pl.Expr) -> tuple[pl.Expr]:
        if is_nested(type):  # Polars sorts arrays and structs, but has no least of them
            return (values.drop_nulls().sort(descending=name == "max").first(),)
        if name == "max":
            return (values.nan_max() if type in FLOAT_TYPES else values.max(),)
        return (values.min(),)

    return Accumulator(
        state=((name, type),),
        partial=lambda rows: step(rows.value),
        merge=step,
        finish=lambda value: value,
        is_idempotent=True,
    )


def build_min(bound: BoundArguments) -> Accumulator:
    """Build min(x)."""
    return _build_extreme("min", bound.types[0])


def build_max(bound: BoundArguments) -> Accumulator:
    """Build max(x)."""
    return _build_extreme("max", bound.types[0])


def build_bool_and(bound: BoundArguments) -> Accumulator:
    """Build bool_and(x): false is the least condition."""
    return _build_extreme("min", BOOLEAN)


def build_bool_or(bound: BoundArguments) -> Accumulator:
    """Build bool_or(x)."""
    return _build_extreme("max", BOOLEAN)
