"""`explode`: a row for each element of an array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.expressions.typed import to_expr
from headrace.core.operators.operator import MOST_ROWS, Output, Stateless
from headrace.core.plan import nodes

if TYPE_CHECKING:
    import polars as pl


class Explode(Stateless):
    """Rows without elements go, or stay with a null when the step says `outer`."""

    def __init__(self, stream: str, operation: nodes.Explode) -> None:
        self._stream = stream
        self._name = operation.name
        self._outer = operation.outer
        self._array = to_expr(operation.array).alias(operation.name)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """The exploded rows, in pieces of a bounded number of elements."""
        import polars as pl

        frame = frame.with_columns(self._array)
        lengths = frame[self._name].list.len().fill_null(0)
        if not self._outer:
            full = lengths > 0
            frame, lengths = frame.filter(full), lengths.filter(full)
        ends = lengths.clip(lower_bound=1).cast(pl.Int64).cum_sum()
        for start, count in _pieces(ends):
            yield (
                self._stream,
                frame.slice(start, count).explode(self._name, empty_as_null=True, keep_nulls=True),
            )


def _pieces(ends: pl.Series) -> Iterator[tuple[int, int]]:
    """Runs of rows, as (first, count), that make at most MOST_ROWS rows each where they can."""
    start, done = 0, 0
    while start < len(ends):
        stop = int(ends.search_sorted(done + MOST_ROWS, side="right"))
        stop = max(stop, start + 1)
        yield start, stop - start
        start, done = stop, int(ends[stop - 1])
