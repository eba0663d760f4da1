"""Covariance, correlation and linear regression, of the rows in which neither value is NULL.

The state has the count, both means, the sums of squared distances from them and of the products
of distances. States are merged as in `variance`. With an infinite value the result is NaN; in Spark
it may also be infinite, depending on the order of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.aggregates import counting, sums
from headrace.core.aggregates.accumulator import Accumulator, AccumulatorInput, BuildAccumulator
from headrace.core.aggregates.variance import compute_common_mean, compute_mean
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import AS_WRITTEN, NO_SPARK_FORM
from headrace.core.types.data_types import BIGINT, DOUBLE, Type, to_polars
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class PairMoments:
    """The columns of a state: `x` is the independent variable, `y` the dependent one."""

    count: pl.Expr
    mean_x: pl.Expr
    mean_y: pl.Expr
    squares_x: pl.Expr
    squares_y: pl.Expr
    products: pl.Expr


_STATE = (
    ("count", BIGINT),
    ("mean_x", DOUBLE),
    ("mean_y", DOUBLE),
    ("squares_x", DOUBLE),
    ("squares_y", DOUBLE),
    ("products", DOUBLE),
)


def _build_pairs(
    formula: Callable[[PairMoments], pl.Expr],
) -> BuildAccumulator:
    """Return the builder of an aggregate of y and x, in this order; NULL if there is no pair."""

    def finish(*state: pl.Expr) -> pl.Expr:
        import polars as pl

        moments = PairMoments(*state)
        return pl.when(moments.count > 0).then(formula(moments))

    def build(bound: BoundArguments) -> Accumulator:
        return Accumulator(
            state=_STATE, partial=_compute_partial, merge=_merge_states, finish=finish
        )

    return build


def _select_pairs(rows: AccumulatorInput) -> tuple[pl.Expr, pl.Expr]:
    """Return y and x, both NULL where one of them is."""
    import polars as pl

    y, x = rows.values
    both = y.is_not_null() & x.is_not_null()
    return pl.when(both).then(y), pl.when(both).then(x)


def _compute_partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
    y, x = _select_pairs(rows)
    mean_x, mean_y = compute_mean(x), compute_mean(y)
    dx, dy = x - mean_x, y - mean_y
    count = x.count().cast(to_polars(BIGINT))
    return count, mean_x, mean_y, (dx * dx).sum(), (dy * dy).sum(), (dx * dy).sum()


def _merge_states(*state: pl.Expr) -> tuple[pl.Expr, ...]:
    part = PairMoments(*state)
    mean_x = compute_common_mean(part.count, part.mean_x)
    mean_y = compute_common_mean(part.count, part.mean_y)
    dx, dy = part.mean_x - mean_x, part.mean_y - mean_y
    return (
        part.count.sum(),
        mean_x,
        mean_y,
        (part.squares_x + dx * dx * part.count).sum(),
        (part.squares_y + dy * dy * part.count).sum(),
        (part.products + dx * dy * part.count).sum(),
    )


def _divide(dividend: pl.Expr, divisor: pl.Expr) -> pl.Expr:
    """Divide as Spark does: NULL where the divisor is 0."""
    import polars as pl

    return pl.when(divisor != 0).then(dividend / divisor)


def _compute_coefficient(part: PairMoments) -> pl.Expr:
    return _divide(part.products, (part.squares_x * part.squares_y).sqrt())


def _correlate(part: PairMoments) -> pl.Expr:
    import polars as pl

    return pl.when(part.count > 1).then(_compute_coefficient(part))


def _determine(part: PairMoments) -> pl.Expr:
    import polars as pl

    root = _compute_coefficient(part)
    level = pl.when(part.squares_y == 0).then(1.0).otherwise(root * root)
    return pl.when(part.squares_x != 0).then(level)


def _slope(part: PairMoments) -> pl.Expr:
    return _divide(part.products, part.squares_x)


build_covar_pop = _build_pairs(lambda part: part.products / part.count)
build_covar_samp = _build_pairs(lambda part: _divide(part.products, part.count - 1))
build_corr = _build_pairs(_correlate)
build_regr_r2 = _build_pairs(_determine)
build_regr_slope = _build_pairs(_slope)
build_regr_intercept = _build_pairs(lambda part: part.mean_y - _slope(part) * part.mean_x)
build_regr_sxy = _build_pairs(lambda part: part.products)


def _take_pairs(accumulator: Accumulator, index: int) -> Accumulator:
    """Return an accumulator over one value of each pair."""

    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        value = _select_pairs(rows)[index]
        return accumulator.partial(AccumulatorInput((value,), rows.order, value.count()))

    return replace(accumulator, partial=partial)


def build_regr_count(bound: BoundArguments) -> Accumulator:
    """Build regr_count(y, x)."""
    return counting.build_value_count(bound)


def of_one_value(build: BuildAccumulator, index: int) -> BuildAccumulator:
    """Return the builder of an aggregate of y (0) or x (1) of each pair."""
    return lambda bound: _take_pairs(build(_select_argument(bound, index)), index)


def _average_type(index: int) -> Callable[[BoundArguments], Type]:
    return lambda bound: sums.avg_type(_select_argument(bound, index))


def _select_argument(bound: BoundArguments, index: int) -> BoundArguments:
    return BoundArguments((bound.arguments[index],), {}, bound.type_arguments, bound.result)


regr_avgy_type, regr_avgx_type = _average_type(0), _average_type(1)


def _spark_form(index: int) -> Callable[[BoundArguments], str]:
    def form(bound: BoundArguments) -> str:
        average = sums.spark_form_of_average(_select_argument(bound, index))
        if average in (AS_WRITTEN, NO_SPARK_FORM):
            return average
        pairs = "case when ({0}) is not null and ({1}) is not null then ({}) end"
        value = pairs.replace("{}", f"{{{index}}}")
        return average.replace("{distinct}", "").replace("{0}", value)

    return form


spark_form_of_regr_avgy, spark_form_of_regr_avgx = _spark_form(0), _spark_form(1)
