"""Integer arithmetic with the semantics of Java: remainders, shifts, and sums that do not wrap."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from headrace.core.expressions.typed import PolarsForm

# 128 bits hold every sum, difference and product of bigints, so a cast back detects overflow.
WIDE_OPERATORS: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "+": lambda a, b: a.cast(pl.Int128) + b.cast(pl.Int128),
    "-": lambda a, b: a.cast(pl.Int128) - b.cast(pl.Int128),
    "*": lambda a, b: a.cast(pl.Int128) * b.cast(pl.Int128),
}


def truncating_remainder(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """Return the remainder of a truncating division; null where the divisor is zero."""
    return a - a.truncdiv(b) * b


def build_pmod(wide: pl.DataType, result: pl.DataType) -> PolarsForm:
    """Return the form of Spark's pmod; in the wider type the sum with the divisor may wrap."""

    def form(value: pl.Expr, divisor: pl.Expr) -> pl.Expr:
        a, b = value.cast(wide), divisor.cast(wide)
        rest = truncating_remainder(a, b)
        return (
            pl.when(rest < 0).then(truncating_remainder(rest + b, b)).otherwise(rest).cast(result)
        )

    return form


def build_shift(name: str, type: pl.DataType) -> PolarsForm:
    """Return the form of `<<`, `>>` or `>>>`; the count is its lowest five bits, or six for a
    bigint."""
    bits = 64 if type == pl.Int64 else 32
    unsigned = pl.UInt64() if bits == 64 else pl.UInt32()

    def power(count: pl.Expr, wide: pl.DataType) -> pl.Expr:
        return pl.lit(2, dtype=wide).pow(count & pl.lit(bits - 1, dtype=pl.Int32))

    forms: dict[str, PolarsForm] = {
        "<<": lambda value, count: value * power(count, type),
        ">>": lambda value, count: (value.cast(pl.Int128) // power(count, pl.Int128())).cast(type),
        ">>>": lambda value, count: (
            value.reinterpret(dtype=unsigned) // power(count, unsigned)
        ).reinterpret(dtype=type),
    }
    return forms[name]
