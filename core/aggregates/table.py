"""The one table of aggregates: what an `aggregate:` may call, and what it means."""

from __future__ import annotations

from headrace.core.aggregates import counting, extremes, ordered, spread, sums
from headrace.core.aggregates.aggregate import Aggregate, aggregate, overload
from headrace.core.expressions.function import Call
from headrace.core.expressions.signature import Bound
from headrace.core.types import BIGINT

EXAMPLE_ROWS: dict[str, tuple[str, list[object]]] = {
    "n": ("int", [1, 2, 2, None]),
    "x": ("double", [0.5, None, 2.0, 1.5]),
    "s": ("string", ["a", "b", None, "c"]),
    "ok": ("boolean", [True, False, True, None]),
}
"""The rows over which the table's examples are computed: columns with their types and values."""


def _bind_count(call: Call) -> tuple[int, Bound]:
    """`count` takes arguments of any types, as they are; without one it is count(*)."""
    return int(bool(call.arguments)), Bound(call.arguments, {}, {}, BIGINT)


_SAME = "the result is the same without it"
_IN_ORDER = "by event time, then place in the source"

_COUNTS = (
    aggregate(
        "count",
        "How many rows there are, or in how many none of the values is NULL;"
        " with distinct how many different ones.",
        overload("count(*) -> bigint", counting.rows),
        overload(
            "count(value: T, more: U...) -> bigint",
            counting.present,
            distinct=counting.distinct,
        ),
        example=("count(*)", "4"),
        more=(
            ("count(n)", "3"),
            ("count(distinct n)", "2"),
            ("count(*) filter (where n > 1)", "2"),
        ),
        nullable=False,
        instead="count(distinct column) counts different values",
        bind=_bind_count,
    ),
    aggregate(
        "count_if",
        "In how many rows a condition is true.",
        overload("count_if(condition: boolean) -> bigint", counting.count_if),
        example=("count_if(n > 1)", "2"),
        nullable=False,
    ),
)

_SUMS = (
    aggregate(
        "sum",
        "The sum of all values that are not NULL; NULL when there is none. Whole numbers add up to"
        " a bigint, which wraps, decimals to one of ten more digits (NULL past 38), all else to a"
        " double.",
        overload(
            "sum(value: N) -> N",
            sums.total,
            distinct=sums.distinct_total,
            returns=sums.sum_type,
            spark=sums.spark_total,
        ),
        example=("sum(n)", "5"),
        more=(("sum(distinct n)", "3"), ("sum(x) filter (where ok)", "2.5")),
    ),
    aggregate(
        "avg",
        "The mean of all values that are not NULL; NULL when there is none. A double, and of"
        " decimals a decimal with four more digits after the point, rounded half up.",
        overload(
            "avg(value: N) -> N",
            sums.average,
            distinct=sums.distinct_average,
            returns=sums.avg_type,
            spark=sums.spark_average,
        ),
        example=("avg(n)", "1.6666666666666667"),
        more=(("avg(cast(n as decimal(3,1)))", "1.66667"),),
        aliases=("mean",),
    ),
)

_EXTREMES = (
    aggregate(
        "min",
        "The least value; NULL when there is none. NaN only when all are.",
        overload("min(value: C) -> C", extremes.least),
        example=("min(x)", "0.5"),
        instead=_SAME,
    ),
    aggregate(
        "max",
        "The greatest value; NULL when there is none. NaN is above all numbers.",
        overload("max(value: C) -> C", extremes.greatest),
        example=("max(s)", "c"),
        instead=_SAME,
    ),
    aggregate(
        "bool_and",
        "Whether a condition is true in every row in which it is not NULL; NULL when it always is.",
        overload("bool_and(condition: boolean) -> boolean", extremes.every),
        example=("bool_and(ok)", "false"),
        aliases=("every",),
        instead=_SAME,
    ),
    aggregate(
        "bool_or",
        "Whether a condition is true in some row; NULL when it always is NULL.",
        overload("bool_or(condition: boolean) -> boolean", extremes.some),
        example=("bool_or(ok)", "true"),
        aliases=("some", "any"),
        instead=_SAME,
    ),
)

_ORDERED = (
    aggregate(
        "first",
        f"The value of the first row, {_IN_ORDER}; with true, of the first that is not NULL.",
        overload(
            "first(value: T, [ignore_nulls: constant boolean]) -> T",
            ordered.first,
            check=ordered.check_flag,
            spark=ordered.spark_first,
        ),
        example=("first(s)", "a"),
        aliases=("first_value", "any_value"),
        instead=_SAME,
    ),
    aggregate(
        "last",
        f"The value of the last row, {_IN_ORDER}; with true, of the last that is not NULL.",
        overload(
            "last(value: T, [ignore_nulls: constant boolean]) -> T",
            ordered.last,
            check=ordered.check_flag,
            spark=ordered.spark_last,
        ),
        example=("last(n)", "NULL"),
        more=(("last(n, true)", "2"),),
        aliases=("last_value",),
        instead=_SAME,
    ),
    aggregate(
        "min_by",
        "The value in the row where the other is least, NULLs of the other left out; of several"
        " such rows the last.",
        overload("min_by(value: T, by: C) -> T", ordered.min_by, spark=ordered.SPARK_MIN_BY),
        example=("min_by(s, x)", "a"),
        instead=_SAME,
    ),
    aggregate(
        "max_by",
        "The value in the row where the other is greatest, NULLs of the other left out; of several"
        " such rows the last.",
        overload("max_by(value: T, by: C) -> T", ordered.max_by, spark=ordered.SPARK_MAX_BY),
        example=("max_by(n, s)", "NULL"),
        more=(("max_by(x, n)", "2.0"),),
        instead=_SAME,
    ),
    aggregate(
        "collect_list",
        f"All values that are not NULL, {_IN_ORDER}; an empty array when there is none.",
        overload(
            "collect_list(value: T) -> array<T>",
            ordered.collect_list,
            spark=ordered.SPARK_COLLECT_LIST,
        ),
        example=("collect_list(n)", "[1, 2, 2]"),
        aliases=("array_agg",),
        nullable=False,
        instead="collect_set(...) takes each value once",
    ),
    aggregate(
        "collect_set",
        "The different values that are not NULL, in ascending order; an empty array when there is"
        " none.",
        overload(
            "collect_set(value: C) -> array<C>",
            counting.collect_set,
            spark=counting.SPARK_COLLECT_SET,
        ),
        example=("collect_set(n)", "[1, 2]"),
        nullable=False,
        instead=_SAME,
    ),
)

_SPREAD_DISTINCT = "not built yet: a dedup step leaves each value once"
_SPREAD = (
    aggregate(
        "stddev_samp",
        "The standard deviation of a sample, divided by n - 1; NULL for less than two values.",
        overload("stddev_samp(value: double) -> double", spread.stddev_samp),
        example=("stddev_samp(n)", "0.5773502691896257"),
        aliases=("stddev", "std"),
        instead=_SPREAD_DISTINCT,
    ),
    aggregate(
        "stddev_pop",
        "The standard deviation of all there is, divided by n; NULL for no value.",
        overload("stddev_pop(value: double) -> double", spread.stddev_pop),
        example=("stddev_pop(n)", "0.4714045207910317"),
        instead=_SPREAD_DISTINCT,
    ),
    aggregate(
        "var_samp",
        "The variance of a sample, divided by n - 1; NULL for less than two values.",
        overload("var_samp(value: double) -> double", spread.var_samp),
        example=("var_samp(n)", "0.3333333333333333"),
        aliases=("variance",),
        instead=_SPREAD_DISTINCT,
    ),
    aggregate(
        "var_pop",
        "The variance of all there is, divided by n; NULL for no value.",
        overload("var_pop(value: double) -> double", spread.var_pop),
        example=("var_pop(n)", "0.2222222222222222"),
        instead=_SPREAD_DISTINCT,
    ),
)

ROWS: tuple[Aggregate, ...] = (*_COUNTS, *_SUMS, *_EXTREMES, *_ORDERED, *_SPREAD)
"""Every aggregate once."""

TABLE: dict[str, Aggregate] = {name: row for row in ROWS for name in (row.name, *row.aliases)}
"""Every row by its lower-case name and by each alias."""
