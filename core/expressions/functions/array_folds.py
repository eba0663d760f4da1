"""The fold of `aggregate`: one evaluation of the merge for each index, over all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.expressions.compiled_lambda import CompiledLambda, HigherOrderRows
from headrace.core.expressions.flat_arrays import count_elements, flatten_arrays
from headrace.core.expressions.value_sizes import measure_values

if TYPE_CHECKING:
    import polars as pl


def build_fold(*, is_growing: bool) -> Callable[..., pl.Series]:
    """Return the computation of a fold; that of a growing one checks the size of each state."""

    def fold(
        rows: HigherOrderRows, merge: CompiledLambda, finish: CompiledLambda | None = None
    ) -> pl.Series:
        import polars as pl

        arrays, start = rows.values
        counts = count_elements(arrays)
        # With the longest array first, the rows that still have elements are the first ones.
        order = counts.arg_sort(descending=True).cast(pl.Int64)
        order = order.filter(arrays.is_not_null().gather(order))
        states = start.gather(order)
        folded = _fold_sorted(rows, merge, order, states, is_growing=is_growing)
        if finish is not None:
            folded = finish.evaluate([folded], rows.outer, order)
        places = pl.repeat(None, len(counts), dtype=pl.Int64, eager=True)
        return folded.gather(places.scatter(order, pl.int_range(len(order), eager=True)))

    return fold


def _fold_sorted(
    rows: HigherOrderRows,
    merge: CompiledLambda,
    order: pl.Series,
    states: pl.Series,
    *,
    is_growing: bool,
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
        if is_growing:
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
