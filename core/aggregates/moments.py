"""Skewness and kurtosis: count, mean and the sums of the second to fourth powers of distances.

States are merged as in `variance`: each sum is moved from the mean of its own part to the common
mean, by the binomial formula, so no large numbers are subtracted from each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.aggregates.accumulator import Accumulator, AccumulatorInput
from headrace.core.aggregates.variance import compute_common_mean, compute_mean
from headrace.core.expressions.signature import BoundArguments
from headrace.core.types.data_types import BIGINT, DOUBLE, to_polars

if TYPE_CHECKING:
    import polars as pl

_STATE = (
    ("count", BIGINT),
    ("mean", DOUBLE),
    ("squares", DOUBLE),
    ("cubes", DOUBLE),
    ("fourths", DOUBLE),
)


def build_skewness(bound: BoundArguments) -> Accumulator:
    """Build skewness(x)."""
    return _build(
        lambda count, squares, cubes, _: (
            count.cast(to_polars(DOUBLE)).sqrt() * cubes / (squares * squares * squares).sqrt()
        )
    )


def build_kurtosis(bound: BoundArguments) -> Accumulator:
    """Build kurtosis(x): that of a normal distribution is 0."""
    return _build(
        lambda count, squares, _, fourths: (
            count.cast(to_polars(DOUBLE)) * fourths / (squares * squares) - 3.0
        )
    )


def _build(formula: Callable[[pl.Expr, pl.Expr, pl.Expr, pl.Expr], pl.Expr]) -> Accumulator:
    def finish(
        count: pl.Expr, mean: pl.Expr, squares: pl.Expr, cubes: pl.Expr, fourths: pl.Expr
    ) -> pl.Expr:
        import polars as pl

        spread = (count > 0) & (squares != 0.0)
        return pl.when(spread).then(formula(count, squares, cubes, fourths))

    return Accumulator(state=_STATE, partial=_compute_partial, merge=_merge_states, finish=finish)


def _compute_partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
    mean = compute_mean(rows.value)
    distance = rows.value - mean
    squares = distance * distance
    count = rows.value.count().cast(to_polars(BIGINT))
    cubes, fourths = squares * distance, squares * squares
    return count, mean, squares.sum(), cubes.sum(), fourths.sum()


def _merge_states(
    count: pl.Expr, mean: pl.Expr, squares: pl.Expr, cubes: pl.Expr, fourths: pl.Expr
) -> tuple[pl.Expr, ...]:
    common = compute_common_mean(count, mean)
    d = mean - common
    d2 = d * d
    return (
        count.sum(),
        common,
        (squares + d2 * count).sum(),
        (cubes + d * squares * 3.0 + d2 * d * count).sum(),
        (fourths + d * cubes * 4.0 + d2 * squares * 6.0 + d2 * d2 * count).sum(),
    )
