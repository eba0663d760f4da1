"""Variance and standard deviation: count, mean and the sum of squared distances from it.

States are merged by Chan's formula, all of a group in one step: the distances of the partial means
from the common mean are added to their own squares. Unlike with a sum of squares, no large numbers
are subtracted from each other. A mean lies between the least and the greatest value, whatever the
rounding; clipped to that range, equal values have a variance of exactly 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.aggregates.accumulator import Accumulator, AccumulatorInput, BuildAccumulator
from headrace.core.expressions.signature import BoundArguments
from headrace.core.types.data_types import BIGINT, DOUBLE, to_polars

if TYPE_CHECKING:
    import polars as pl


def _build_variance(*, sample: bool, root: bool) -> BuildAccumulator:
    def finish(count: pl.Expr, mean: pl.Expr, squares: pl.Expr) -> pl.Expr:
        import polars as pl

        least = 1 if sample else 0
        variance = pl.when(count > least).then(squares / (count - least))
        return variance.sqrt() if root else variance

    return lambda bound: _build(finish)


def build_squares(bound: BoundArguments) -> Accumulator:
    """Build the sum of the squared distances from the mean; NULL for no values."""
    import polars as pl

    return _build(lambda count, mean, squares: pl.when(count > 0).then(squares))


def _build(finish: Callable[[pl.Expr, pl.Expr, pl.Expr], pl.Expr]) -> Accumulator:
    return Accumulator(
        state=(("count", BIGINT), ("mean", DOUBLE), ("squares", DOUBLE)),
        partial=_compute_partial,
        merge=_merge_states,
        finish=finish,
    )


def compute_mean(value: pl.Expr) -> pl.Expr:
    """Return the mean of a group's values, exact if all are equal."""
    return value.mean().clip(value.min(), value.max())


def compute_common_mean(count: pl.Expr, mean: pl.Expr) -> pl.Expr:
    """Return the mean of all values of several parts, by their counts and means."""
    import polars as pl

    total = count.sum()
    centre = (mean * count).sum() / total
    return pl.when(total > 0).then(centre.clip(mean.min(), mean.max()))


def _compute_partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
    import polars as pl

    value = rows.value
    count = value.count().cast(to_polars(BIGINT))
    mean = compute_mean(value)
    squares = value.var(ddof=0) * count
    alike = value.min() == value.max()
    # Not 0.0: for infinities and NaN the result is NaN.
    return count, mean, pl.when(alike).then(mean - mean).otherwise(squares)


def _merge_states(count: pl.Expr, mean: pl.Expr, squares: pl.Expr) -> tuple[pl.Expr, ...]:
    common = compute_common_mean(count, mean)
    distance = mean - common
    return count.sum(), common, (squares + distance * distance * count).sum()


build_stddev_samp = _build_variance(sample=True, root=True)
build_stddev_pop = _build_variance(sample=False, root=True)
build_var_samp = _build_variance(sample=True, root=False)
build_var_pop = _build_variance(sample=False, root=False)
