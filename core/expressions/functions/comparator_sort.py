"""The sort of arrays by a comparator, for all arrays of a batch at once.

It is a merge sort from the bottom up, in which all merges of a level are done together: each
element finds its place among those of the run that its own is merged with by binary search. So the
comparator is evaluated once for each step of the search, over one pair for each element: for arrays
of n elements about log(n)² / 2 times. The sort is stable, as Spark's is.
"""

from __future__ import annotations

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


def sort_elements(rows: HigherOrderRows, comparator: CompiledLambda) -> pl.Series:
    """Return the arrays in order; NULL where the comparator gives NULL for two elements."""
    import polars as pl

    (arrays,) = rows.values
    counts = count_elements(arrays)
    sort = _MergeSort(rows, comparator)
    width = 1
    while width < find_largest(counts):
        sort.merge_runs(width)
        width *= 2
    failed = sum_by_row(sort.unknown, counts) > 0
    values = group_elements(sort.elements, counts)
    return pl.select(pl.when(arrays.is_not_null() & ~failed).then(values)).to_series()


class _MergeSort:
    """The elements of all arrays in their order so far."""

    def __init__(self, rows: HigherOrderRows, comparator: CompiledLambda) -> None:
        import polars as pl

        counts = count_elements(rows.values[0])
        self._outer = rows.outer
        self._comparator = comparator
        self._rows = number_rows(counts)
        self._positions = number_elements(counts).cast(pl.Int64)
        self._starts = (counts.cum_sum() - counts).gather(self._rows)
        self._counts = counts.gather(self._rows)
        self.elements = flatten_arrays(rows.values[0])
        self.unknown = pl.repeat(False, len(self._rows), dtype=pl.Boolean, eager=True)
        """At which elements a comparison was NULL."""

    def merge_runs(self, width: int) -> None:
        """Merge the sorted runs of this length in each array, two and two."""
        import polars as pl

        place = self._positions % (2 * width)
        is_right = place >= width
        first = self._starts + self._positions - place  # of the two runs
        length = pl.select(pl.min_horizontal(2 * width, self._counts - self._positions + place))
        others = pl.DataFrame(
            {
                "is_right": is_right,
                "first": pl.select(pl.when(is_right).then(first).otherwise(first + width)),
                "high": pl.select(
                    pl.when(is_right).then(width).otherwise((length.to_series() - width).clip(0))
                ),
            }
        )
        before = self._count_before(others)
        own = place.set(is_right, None).fill_null(place - width)
        order = (first + own + before).arg_sort()
        self.elements = self.elements.gather(order)

    def _count_before(self, others: pl.DataFrame) -> pl.Series:
        """Return how many elements of the other run come before each element."""
        import polars as pl

        low = pl.zeros(others.height, dtype=pl.Int64, eager=True)
        high = others["high"].cast(pl.Int64)
        while True:
            at = (low < high).arg_true()
            if not len(at):
                return low
            middle = (low.gather(at) + high.gather(at)) // 2
            probe = others["first"].gather(at) + middle
            is_right = others["is_right"].gather(at)
            is_later = self._compare(at, probe, is_right)
            # The elements of the left run come before their equals of the right run.
            goes_up = pl.select(pl.when(is_right).then(~is_later).otherwise(is_later)).to_series()
            low = low.scatter(at.filter(goes_up), middle.filter(goes_up) + 1)
            high = high.scatter(at.filter(~goes_up), middle.filter(~goes_up))

    def _compare(self, at: pl.Series, probe: pl.Series, is_right: pl.Series) -> pl.Series:
        """Return whether the element of the right run comes before that of the left run."""
        import polars as pl

        pairs = pl.DataFrame({"own": at.cast(pl.Int64), "other": probe, "is_right": is_right})
        right = pl.when("is_right").then("own").otherwise("other").alias("right")
        left = pl.when("is_right").then("other").otherwise("own").alias("left")
        sides = pairs.select(right, left)
        values = [self.elements.gather(sides[side]) for side in ("right", "left")]
        compared = self._comparator.evaluate(values, self._outer, self._rows.gather(at))
        self.unknown = self.unknown.scatter(at.filter(compared.is_null()), True)
        return compared.fill_null(0) < 0
