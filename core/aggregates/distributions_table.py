"""The rows of the table of aggregates for percentiles, modes, histograms and lists of texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from headrace.core.aggregates import histograms, percentiles, text_lists
from headrace.core.aggregates.aggregate import (
    AggregateFunction,
    AggregateOverload,
    aggregate,
    overload,
)
from headrace.core.aggregates.counting import over_distinct
from headrace.core.aggregates.interval_sums import interval_type
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import NO_SPARK_FORM
from headrace.core.types.data_types import Type

Returns: TypeAlias = Callable[[BoundArguments], Type] | None
MakeOverload: TypeAlias = Callable[[str, str, str, Returns], AggregateOverload]

_STATE = "The state has each different value with its count."
_SHARES = ("percentage: constant double", "percentages: constant array<double>")
_RESULTS = ("double", "array<double>")


def _make_overloads(make: MakeOverload) -> list[AggregateOverload]:
    """Return an overload for numbers, and for each kind of interval; each for one share or more."""
    numbers = [
        make("N", shares, result, None) for shares, result in zip(_SHARES, _RESULTS, strict=True)
    ]
    intervals = [
        make(letter, shares, result.replace("double", letter), interval_type)
        for letter in "QY"
        for shares, result in zip(_SHARES, _RESULTS, strict=True)
    ]
    return [*numbers, *intervals]


def _percentile(value: str, shares: str, result: str, returns: Returns) -> AggregateOverload:
    build = percentiles.build_percentile()
    return overload(
        f"percentile(value: {value}, {shares}, [frequency: bigint]) -> {result}",
        build,
        distinct=over_distinct(build),
        returns=returns,
        check=percentiles.check_percentage(1),
        spark=percentiles.spark_form_of_percentile,
        spark_distinct=NO_SPARK_FORM,
    )


def _continuous(value: str, shares: str, result: str, returns: Returns) -> AggregateOverload:
    return overload(
        f"percentile_cont({shares}) within group (order by value: {value}) -> {result}",
        percentiles.build_percentile(0),
        returns=returns,
        check=percentiles.check_percentage(0),
    )


def _discrete(value: str, shares: str, result: str, returns: Returns) -> AggregateOverload:
    return overload(
        f"percentile_disc({shares}) within group (order by value: {value}) -> {result}",
        percentiles.build_discrete(0, is_double=True),
        returns=returns,
        check=percentiles.check_percentage(0),
    )


def _median(value: str, result: str, returns: Returns) -> AggregateOverload:
    return overload(
        f"median(value: {value}) -> {result}",
        percentiles.build_median,
        distinct=over_distinct(percentiles.build_median),
        returns=returns,
    )


def _approximation(value: str, shares: str, result: str) -> AggregateOverload:
    build = percentiles.build_discrete(1)
    return overload(
        f"percentile_approx(value: {value}, {shares}, [accuracy: constant bigint]) -> {result}",
        build,
        distinct=over_distinct(build),
        check=percentiles.check_approximation,
        spark=percentiles.spark_form_of_approximation,
    )


_PERCENTILES = (
    aggregate(
        "percentile",
        "The value below which is that share of all values, from 0 to 1, interpolated between two"
        " values; of an array of shares an array of values. Of intervals it is an interval. Each"
        f" value counts as often as the frequency says. {_STATE}",
        *_make_overloads(_percentile),
        example=("percentile(x, 0.25)", "1.0"),
        more=(("percentile(n, array(0.0, 0.5, 1.0))", "[1.0, 2.0, 2.0]"),),
    ),
    aggregate(
        "median",
        f"The value in the middle: percentile(value, 0.5). {_STATE}",
        _median("N", "double", None),
        *(_median(letter, letter, interval_type) for letter in "QY"),
        example=("median(x)", "1.5"),
    ),
    aggregate(
        "percentile_cont",
        f"The same as percentile, written as in the SQL standard. {_STATE}",
        *_make_overloads(_continuous),
        example=("percentile_cont(0.25) within group (order by x desc)", "1.75"),
        ordering="values",
    ),
    aggregate(
        "percentile_disc",
        f"The first value, in the order, at or before which is that share of all values. {_STATE}",
        *_make_overloads(_discrete),
        example=("percentile_disc(0.25) within group (order by x)", "0.5"),
        ordering="values",
    ),
    aggregate(
        "percentile_approx",
        "The least value at or below which is that share of all values, as one of the values. It"
        f" is exact, whatever the accuracy. {_STATE}",
        *(
            _approximation(value, shares, result.replace("double", value.removeprefix("exact ")))
            for value in ("N", "exact date", "timestamp", "Q", "Y")
            for shares, result in zip(_SHARES, _RESULTS, strict=True)
        ),
        example=("percentile_approx(n, 0.5)", "2"),
        more=(("percentile_approx(x, array(0.1, 0.9), 100)", "[0.5, 2.0]"),),
        aliases=("approx_percentile",),
    ),
    aggregate(
        "mode",
        "The most frequent value; of several the least, or the first in the order that is given."
        f" {_STATE}",
        overload(
            "mode(value: C, [deterministic: constant boolean]) -> C",
            percentiles.build_mode,
            check=percentiles.check_deterministic,
            spark=percentiles.spark_form_of_mode,
        ),
        overload(
            "mode() within group (order by value: C) -> C",
            percentiles.build_mode,
            spark=percentiles.spark_form_of_ordered_mode,
        ),
        example=("mode(n)", "2"),
        more=(("mode() within group (order by s desc)", "c"),),
        ordering="values",
    ),
    aggregate(
        "histogram_numeric",
        "A histogram: bins with the mean of their values as x and their number as y. The nearest"
        f" values are joined until there are that many bins at most. {_STATE}",
        overload(
            "histogram_numeric(value: N, bins: constant int) -> array<N>",
            histograms.build_histogram,
            returns=histograms.histogram_type,
            check=histograms.check_bins,
            spark=NO_SPARK_FORM,
        ),
        example=("histogram_numeric(x, 2)", "[{0.5, 1.0}, {1.75, 2.0}]"),
    ),
)

_TEXTS = (
    aggregate(
        "listagg",
        "All texts that are not NULL, joined with a delimiter between them; NULL if there are none."
        " They are in the order that is given, and rows of equal rank by event time, then by"
        " position in the source. With distinct each once, in ascending order.",
        *(
            overload(
                f"listagg(value: {type}, [delimiter: constant exact {type}]) -> {type}",
                text_lists.build_text_list,
                distinct=text_lists.build_distinct_text_list,
                check=text_lists.check_order,
                spark=text_lists.spark_form_of_text_list,
                spark_distinct=text_lists.spark_form_of_distinct_text_list,
            )
            for type in ("string", "binary")
        ),
        example=("listagg(s, ', ')", "a, b, c"),
        more=(
            ("listagg(s) within group (order by s desc)", "cba"),
            ("listagg(distinct s, '-')", "a-b-c"),
        ),
        aliases=("string_agg",),
        ordering="rows",
    ),
)

DISTRIBUTIONS: tuple[AggregateFunction, ...] = (*_PERCENTILES, *_TEXTS)
