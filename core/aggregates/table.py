"""The table of aggregates that an `aggregate:` may call."""

from __future__ import annotations

from headrace.core.aggregates import counting, min_max, ordered_aggregates, sums, variance
from headrace.core.aggregates.aggregate import AggregateFunction, aggregate, overload
from headrace.core.expressions.function import TypedCall
from headrace.core.expressions.signature import BoundArguments
from headrace.core.types.data_types import BIGINT

EXAMPLE_ROWS: dict[str, tuple[str, list[object]]] = {
    "n": ("int", [1, 2, 2, None]),
    "x": ("double", [0.5, None, 2.0, 1.5]),
    "s": ("string", ["a", "b", None, "c"]),
    "ok": ("boolean", [True, False, True, None]),
}
"""The rows of the examples in the table: columns with their types and values."""


def _bind_count(call: TypedCall) -> tuple[int, BoundArguments]:
    """Bind `count` to arguments of any types, as they are; without arguments it is count(*)."""
    return int(bool(call.arguments)), BoundArguments(call.arguments, {}, {}, BIGINT)


_SAME_RESULT_HINT = "the result is the same without it"
_ORDER_TEXT = "by event time, then by position in the source"

_COUNTS = (
    aggregate(
        "count",
        "The number of rows, or of rows in which none of the values is NULL; with distinct, of"
        " different values.",
        overload("count(*) -> bigint", counting.build_row_count),
        overload(
            "count(value: T, more: U...) -> bigint",
            counting.build_value_count,
            distinct=counting.build_distinct_count,
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
        "The number of rows in which a condition is true.",
        overload("count_if(condition: boolean) -> bigint", counting.build_count_if),
        example=("count_if(n > 1)", "2"),
        nullable=False,
    ),
)

_SUMS = (
    aggregate(
        "sum",
        "The sum of all values that are not NULL; NULL if there are none. The sum of integers is a"
        " bigint, which wraps around; of decimals a decimal with ten more digits (NULL past 38);"
        " of other numbers a double.",
        overload(
            "sum(value: N) -> N",
            sums.build_sum,
            distinct=sums.build_distinct_sum,
            returns=sums.sum_type,
            spark=sums.spark_form_of_sum,
        ),
        example=("sum(n)", "5"),
        more=(("sum(distinct n)", "3"), ("sum(x) filter (where ok)", "2.5")),
    ),
    aggregate(
        "avg",
        "The mean of all values that are not NULL; NULL if there are none. It is a double, or for"
        " decimals a decimal with four more digits after the point, rounded half up.",
        overload(
            "avg(value: N) -> N",
            sums.build_average,
            distinct=sums.build_distinct_average,
            returns=sums.avg_type,
            spark=sums.spark_form_of_average,
        ),
        example=("avg(n)", "1.6666666666666667"),
        more=(("avg(cast(n as decimal(3,1)))", "1.66667"),),
        aliases=("mean",),
    ),
)

_EXTREMES = (
    aggregate(
        "min",
        "The least value; NULL if there are none. NaN only if all values are NaN.",
        overload("min(value: C) -> C", min_max.build_min),
        example=("min(x)", "0.5"),
        instead=_SAME_RESULT_HINT,
    ),
    aggregate(
        "max",
        "The greatest value; NULL if there are none. NaN is above all numbers.",
        overload("max(value: C) -> C", min_max.build_max),
        example=("max(s)", "c"),
        instead=_SAME_RESULT_HINT,
    ),
    aggregate(
        "bool_and",
        "Whether a condition is true in every row, ignoring NULLs; NULL if it is NULL in all rows.",
        overload("bool_and(condition: boolean) -> boolean", min_max.build_bool_and),
        example=("bool_and(ok)", "false"),
        aliases=("every",),
        instead=_SAME_RESULT_HINT,
    ),
    aggregate(
        "bool_or",
        "Whether a condition is true in some row; NULL if it is NULL in all rows.",
        overload("bool_or(condition: boolean) -> boolean", min_max.build_bool_or),
        example=("bool_or(ok)", "true"),
        aliases=("some", "any"),
        instead=_SAME_RESULT_HINT,
    ),
)

_ORDERED = (
    aggregate(
        "first",
        f"The value of the first row, {_ORDER_TEXT}; with true, the first that is not NULL.",
        overload(
            "first(value: T, [ignore_nulls: constant boolean]) -> T",
            ordered_aggregates.build_first,
            check=ordered_aggregates.check_null_flag,
            spark=ordered_aggregates.spark_form_of_first,
        ),
        example=("first(s)", "a"),
        aliases=("first_value", "any_value"),
        instead=_SAME_RESULT_HINT,
    ),
    aggregate(
        "last",
        f"The value of the last row, {_ORDER_TEXT}; with true, the last that is not NULL.",
        overload(
            "last(value: T, [ignore_nulls: constant boolean]) -> T",
            ordered_aggregates.build_last,
            check=ordered_aggregates.check_null_flag,
            spark=ordered_aggregates.spark_form_of_last,
        ),
        example=("last(n)", "NULL"),
        more=(("last(n, true)", "2"),),
        aliases=("last_value",),
        instead=_SAME_RESULT_HINT,
    ),
    aggregate(
        "min_by",
        "The value in the row in which the other is least, ignoring NULLs of the other; if there"
        " are several, in the last of them.",
        overload(
            "min_by(value: T, by: C) -> T",
            ordered_aggregates.build_min_by,
            spark=ordered_aggregates.SPARK_MIN_BY,
        ),
        example=("min_by(s, x)", "a"),
        instead=_SAME_RESULT_HINT,
    ),
    aggregate(
        "max_by",
        "The value in the row in which the other is greatest, ignoring NULLs of the other; if there"
        " are several, in the last of them.",
        overload(
            "max_by(value: T, by: C) -> T",
            ordered_aggregates.build_max_by,
            spark=ordered_aggregates.SPARK_MAX_BY,
        ),
        example=("max_by(n, s)", "NULL"),
        more=(("max_by(x, n)", "2.0"),),
        instead=_SAME_RESULT_HINT,
    ),
    aggregate(
        "collect_list",
        f"All values that are not NULL, {_ORDER_TEXT}; an empty array if there are none.",
        overload(
            "collect_list(value: T) -> array<T>",
            ordered_aggregates.build_collect_list,
            spark=ordered_aggregates.SPARK_COLLECT_LIST,
        ),
        example=("collect_list(n)", "[1, 2, 2]"),
        aliases=("array_agg",),
        nullable=False,
        instead="collect_set(...) returns each value once",
    ),
    aggregate(
        "collect_set",
        "The distinct values that are not NULL, in ascending order; an empty array if there are"
        " none.",
        overload(
            "collect_set(value: C) -> array<C>",
            counting.build_collect_set,
            spark=counting.SPARK_COLLECT_SET,
        ),
        example=("collect_set(n)", "[1, 2]"),
        nullable=False,
        instead=_SAME_RESULT_HINT,
    ),
)

_NO_DISTINCT_HINT = "not built yet: a dedup step keeps each value once"
_VARIANCES = (
    aggregate(
        "stddev_samp",
        "The standard deviation of a sample, with the divisor n - 1; NULL for fewer than two"
        " values.",
        overload("stddev_samp(value: double) -> double", variance.build_stddev_samp),
        example=("stddev_samp(n)", "0.5773502691896257"),
        aliases=("stddev", "std"),
        instead=_NO_DISTINCT_HINT,
    ),
    aggregate(
        "stddev_pop",
        "The standard deviation of a population, with the divisor n; NULL for no values.",
        overload("stddev_pop(value: double) -> double", variance.build_stddev_pop),
        example=("stddev_pop(n)", "0.4714045207910317"),
        instead=_NO_DISTINCT_HINT,
    ),
    aggregate(
        "var_samp",
        "The variance of a sample, with the divisor n - 1; NULL for fewer than two values.",
        overload("var_samp(value: double) -> double", variance.build_var_samp),
        example=("var_samp(n)", "0.3333333333333333"),
        aliases=("variance",),
        instead=_NO_DISTINCT_HINT,
    ),
    aggregate(
        "var_pop",
        "The variance of a population, with the divisor n; NULL for no values.",
        overload("var_pop(value: double) -> double", variance.build_var_pop),
        example=("var_pop(n)", "0.2222222222222222"),
        instead=_NO_DISTINCT_HINT,
    ),
)

ALL_AGGREGATES: tuple[AggregateFunction, ...] = (
    *_COUNTS,
    *_SUMS,
    *_EXTREMES,
    *_ORDERED,
    *_VARIANCES,
)
"""Every aggregate once."""

AGGREGATES: dict[str, AggregateFunction] = {
    name: row for row in ALL_AGGREGATES for name in (row.name, *row.aliases)
}
"""Every aggregate by its lower-case name and by each alias."""
