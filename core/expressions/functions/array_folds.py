"""The fold of `aggregate`: one evaluation of the merge for each index, over all rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.compiled_lambda import CompiledLambda, HigherOrderRows
from headrace.core.expressions.flat_arrays import (
    count_elements,
    flatten_arrays,
    number_rows,
    sum_by_row,
)
from headrace.core.expressions.value_sizes import measure_values

if TYPE_CHECKING:
    import polars as pl


def fold_elements(
    rows: HigherOrderRows, merge: CompiledLambda, finish: CompiledLambda | None = None
) -> pl.Series:
    """Return the last states, or what `finish` makes of them."""
    import polars as pl

    arrays, start = rows.values
    counts = count_elements(arrays)
    # With the longest array first, the rows that still have elements are the first ones.
    order = counts.arg_sort(descending=True).cast(pl.Int64)
    order = order.filter(arrays.is_not_null().gather(order))
    folded = _fold_sorted(rows, merge, order, start.gather(order))
    if finish is not None:
        folded = finish.evaluate([folded], rows.outer, order)
    places = pl.repeat(None, len(counts), dtype=pl.Int64, eager=True)
    return folded.gather(places.scatter(order, pl.int_range(len(order), eager=True)))


def sum_elements(
    rows: HigherOrderRows, term: CompiledLambda, finish: CompiledLambda | None = None
) -> pl.Series:
    """Return the same for a merge that adds a whole number for each element: wrapped sums have no
    order."""
    import polars as pl

    arrays, start = rows.values
    counts = count_elements(arrays)
    terms = term.evaluate([flatten_arrays(arrays)], rows.outer, number_rows(counts))
    sums = start.cast(pl.Int64) + sum_by_row(terms.fill_null(0), counts)
    known = arrays.is_not_null() & (sum_by_row(terms.is_null(), counts) == 0)
    wrapped = pl.lit(sums).cast(start.dtype, wrap_numerical=True)
    states = pl.select(pl.when(known).then(wrapped)).to_series()
    if finish is None:
        return states
    valid = arrays.is_not_null()
    finished = finish.evaluate([states], rows.outer, pl.int_range(len(states), eager=True))
    return pl.select(pl.when(valid).then(finished)).to_series()


def _fold_sorted(
    rows: HigherOrderRows,
    merge: CompiledLambda,
    order: pl.Series,
    states: pl.Series,
) -> pl.Series:
    """Return the last state of each row in this order."""
    import polars as pl

    counts = count_elements(rows.values[0])
    first = (counts.cum_sum() - counts).gather(order)
    counts, elements = counts.gather(order), flatten_arrays(rows.values[0])
    done: list[pl.Series] = []
    for index in range(counts[0] if len(counts) else 0):
        active = int(counts.search_sorted(index, side="left", descending=True))
        done.append(states.slice(active))
        values = elements.gather(first.head(active) + index)
        states = merge.evaluate([states.head(active), values], rows.outer, order.head(active))
        if merge.is_growing:
            states = _admit_states(merge, states, order.head(active), rows)
    return pl.concat([states, *reversed(done)])


def _admit_states(
    merge: CompiledLambda, states: pl.Series, order: pl.Series, rows: HigherOrderRows
) -> pl.Series:
    """Return the states that are within the limit, NULL for the others."""
    import polars as pl

    sizes = pl.zeros(len(rows.values[0]), dtype=pl.Int64, eager=True)
    sizes = sizes.scatter(order, measure_values(states))
    admitted = merge.admit(sizes)
    if admitted is None:
        return states
    return pl.select(pl.when(admitted.gather(order)).then(states)).to_series()
