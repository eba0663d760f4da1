"""The order of arrays and structs, which Polars compares only by sorting them.

Values are compared element by element, or field by field; NULL is below all others inside of them,
and the beginning of an array is below the whole. Each value is replaced by its rank among all
values of the batch: ranks are numbers in the same order, and equal where the values are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from headrace.core.expressions.batch_forms import compute_on_column, compute_on_frame
from headrace.core.expressions.flat_arrays import (
    count_elements,
    flatten_arrays,
    group_elements,
    number_rows,
)
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import BOOLEAN, Type


def _rank_together(columns: Sequence[pl.Series]) -> list[pl.Series]:
    """Return the ranks of the values of columns of one type; NULL has none."""
    ranks = _rank(pl.concat([column.alias("rank") for column in columns]))
    ends = [sum(len(c) for c in columns[: at + 1]) for at in range(len(columns))]
    return [ranks.slice(end - len(c), len(c)) for c, end in zip(columns, ends, strict=True)]


def _rank(values: pl.Series) -> pl.Series:
    return values.rank("dense") if len(values) else pl.Series([], dtype=pl.UInt32)


def build_comparison(compare: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> PolarsForm:
    """Return the form of a comparison of two values by their ranks."""

    def compute(frame: pl.DataFrame) -> pl.Series:
        ranks = pl.DataFrame(
            [
                r.alias(name)
                for r, name in zip(_rank_together(frame.get_columns()), "lr", strict=True)
            ]
        )
        return ranks.select(compare(pl.col("l"), pl.col("r"))).to_series()

    return compute_on_frame(compute, BOOLEAN)


def build_extreme(result: Type, *, largest: bool) -> PolarsForm:
    """Return the form of the first of the largest or smallest of several values."""

    def compute(frame: pl.DataFrame) -> pl.Series:
        values = frame.get_columns()
        ranks = pl.DataFrame(
            [
                r.cast(pl.Int64).alias(c.name)
                for c, r in zip(values, _rank_together(values), strict=True)
            ]
        )
        names = ranks.columns
        best = (pl.max_horizontal if largest else pl.min_horizontal)(names)
        place = pl.coalesce(
            pl.when(pl.col(name) == pl.col("best")).then(at) for at, name in enumerate(names)
        )
        places = ranks.with_columns(best.alias("best")).select(place).to_series()
        chosen = [pl.when(pl.lit(places) == at).then(pl.col(c)) for at, c in enumerate(names)]
        return frame.select(pl.coalesce(chosen)).to_series()

    return compute_on_frame(compute, result)


def build_sort(result: Type, *, descending: bool, nulls_last: bool) -> PolarsForm:
    """Return the form of the arrays with their elements in order; equal ones stay as they are."""

    def compute(arrays: pl.Series) -> pl.Series:
        elements, counts = flatten_arrays(arrays), count_elements(arrays)
        frame = pl.DataFrame([number_rows(counts).alias("row"), _rank(elements).alias("rank")])
        order = pl.arg_sort_by(
            "row",
            "rank",
            descending=[False, descending],
            nulls_last=[False, nulls_last],
            maintain_order=True,
        )
        found = group_elements(elements.gather(frame.select(order).to_series()), counts)
        return pl.select(pl.when(arrays.is_not_null()).then(found)).to_series()

    return compute_on_column(compute, result)


def build_array_extreme(result: Type, *, largest: bool) -> PolarsForm:
    """Return the form of the first of the largest or smallest elements of an array."""

    def compute(arrays: pl.Series) -> pl.Series:
        elements, counts = flatten_arrays(arrays), count_elements(arrays)
        ranks = group_elements(_rank(elements), counts)
        place = ranks.list.arg_max() if largest else ranks.list.arg_min()
        return elements.gather(place.cast(pl.Int64) + counts.cum_sum() - counts)

    return compute_on_column(compute, result)
