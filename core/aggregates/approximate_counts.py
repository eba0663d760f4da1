"""HyperLogLog: the approximate number of distinct values, with a state of a fixed size.

Each value is hashed by Spark's `xxhash64`. The first bits of a hash name one of 2^p registers,
which has the greatest number of leading zeros of the other bits, plus 1. The state is the list of
the registers that are not empty, each as register * 64 + number; the union of two states has the
greater number of each register, so it depends neither on batches nor on the order of rows. The
estimate is Ertl's (arXiv:1702.01284, section 4), which needs no tables of corrections.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headrace.core.aggregates.accumulator import Accumulator, AccumulatorInput, explode_group_lists
from headrace.core.aggregates.aggregate import PREPARATION
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import ExpressionError, FunctionCall, PolarsForm
from headrace.core.types.data_types import BIGINT, INT, Array, to_polars

if TYPE_CHECKING:
    import polars as pl

DEFAULT_DEVIATION = 0.05
LEAST_BITS, MOST_BITS = 4, 16
_NUMBERS = 64
"""More than the greatest number of a register."""


def check_deviation(bound: BoundArguments) -> None:
    """Check that the relative standard deviation has a number of registers."""
    bits = _count_bits(bound)
    if bits is None or not LEAST_BITS <= bits <= MOST_BITS:
        actual = bound.constants[1]
        message = f"wanted a deviation from 0.005 to 0.39, got {actual!r}"
        if actual is None:
            message = "wanted a deviation from 0.005 to 0.39, got NULL"
        raise ExpressionError(message, bound.arguments[1].span)


def _count_bits(bound: BoundArguments) -> int | None:
    """Return the number of bits of a hash that name a register, as Spark chooses it."""
    deviation = bound.constants.get(1, DEFAULT_DEVIATION)
    if not isinstance(deviation, float) or not 0 < deviation < 1:
        return None
    return math.ceil(2 * math.log2(1.106 / deviation))


def replace_by_registers(bound: BoundArguments) -> BoundArguments:
    """Return the arguments with each value replaced by what it does to its register."""
    value, bits = bound.arguments[0], _count_bits(bound)
    assert bits is not None
    call = FunctionCall(
        INT, True, value.span, f"{PREPARATION}registers of {bits} bits", (value,), _form(bits)
    )
    return BoundArguments(
        (call, *bound.arguments[1:]), bound.constants, bound.type_arguments, bound.result
    )


def _form(bits: int) -> PolarsForm:
    def find_register(values: pl.Series) -> pl.Series:
        import polars as pl

        from headrace.core.expressions.functions.row_hashes import XxHash64, hash_column

        algorithm = XxHash64()
        hashes = hash_column(algorithm, values, algorithm.seed().new_from_index(0, len(values)))
        rest = hashes * 2**bits | 1 << (bits - 1)
        number = rest.to_frame("rest").select(pl.col("rest").bitwise_leading_zeros() + 1)["rest"]
        registers: pl.Series = (hashes // 2 ** (64 - bits)).cast(pl.Int32) * _NUMBERS + number.cast(
            pl.Int32
        )
        found: pl.Series = registers.set(values.is_null(), None)
        return found

    def form(value: pl.Expr) -> pl.Expr:
        return value.map_batches(find_register, return_dtype=to_polars(INT), is_elementwise=True)

    return form


def build_approximate_count(bound: BoundArguments) -> Accumulator:
    """Build approx_count_distinct(x), of the registers of the values."""
    bits = _count_bits(bound)
    assert bits is not None

    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        return (rows.value.drop_nulls().unique().implode().list.eval(_keep_greatest()),)

    return Accumulator(
        state=(("registers", Array(INT)),),
        partial=partial,
        merge=lambda registers: (
            explode_group_lists(registers).unique().implode().list.eval(_keep_greatest()),
        ),
        finish=lambda registers: _estimate(registers, 1 << bits),
        entries=1 << bits,
    )


def _keep_greatest() -> pl.Expr:
    """Return the greatest number of each register of a list."""
    import polars as pl

    ordered = pl.element().sort()
    register = ordered // _NUMBERS
    is_last = register.ne_missing(register.shift(-1))
    return ordered.filter(is_last)


def _estimate(registers: pl.Expr, size: int) -> pl.Expr:
    """Return Ertl's improved estimate; hashes of 64 bits never fill a register."""
    import polars as pl

    number = (pl.element() % _NUMBERS).cast(pl.Float64)
    powers = registers.list.agg(pl.lit(2.0).pow(-number).sum())
    count = registers.list.len()
    empty = (size - count.cast(pl.Float64)) / size
    inverse = powers + size * _sum_powers(empty, size)
    estimate = (size * size / (2 * math.log(2))) / inverse
    return pl.when(count > 0).then((estimate + 0.5).floor()).otherwise(0.0).cast(to_polars(BIGINT))


def _sum_powers(share: pl.Expr, size: int) -> pl.Expr:
    """Return x + x^2 + 2 x^4 + 4 x^8 + ..., until the terms vanish for any share below 1."""
    total = share
    for step in range(1, size.bit_length() + 7):
        total = total + share.pow(2.0**step) * 2.0 ** (step - 1)
    return total
