"""Bitwise and, or, exclusive or of integers; the value is its own partial state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.aggregates.accumulator import Accumulator
from headrace.core.expressions.signature import BoundArguments

if TYPE_CHECKING:
    import polars as pl


def _build_bitwise(
    name: str, step: Callable[[pl.Expr], pl.Expr], *, is_idempotent: bool = True
) -> Callable[[BoundArguments], Accumulator]:
    def build(bound: BoundArguments) -> Accumulator:
        return Accumulator(
            state=((name, bound.types[0]),),
            partial=lambda rows: (step(rows.value),),
            merge=lambda value: (step(value),),
            finish=lambda value: value,
            is_idempotent=is_idempotent,
        )

    return build


build_bit_and = _build_bitwise("and", lambda values: values.bitwise_and())
build_bit_or = _build_bitwise("or", lambda values: values.bitwise_or())
build_bit_xor = _build_bitwise("xor", lambda values: values.bitwise_xor(), is_idempotent=False)
