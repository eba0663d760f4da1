"""Expressions with calls that may fail for a row, evaluated with a record of the rows that fail.

There are two kinds of such calls. One with a `failure` gives the reason in each row in which it
fails: `raise_error`. One with a `growth` may have a result far larger than its arguments: it fails
above a limit. Sizes are computed first, so that no memory is taken for a value above it. Only calls
that are used count: a branch of `case` that is not taken for a row is not computed for it.

`CheckedExpressions` evaluates frames in slices in which the results of each growing call together
stay within its limit, and says which rows fail. The limit is for each call: several calls may take
as much each. `typed.to_expr` compiles the same expressions to raise an ExpressionFailure instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from headrace.core.errors.value_errors import ExpressionFailure, ValueTooLarge
from headrace.core.expressions.compilation import (
    compile_checked,
    find_largest,
    format_excess,
    format_failure,
)
from headrace.core.expressions.typed import FunctionCall, TypedExpression
from headrace.core.expressions.value_sizes import cut_pieces
from headrace.core.types.frames import select_columns
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True)
class FailureRecorder:
    """A check that records the rows in which the calls of an expression fail.

    Where the values of a growing call for all rows together are above its limit, none is computed.
    """

    rows: int = 0
    failures: dict[int, ExpressionFailure] = field(default_factory=dict)
    """The first failure of each row that fails, by its index."""
    oversized: list[tuple[int, pl.Series]] = field(default_factory=list)
    """The limits and sizes of the calls whose values are to be computed in slices."""

    def start(self, rows: int) -> None:
        """Start the evaluation of a frame with this number of rows."""
        self.rows, self.failures, self.oversized = rows, {}, []

    def reject(self, call: FunctionCall, reasons: pl.Series) -> None:
        """Record the rows in which the call fails: those with a reason."""
        reasons = self._fill_rows(reasons)
        failed = reasons.is_not_null().arg_true()
        for row, reason in zip(failed, reasons.gather(failed), strict=True):
            self.failures.setdefault(row, ExpressionFailure(format_failure(call, reason)))

    def admit(self, call: FunctionCall, sizes: pl.Series) -> pl.Series | None:
        """Return the rows with values within the limit; none if they need slices."""
        assert call.growth is not None
        limit = call.growth.max_bytes
        sizes = self._fill_rows(sizes)
        within = None
        if find_largest(sizes) > limit:
            within = sizes <= limit
            for row in (~within).arg_true():
                self.failures.setdefault(row, ValueTooLarge(format_excess(call, sizes[row])))
            sizes = sizes.set(~within, 0)
        if self.rows > 1 and int(sizes.sum()) > limit:
            self.oversized.append((limit, sizes))
            return sizes < 0
        return within

    def _fill_rows(self, values: pl.Series) -> pl.Series:
        """Return the values for all rows: those of constants are the same for each."""
        return values.new_from_index(0, self.rows) if len(values) == 1 != self.rows else values


@dataclass(frozen=True, slots=True)
class EvaluatedRows:
    """Rows of a frame, and the values of the expressions for them."""

    rows: pl.DataFrame
    values: pl.DataFrame
    failures: Mapping[str, Mapping[int, ExpressionFailure]]
    """The rows that fail, by index, for each expression that fails."""


class CheckedExpressions:
    """Named expressions that may fail, evaluated in slices."""

    def __init__(self, expressions: Mapping[str, TypedExpression]) -> None:
        # Polars evaluates expressions in threads, so each has a recorder of its own.
        self._recorders = {name: FailureRecorder() for name in expressions}
        self._exprs = [
            compile_checked(typed, self._recorders[name]).alias(name)
            for name, typed in expressions.items()
        ]

    def evaluate(self, frame: pl.DataFrame) -> Iterator[EvaluatedRows]:
        """Yield the values of the rows, in slices in which the values of each growing call are
        together within its limit."""
        for recorder in self._recorders.values():
            recorder.start(frame.height)
        values = select_columns(frame, *self._exprs)
        if values.height != frame.height:  # every expression is a constant
            values = values.select(column.new_from_index(0, frame.height) for column in values)
        oversized = [each for one in self._recorders.values() for each in one.oversized]
        if not oversized:
            found = {name: one.failures for name, one in self._recorders.items() if one.failures}
            yield EvaluatedRows(frame, values, found)
            return
        limit, sizes = oversized[0]
        for start, count in cut_pieces(sizes, limit):
            yield from self.evaluate(frame.slice(start, count))
