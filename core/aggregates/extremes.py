"""The least and the greatest, of values and of conditions; the value is its own partial state.

NaN is the greatest of numbers: `max` is NaN when one value is, `min` only when all are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.aggregates.triple import Triple
from headrace.core.expressions.signature import Bound
from headrace.core.types import BOOLEAN, FLOATS, Type

if TYPE_CHECKING:
    import polars as pl


def _extreme(name: str, type: Type) -> Triple:
    def step(values: pl.Expr) -> tuple[pl.Expr]:
        if name == "max":
            return (values.nan_max() if type in FLOATS else values.max(),)
        return (values.min(),)

    return Triple(
        state=((name, type),),
        partial=lambda rows: step(rows.value),
        merge=step,
        finish=lambda value: value,
    )


def least(bound: Bound) -> Triple:
    """Build min(x)."""
    return _extreme("min", bound.types[0])


def greatest(bound: Bound) -> Triple:
    """Build max(x)."""
    return _extreme("max", bound.types[0])


def every(bound: Bound) -> Triple:
    """Build bool_and(x): false is the least condition."""
    return _extreme("min", BOOLEAN)


def some(bound: Bound) -> Triple:
    """Build bool_or(x)."""
    return _extreme("max", BOOLEAN)
