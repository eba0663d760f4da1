"""Random bits of a row: made by splitmix64 from a key and the row's place in the row order.

Tests: tests/core/expressions/functions/test_random_values.py.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from headrace.core.types.elements import ORDER

if TYPE_CHECKING:
    import polars as pl


def make_key(text: str) -> int:
    """Return the key that belongs to a text: 64 bits."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def make_row_bits(key: int) -> pl.Expr:
    """Return 64 random bits for each row, of its place without the event time."""
    import polars as pl

    at, part = (
        pl.col(ORDER).struct.field(name).cast(pl.UInt64, wrap_numerical=True)
        for name in ("at", "part")
    )
    return mix_bits(mix_bits(at ^ pl.lit(key, dtype=pl.UInt64), 0) ^ part, 1)


def mix_bits(bits: pl.Expr, number: int | pl.Expr) -> pl.Expr:
    """Return other random bits, made from these and a number (splitmix64)."""
    import polars as pl

    def u64(value: int) -> pl.Expr:
        return pl.lit(value % (1 << 64), dtype=pl.UInt64)

    gamma = u64(0x9E3779B97F4A7C15)
    z = bits + (u64(number + 1) if isinstance(number, int) else number + u64(1)) * gamma
    z = (z ^ (z // u64(1 << 30))) * u64(0xBF58476D1CE4E5B9)
    z = (z ^ (z // u64(1 << 27))) * u64(0x94D049BB133111EB)
    return z ^ (z // u64(1 << 31))


def make_fraction(bits: pl.Expr) -> pl.Expr:
    """Return a double from 0 up to, not including, 1, of random bits."""
    import polars as pl

    return (bits // (1 << 11)).cast(pl.Float64) / float(1 << 53)
