"""The table of aggregates that an `aggregate:` may call."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.aggregates import (
    approximate_counts,
    bit_aggregates,
    counting,
    interval_sums,
    min_max,
    ordered_aggregates,
    sums,
)
from headrace.core.aggregates.accumulator import BuildAccumulator
from headrace.core.aggregates.aggregate import (
    AggregateFunction,
    AggregateOverload,
    aggregate,
    overload,
)
from headrace.core.aggregates.counting import over_distinct
from headrace.core.aggregates.distributions_table import DISTRIBUTIONS
from headrace.core.aggregates.statistics_table import STATISTICS
from headrace.core.expressions.function import TypedCall
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import NO_SPARK_FORM
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
        distinct_hint="count(distinct column) counts different values",
        bind=_bind_count,
    ),
    aggregate(
        "count_if",
        "The number of rows in which a condition is true.",
        overload(
            "count_if(condition: boolean) -> bigint",
            counting.build_count_if,
            distinct=over_distinct(counting.build_count_if),
        ),
        example=("count_if(n > 1)", "2"),
        nullable=False,
    ),
    aggregate(
        "approx_count_distinct",
        "About the number of different values that are not NULL, with a relative standard deviation"
        " of at most 0.05, or of the one that is given (0.005 to 0.39). Its state has at most 2 KB,"
        " at 0.005 256 KB, however many values there are. Spark's estimate may be another number.",
        overload(
            "approx_count_distinct(value: T, [deviation: constant double]) -> bigint",
            approximate_counts.build_approximate_count,
            distinct=approximate_counts.build_approximate_count,
            check=approximate_counts.check_deviation,
            prepare=approximate_counts.replace_by_registers,
            spark=NO_SPARK_FORM,
        ),
        example=("approx_count_distinct(n)", "2"),
        nullable=False,
    ),
)


def _same_if_distinct(signature: str, build: BuildAccumulator) -> AggregateOverload:
    """Return an overload whose result is the same over distinct values."""
    return overload(signature, build, distinct=build)


def _interval_overloads(name: str, build: BuildAccumulator) -> Iterator[AggregateOverload]:
    """Yield the overloads of a sum or an average for both kinds of interval.

    A sum has the fields of what is summed, an average all of its kind.
    """
    for letter in "QY":
        yield overload(
            f"{name}(value: {letter}) -> {letter}",
            build,
            distinct=over_distinct(build),
            returns=None if name.endswith("sum") else interval_sums.interval_type,
            spark=NO_SPARK_FORM,
        )


_SUMS = (
    aggregate(
        "sum",
        "The sum of all values that are not NULL; NULL if there are none. The sum of integers is a"
        " bigint, which wraps around; of decimals a decimal with ten more digits (NULL past 38);"
        " of other numbers a double. Of intervals it is an interval; NULL where it is none.",
        overload(
            "sum(value: N) -> N",
            sums.build_sum,
            distinct=sums.build_distinct_sum,
            returns=sums.sum_type,
            spark=sums.spark_form_of_sum,
        ),
        *_interval_overloads("sum", interval_sums.build_sum),
        example=("sum(n)", "5"),
        more=(("sum(distinct n)", "3"), ("sum(x) filter (where ok)", "2.5")),
    ),
    aggregate(
        "avg",
        "The mean of all values that are not NULL; NULL if there are none. It is a double, or for"
        " decimals a decimal with four more digits after the point, rounded half up; of"
        " intervals an interval, rounded the same.",
        overload(
            "avg(value: N) -> N",
            sums.build_average,
            distinct=sums.build_distinct_average,
            returns=sums.avg_type,
            spark=sums.spark_form_of_average,
        ),
        *_interval_overloads("avg", interval_sums.build_average),
        example=("avg(n)", "1.6666666666666667"),
        more=(("avg(cast(n as decimal(3,1)))", "1.66667"),),
        aliases=("mean",),
    ),
    aggregate(
        "try_sum",
        "The sum of all values that are not NULL, as `sum` computes it, but NULL where the sum of"
        " integers is no bigint.",
        overload(
            "try_sum(value: N) -> N",
            sums.build_try_sum,
            distinct=over_distinct(sums.build_try_sum),
            returns=sums.sum_type,
            spark=sums.spark_form_of_try_sum,
        ),
        *_interval_overloads("try_sum", interval_sums.build_sum),
        example=("try_sum(9223372036854775807 + n * 0)", "NULL"),
        more=(("try_sum(n)", "5"),),
    ),
    aggregate(
        "try_avg",
        "The mean of all values that are not NULL: the same as `avg`, which is NULL where it has"
        " too many digits.",
        overload(
            "try_avg(value: N) -> N",
            sums.build_average,
            distinct=sums.build_distinct_average,
            returns=sums.avg_type,
            spark=sums.spark_form_of_average,
        ),
        *_interval_overloads("try_avg", interval_sums.build_average),
        example=("try_avg(n)", "1.6666666666666667"),
    ),
)

_BITS = tuple(
    aggregate(
        name,
        f"Bitwise {words} of all values that are not NULL; NULL if there are none.",
        overload(f"{name}(value: I) -> I", build, distinct=distinct),
        example=(f"{name}(n)", example),
    )
    for name, words, build, distinct, example in (
        ("bit_and", "and", bit_aggregates.build_bit_and, bit_aggregates.build_bit_and, "0"),
        ("bit_or", "or", bit_aggregates.build_bit_or, bit_aggregates.build_bit_or, "3"),
        (
            "bit_xor",
            "exclusive or",
            bit_aggregates.build_bit_xor,
            over_distinct(bit_aggregates.build_bit_xor),
            "1",
        ),
    )
)

_EXTREMES = (
    aggregate(
        "min",
        "The least value; NULL if there are none. NaN only if all values are NaN.",
        _same_if_distinct("min(value: O) -> O", min_max.build_min),
        example=("min(x)", "0.5"),
    ),
    aggregate(
        "max",
        "The greatest value; NULL if there are none. NaN is above all numbers.",
        _same_if_distinct("max(value: O) -> O", min_max.build_max),
        example=("max(s)", "c"),
    ),
    aggregate(
        "bool_and",
        "Whether a condition is true in every row, ignoring NULLs; NULL if it is NULL in all rows.",
        _same_if_distinct("bool_and(condition: boolean) -> boolean", min_max.build_bool_and),
        example=("bool_and(ok)", "false"),
        aliases=("every",),
    ),
    aggregate(
        "bool_or",
        "Whether a condition is true in some row; NULL if it is NULL in all rows.",
        _same_if_distinct("bool_or(condition: boolean) -> boolean", min_max.build_bool_or),
        example=("bool_or(ok)", "true"),
        aliases=("some", "any"),
    ),
)

_ORDERED = (
    aggregate(
        "first",
        f"The value of the first row, {_ORDER_TEXT}; with true, the first that is not NULL.",
        overload(
            "first(value: T, [ignore_nulls: constant boolean]) -> T",
            ordered_aggregates.build_first,
            distinct=ordered_aggregates.build_first,
            check=ordered_aggregates.check_null_flag,
            spark=ordered_aggregates.spark_form_of_first,
        ),
        example=("first(s)", "a"),
        aliases=("first_value", "any_value"),
    ),
    aggregate(
        "last",
        f"The value of the last row, {_ORDER_TEXT}; with true, the last that is not NULL.",
        overload(
            "last(value: T, [ignore_nulls: constant boolean]) -> T",
            ordered_aggregates.build_last,
            distinct=ordered_aggregates.build_last,
            check=ordered_aggregates.check_null_flag,
            spark=ordered_aggregates.spark_form_of_last,
        ),
        example=("last(n)", "NULL"),
        more=(("last(n, true)", "2"),),
        aliases=("last_value",),
    ),
    aggregate(
        "min_by",
        "The value in the row in which the other is least, ignoring NULLs of the other; if there"
        " are several, in the last of them. With a count, an array of the values of that many rows,"
        " best first.",
        overload(
            "min_by(value: T, by: C) -> T",
            ordered_aggregates.build_min_by,
            distinct=ordered_aggregates.build_min_by,
            spark=ordered_aggregates.SPARK_MIN_BY,
        ),
        overload(
            "min_by(value: T, by: C, count: constant int) -> array<T>",
            ordered_aggregates.build_min_by_values,
            check=ordered_aggregates.check_best_count,
            spark=ordered_aggregates.SPARK_MIN_BY_VALUES,
        ),
        example=("min_by(s, x)", "a"),
    ),
    aggregate(
        "max_by",
        "The value in the row in which the other is greatest, ignoring NULLs of the other; if there"
        " are several, in the last of them. With a count, an array of the values of that many rows,"
        " best first.",
        overload(
            "max_by(value: T, by: C) -> T",
            ordered_aggregates.build_max_by,
            distinct=ordered_aggregates.build_max_by,
            spark=ordered_aggregates.SPARK_MAX_BY,
        ),
        overload(
            "max_by(value: T, by: C, count: constant int) -> array<T>",
            ordered_aggregates.build_max_by_values,
            check=ordered_aggregates.check_best_count,
            spark=ordered_aggregates.SPARK_MAX_BY_VALUES,
        ),
        example=("max_by(n, s)", "NULL"),
        more=(("max_by(x, n)", "2.0"),),
    ),
    aggregate(
        "collect_list",
        f"All values that are not NULL, {_ORDER_TEXT}; with distinct each once, in ascending order;"
        " an empty array if there are none.",
        overload(
            "collect_list(value: T) -> array<T>",
            ordered_aggregates.build_collect_list,
            distinct=ordered_aggregates.build_distinct_list,
            spark_distinct=ordered_aggregates.SPARK_DISTINCT_LIST,
            spark=ordered_aggregates.SPARK_COLLECT_LIST,
        ),
        example=("collect_list(n)", "[1, 2, 2]"),
        aliases=("array_agg",),
        nullable=False,
    ),
    aggregate(
        "collect_set",
        "The distinct values that are not NULL, in ascending order; an empty array if there are"
        " none.",
        overload(
            "collect_set(value: C) -> array<C>",
            counting.build_collect_set,
            distinct=counting.build_collect_set,
            spark=counting.SPARK_COLLECT_SET,
        ),
        example=("collect_set(n)", "[1, 2]"),
        nullable=False,
    ),
    aggregate(
        "collect_union",
        "The distinct elements of all arrays that are not NULL, without NULL, in ascending order.",
        overload(
            "collect_union(values: array<C>) -> array<C>",
            counting.build_collect_union,
            distinct=counting.build_collect_union,
            spark=counting.SPARK_COLLECT_UNION,
        ),
        example=("collect_union(array(n, 1))", "[1, 2]"),
        nullable=False,
    ),
)

ALL_AGGREGATES: tuple[AggregateFunction, ...] = (
    *_COUNTS,
    *_SUMS,
    *_BITS,
    *_EXTREMES,
    *_ORDERED,
    *STATISTICS,
    *DISTRIBUTIONS,
)
"""Every aggregate once."""

AGGREGATES: dict[str, AggregateFunction] = {
    name: row for row in ALL_AGGREGATES for name in (row.name, *row.aliases)
}
"""Every aggregate by its lower-case name and by each alias."""
