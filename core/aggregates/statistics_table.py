"""The rows of the table of aggregates for variances, higher moments, and pairs of variables."""

from __future__ import annotations

from headrace.core.aggregates import moments, pair_moments, sums, variance
from headrace.core.aggregates.accumulator import BuildAccumulator
from headrace.core.aggregates.aggregate import AggregateFunction, aggregate, overload
from headrace.core.aggregates.counting import build_distinct_count, over_distinct
from headrace.core.aggregates.pair_moments import of_one_value


def _of_values(
    name: str,
    doc: str,
    build: BuildAccumulator,
    example: tuple[str, str],
    aliases: tuple[str, ...] = (),
) -> AggregateFunction:
    """Define an aggregate of one column of doubles."""
    signature = f"{name}(value: double) -> double"
    distinct = over_distinct(build)
    return aggregate(
        name, doc, overload(signature, build, distinct=distinct), example=example, aliases=aliases
    )


_VARIANCES = (
    _of_values(
        "stddev_samp",
        "The standard deviation of a sample, with the divisor n - 1; NULL for fewer than two"
        " values.",
        variance.build_stddev_samp,
        ("stddev_samp(n)", "0.5773502691896257"),
        ("stddev", "std"),
    ),
    _of_values(
        "stddev_pop",
        "The standard deviation of a population, with the divisor n; NULL for no values.",
        variance.build_stddev_pop,
        ("stddev_pop(n)", "0.4714045207910317"),
    ),
    _of_values(
        "var_samp",
        "The variance of a sample, with the divisor n - 1; NULL for fewer than two values.",
        variance.build_var_samp,
        ("var_samp(n)", "0.3333333333333333"),
        ("variance",),
    ),
    _of_values(
        "var_pop",
        "The variance of a population, with the divisor n; NULL for no values.",
        variance.build_var_pop,
        ("var_pop(n)", "0.2222222222222222"),
    ),
    _of_values(
        "skewness",
        "The skewness of a population: 0 for a symmetric one, positive for one with a long tail of"
        " great values; NULL if all values are equal.",
        moments.build_skewness,
        ("round(skewness(x), 6)", "-0.381802"),
    ),
    _of_values(
        "kurtosis",
        "The excess kurtosis of a population: 0 for a normal distribution, positive for one with"
        " long tails; NULL if all values are equal.",
        moments.build_kurtosis,
        ("round(kurtosis(x), 6)", "-1.5"),
    ),
)


def _of_pairs(
    name: str, doc: str, build: BuildAccumulator, result: str, names: str = "y: double, x: double"
) -> AggregateFunction:
    """Define an aggregate of the rows in which neither value is NULL."""
    signature = f"{name}({names}) -> double"
    example = (f"{name}(n, x)", result)
    distinct = over_distinct(build)
    return aggregate(name, doc, overload(signature, build, distinct=distinct), example=example)


_EITHER_WAY = "x: double, y: double"
_PAIRS = (
    _of_pairs(
        "covar_pop",
        "The covariance of a population, with the divisor n, of the rows in which neither value is"
        " NULL.",
        pair_moments.build_covar_pop,
        "0.375",
        _EITHER_WAY,
    ),
    _of_pairs(
        "covar_samp",
        "The covariance of a sample, with the divisor n - 1; NULL for fewer than two rows.",
        pair_moments.build_covar_samp,
        "0.75",
        _EITHER_WAY,
    ),
    _of_pairs(
        "corr",
        "Pearson's coefficient of correlation, from -1 to 1, of the rows in which neither value is"
        " NULL; NULL if one of the values is the same in all of them.",
        pair_moments.build_corr,
        "1.0",
        _EITHER_WAY,
    ),
    aggregate(
        "regr_count",
        "The number of rows in which neither value is NULL.",
        overload(
            "regr_count(y: double, x: double) -> bigint",
            pair_moments.build_regr_count,
            distinct=build_distinct_count,
        ),
        example=("regr_count(n, x)", "2"),
        nullable=False,
    ),
    aggregate(
        "regr_avgx",
        "The mean of x, of the rows in which neither value is NULL, of the type that `avg` has.",
        overload(
            "regr_avgx(y: double, x: N) -> N",
            of_one_value(sums.build_average, 1),
            distinct=of_one_value(sums.build_distinct_average, 1),
            returns=pair_moments.regr_avgx_type,
            spark=pair_moments.spark_form_of_regr_avgx,
        ),
        example=("regr_avgx(n, x)", "1.25"),
    ),
    aggregate(
        "regr_avgy",
        "The mean of y, of the rows in which neither value is NULL, of the type that `avg` has.",
        overload(
            "regr_avgy(y: N, x: double) -> N",
            of_one_value(sums.build_average, 0),
            distinct=of_one_value(sums.build_distinct_average, 0),
            returns=pair_moments.regr_avgy_type,
            spark=pair_moments.spark_form_of_regr_avgy,
        ),
        example=("regr_avgy(n, x)", "1.5"),
    ),
    _of_pairs(
        "regr_slope",
        "The slope of the line that fits y by x with the least squares; NULL if x has one value.",
        pair_moments.build_regr_slope,
        "0.6666666666666666",
    ),
    _of_pairs(
        "regr_intercept",
        "The y at which that line is at x = 0; NULL if x has one value.",
        pair_moments.build_regr_intercept,
        "0.6666666666666667",
    ),
    _of_pairs(
        "regr_r2",
        "The coefficient of determination of that line, from 0 to 1; NULL if x has one value.",
        pair_moments.build_regr_r2,
        "1.0",
    ),
    aggregate(
        "regr_sxx",
        "The sum of the squared distances of x from its mean.",
        overload(
            "regr_sxx(y: double, x: double) -> double",
            of_one_value(variance.build_squares, 1),
            distinct=of_one_value(over_distinct(variance.build_squares), 1),
        ),
        example=("regr_sxx(n, x)", "1.125"),
    ),
    aggregate(
        "regr_syy",
        "The sum of the squared distances of y from its mean.",
        overload(
            "regr_syy(y: double, x: double) -> double",
            of_one_value(variance.build_squares, 0),
            distinct=of_one_value(over_distinct(variance.build_squares), 0),
        ),
        example=("regr_syy(n, x)", "0.5"),
    ),
    _of_pairs(
        "regr_sxy",
        "The sum of the products of the distances of x and y from their means.",
        pair_moments.build_regr_sxy,
        "0.75",
    ),
)

STATISTICS: tuple[AggregateFunction, ...] = (*_VARIANCES, *_PAIRS)
