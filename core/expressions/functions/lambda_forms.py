"""Computations of higher-order functions: each evaluates its lambda functions over flat elements.

Each takes the rows and the compiled lambda functions in the order of the call's arguments
(`compiled_lambda.build_higher_order_form`). A NULL array gives NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.expressions.compilation import find_largest
from headrace.core.expressions.compiled_lambda import CompiledLambda, HigherOrderRows
from headrace.core.expressions.flat_arrays import (
    count_elements,
    flatten_arrays,
    group_elements,
    number_elements,
    number_rows,
    sum_by_row,
)

if TYPE_CHECKING:
    import polars as pl


def transform_elements(rows: HigherOrderRows, function: CompiledLambda) -> pl.Series:
    """Return the arrays of the function's values."""
    (arrays,) = rows.values
    counts = count_elements(arrays)
    index = number_elements(counts) if function.reads_parameter(1) else None
    elements = [flatten_arrays(arrays), index]
    return _build_arrays(rows, function, elements, counts, arrays.is_not_null())


def filter_elements(rows: HigherOrderRows, condition: CompiledLambda) -> pl.Series:
    """Return the arrays of the elements for which the condition is true."""
    (arrays,) = rows.values
    found = _evaluate_elements(rows, arrays, condition).fill_null(False)
    counts = sum_by_row(found, count_elements(arrays))
    return _restore_nulls(group_elements(flatten_arrays(arrays).filter(found), counts), arrays)


def find_element(rows: HigherOrderRows, condition: CompiledLambda) -> pl.Series:
    """Return whether the condition is true for an element; NULL if it may be, for one with NULL."""
    return _search_elements(rows, condition, wanted=True)


def check_elements(rows: HigherOrderRows, condition: CompiledLambda) -> pl.Series:
    """Return whether the condition is true for all elements; NULL if it may be."""
    return _search_elements(rows, condition, wanted=False)


def _search_elements(
    rows: HigherOrderRows, condition: CompiledLambda, *, wanted: bool
) -> pl.Series:
    """Return `wanted` where the condition has this value for an element; otherwise NULL where it is
    NULL for one."""
    (arrays,) = rows.values
    if condition.may_fail:
        return _restore_nulls(_search_until_found(rows, arrays, condition, wanted), arrays)
    counts = count_elements(arrays)
    found = _evaluate_elements(rows, arrays, condition)
    known = found if wanted else ~found
    some = sum_by_row(known.fill_null(False), counts) > 0
    unknown = sum_by_row(found.is_null(), counts) > 0
    return _restore_nulls(_answer(some, unknown, wanted=wanted), arrays)


def _search_until_found(
    rows: HigherOrderRows, arrays: pl.Series, condition: CompiledLambda, wanted: bool
) -> pl.Series:
    """Return the answers, with no element evaluated after the one that decides its row."""
    import polars as pl

    elements, counts = flatten_arrays(arrays), count_elements(arrays)
    first = counts.cum_sum() - counts
    some, unknown = (pl.repeat(False, len(counts), eager=True) for _ in range(2))
    for at in range(find_largest(counts)):
        active = (~some & (counts > at)).arg_true().cast(pl.Int64)
        found = condition.evaluate([elements.gather(first.gather(active) + at)], rows.outer, active)
        some = some.scatter(active.filter((found == wanted).fill_null(False)), True)
        unknown = unknown.scatter(active.filter(found.is_null()), True)
    return _answer(some, unknown, wanted=wanted)


def _answer(some: pl.Series, unknown: pl.Series, *, wanted: bool) -> pl.Series:
    """Return `wanted` for the rows with an element of this value, NULL for others with a NULL."""
    import polars as pl

    return pl.select(pl.when(some).then(wanted).when(~unknown).then(not wanted)).to_series()


def zip_elements(rows: HigherOrderRows, function: CompiledLambda) -> pl.Series:
    """Return the arrays of the function's values for two elements each, NULL beyond an array."""
    import polars as pl

    left, right = rows.values
    valid = left.is_not_null() & right.is_not_null()
    counts = pl.DataFrame({"l": count_elements(left), "r": count_elements(right)})
    longest = counts.max_horizontal().set(~valid, 0)
    indices = pl.select(pl.int_ranges(pl.lit(0), pl.lit(longest))).to_series()
    sides = [flatten_arrays(side.list.gather(indices, null_on_oob=True)) for side in rows.values]
    return _build_arrays(rows, function, sides, longest, valid)


def _build_arrays(
    rows: HigherOrderRows,
    function: CompiledLambda,
    elements: Sequence[pl.Series | None],
    counts: pl.Series,
    valid: pl.Series,
) -> pl.Series:
    """Return the arrays of these lengths of the function's values, NULL where not valid."""
    if function.is_growing:
        values, admitted = function.evaluate_bounded(elements, rows.outer, number_rows(counts))
        valid = valid if admitted is None else valid & admitted
    else:
        values = function.evaluate(elements, rows.outer, number_rows(counts))
    arrays = group_elements(values, counts)
    return arrays if valid.all() else _keep_where(valid, arrays)


def _evaluate_elements(
    rows: HigherOrderRows, arrays: pl.Series, function: CompiledLambda
) -> pl.Series:
    """Return the function's values for all elements, of which a second parameter is the index."""
    counts = count_elements(arrays)
    index = number_elements(counts) if function.reads_parameter(1) else None
    return function.evaluate([flatten_arrays(arrays), index], rows.outer, number_rows(counts))


def _restore_nulls(values: pl.Series, arrays: pl.Series) -> pl.Series:
    return _keep_where(arrays.is_not_null(), values) if arrays.has_nulls() else values


def _keep_where(valid: pl.Series, values: pl.Series) -> pl.Series:
    import polars as pl

    return pl.select(pl.when(valid).then(values)).to_series()
