"""Arrays of a batch as one flat column of elements, and back: work is done once for all of them.

Arrays are described by their lengths: the elements of a row are together, in the order of the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def count_elements(arrays: pl.Series) -> pl.Series:
    """Return the number of elements of each row; 0 for a NULL array."""
    import polars as pl

    return arrays.list.len().fill_null(0).cast(pl.Int64)


def flatten_arrays(arrays: pl.Series) -> pl.Series:
    """Return the elements of all arrays."""
    return arrays.explode(empty_as_null=False, keep_nulls=False)


def number_rows(counts: pl.Series) -> pl.Series:
    """Return the row of each element."""
    import polars as pl

    rows = pl.select(pl.int_range(len(counts), dtype=pl.Int64).repeat_by(counts)).to_series()
    return rows.explode(empty_as_null=False)


def number_elements(counts: pl.Series) -> pl.Series:
    """Return the index of each element in its array, from 0, as int."""
    return _count_up(counts).explode(empty_as_null=False)


def sum_by_row(values: pl.Series, counts: pl.Series) -> pl.Series:
    """Return the sum of whole numbers of the elements of each row."""
    import polars as pl

    sums = pl.concat([pl.Series([0], dtype=pl.Int64), values.cast(pl.Int64).cum_sum()])
    ends = counts.cum_sum()
    return sums.gather(ends) - sums.gather(ends - counts)


def group_elements(values: pl.Series, counts: pl.Series) -> pl.Series:
    """Return arrays of these lengths of the flat values."""
    import polars as pl

    taken = 0

    def take(indices: pl.Series) -> pl.Series:
        nonlocal taken
        start, taken = taken, taken + len(indices)
        return values.slice(start, len(indices))

    # Only `list.eval` makes lists of a column without copying it; a chunk is a call of it.
    take_values = pl.element().map_batches(take, return_dtype=values.dtype, is_elementwise=True)
    return pl.select(pl.lit(_count_up(counts)).list.eval(take_values)).to_series()


def _count_up(counts: pl.Series) -> pl.Series:
    import polars as pl

    counted = pl.select(pl.int_ranges(pl.lit(0), pl.lit(counts), dtype=pl.Int32)).to_series()
    return counted.rechunk()
