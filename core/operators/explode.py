"""`explode`: a row for each element of an array.

Output batches are bounded, however long the arrays are: rows are exploded in runs, and a single
array that is too long in slices. Where rows carry their position in the row order, the rows of one
array are parts of the position of their origin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import ORDER
from headrace.core.expressions.typed import to_expr
from headrace.core.operators.operator import MAX_OUTPUT_ROWS, Output, StatelessOperator
from headrace.core.ordinals import number_parts
from headrace.core.plan import nodes

if TYPE_CHECKING:
    import polars as pl

ELEMENT_NUMBER = "__number"
"""The index of a row's element in its array."""


class ExplodeOperator(StatelessOperator):
    """The operator of `explode`.

    Rows without elements are dropped, or kept with a null if the step says `outer`.
    """

    def __init__(self, stream: str, operation: nodes.Explode) -> None:
        import polars as pl

        self._stream = stream
        self._name = operation.name
        self._outer = operation.outer
        self._array = to_expr(operation.array).alias(operation.name)
        # Rows may share arrays, so the elements of all rows together may exceed 32 bits.
        length = pl.col(operation.name).list.len().cast(pl.Int64).fill_null(0)
        numbers = pl.int_ranges(0, length)
        self._numbers = pl.when(pl.col(operation.name).is_not_null()).then(numbers)
        self._length = length.clip(lower_bound=1) if operation.outer else length

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the exploded rows, in bounded batches."""
        frame = frame.with_columns(self._array)
        lengths = frame.select(self._length).to_series()
        if lengths.sum() <= MAX_OUTPUT_ROWS:
            yield self._explode_rows(frame)
            return
        for start, count in _split_runs(lengths):
            piece = frame.slice(start, count)
            if count > 1 or lengths[start] <= MAX_OUTPUT_ROWS:
                yield self._explode_rows(piece)
            else:
                yield from self._emit_slices(piece, lengths[start])

    def _emit_slices(self, row: pl.DataFrame, length: int) -> Iterator[Output]:
        array = row[self._name]
        for at in range(0, length, MAX_OUTPUT_ROWS):
            yield self._explode_rows(row.with_columns(array.list.slice(at, MAX_OUTPUT_ROWS)), at)

    def _explode_rows(self, frame: pl.DataFrame, first: int = 0) -> Output:
        """Explode the rows; `first` is the index of each array's first element."""
        # An empty array and a null one are the same to Spark: a null if outer, else nothing.
        if ORDER not in frame.columns:
            return self._stream, self._explode_columns(frame, self._name)
        numbered = frame.with_columns(self._numbers.alias(ELEMENT_NUMBER))
        exploded = self._explode_columns(numbered, self._name, ELEMENT_NUMBER)
        number = exploded[ELEMENT_NUMBER].fill_null(0) + first
        return self._stream, number_parts(exploded.drop(ELEMENT_NUMBER), number)

    def _explode_columns(self, frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
        return frame.explode(columns, empty_as_null=self._outer, keep_nulls=self._outer)


def _split_runs(lengths: pl.Series) -> Iterator[tuple[int, int]]:
    """Iterate over runs of rows, as (first, count), of at most MAX_OUTPUT_ROWS elements each.

    A single row with more elements is a run of its own.
    """
    ends = lengths.cum_sum()
    start, done = 0, 0
    while start < len(ends):
        stop = int(ends.search_sorted(done + MAX_OUTPUT_ROWS, side="right"))
        stop = max(stop, start + 1)
        yield start, stop - start
        start, done = stop, int(ends[stop - 1])
