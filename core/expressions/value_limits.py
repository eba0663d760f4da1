"""Expressions with functions whose result may be far larger than their arguments.

Such a call has a `growth`: the size of each result, computed from the arguments. Sizes are computed
first, so that no memory is taken for a value above its limit. Only values that are used count: a
branch of `case` that is not taken for a row is not computed for it.

`BoundedExpressions` evaluates frames in slices in which the results of each call together stay
within its limit, and says which rows have a value above it. The limit is for each call: several
calls may take as much each. `typed.to_expr` compiles the same expressions to raise ValueTooLarge
instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.core.expressions.typed import (
    FunctionCall,
    TypedExpression,
    compile_limited,
    find_largest,
    format_excess,
)
from headrace.core.types.frames import select_columns

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True)
class SizeRecorder:
    """A check that records which rows have a value above the limit, and the sizes of the others.

    Where the values of a call for all rows together are above its limit, none is computed.
    """

    rows: int = 0
    excess: list[tuple[FunctionCall, pl.Series]] = field(default_factory=list)
    """The calls with values above their limit, and the sizes of their values."""
    oversized: list[tuple[int, pl.Series]] = field(default_factory=list)
    """The limits and sizes of the calls whose values are to be computed in slices."""

    def start(self, rows: int) -> None:
        """Start the evaluation of a frame with this number of rows."""
        self.rows, self.excess, self.oversized = rows, [], []

    def admit(self, call: FunctionCall, sizes: pl.Series) -> pl.Series | None:
        """Return the rows with values within the limit; none if they need slices."""
        assert call.growth is not None
        limit = call.growth.max_bytes
        if len(sizes) == 1 != self.rows:
            sizes = sizes.new_from_index(0, self.rows)
        within = None
        if find_largest(sizes) > limit:
            self.excess.append((call, sizes))
            within = sizes <= limit
            sizes = sizes.set(~within, 0)
        if self.rows > 1 and int(sizes.sum()) > limit:
            self.oversized.append((limit, sizes))
            return sizes < 0
        return within


@dataclass(frozen=True, slots=True)
class EvaluatedRows:
    """Rows of a frame, and the values of the expressions for them."""

    rows: pl.DataFrame
    values: pl.DataFrame
    excess: Mapping[int, str]
    """The rows, by index, with a value above the limit, each with the message."""


class BoundedExpressions:
    """Named expressions with growing calls, evaluated in slices."""

    def __init__(self, expressions: Mapping[str, TypedExpression]) -> None:
        self._recorder = SizeRecorder()
        self._exprs = [
            compile_limited(typed, self._recorder).alias(name)
            for name, typed in expressions.items()
        ]

    def evaluate(self, frame: pl.DataFrame) -> Iterator[EvaluatedRows]:
        """Yield the values of the rows, in slices in which the values of each call are together
        within its limit."""
        recorder = self._recorder
        recorder.start(frame.height)
        values = select_columns(frame, *self._exprs)
        if values.height != frame.height:  # every expression is a constant
            values = values.select(column.new_from_index(0, frame.height) for column in values)
        if not recorder.oversized:
            yield EvaluatedRows(frame, values, _collect_messages(recorder.excess))
            return
        limit, sizes = recorder.oversized[0]
        for start, count in _cut_slices(sizes, limit):
            yield from self.evaluate(frame.slice(start, count))


def _collect_messages(excess: Sequence[tuple[FunctionCall, pl.Series]]) -> Mapping[int, str]:
    """Return the message for each row with a value above the limit: of the first such call."""
    found: dict[int, str] = {}
    # Polars evaluates expressions in threads, so the calls are in any order.
    for call, sizes in sorted(excess, key=lambda each: (each[0].span.start, each[0].function)):
        assert call.growth is not None
        for row in (sizes > call.growth.max_bytes).arg_true():
            found.setdefault(row, format_excess(call, sizes[row]))
    return dict(sorted(found.items()))


def _cut_slices(sizes: pl.Series, limit: int) -> Iterator[tuple[int, int]]:
    """Yield runs of rows, as (first, count), whose sizes together are within the limit."""
    ends = sizes.cum_sum()
    start, done = 0, 0
    while start < len(ends):
        stop = max(int(ends.search_sorted(done + limit, side="right")), start + 1)
        yield start, stop - start
        start, done = stop, int(ends[stop - 1])
