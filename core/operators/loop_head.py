"""The operator at the head of a loop: it sends each row out of the loop, or into it again.

New rows are its left input, rows that come back its right one. Its state has rows only in a
checkpoint: those that were on their way back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.core.api.state import Redistribution
from headrace.core.errors.value_errors import ExpressionFailure
from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.typed import PROCESSING_TIME, find_inputs
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Output, StatelessOperator
from headrace.core.plan import nodes
from headrace.core.plan.states import LOOP_STATE
from headrace.core.types.elements import EVENT_TIME, ORDER
from headrace.core.types.frames import add_columns, filter_rows, pick_columns

if TYPE_CHECKING:
    import polars as pl


ROWS_BACK, ROWS_LEFT, ROWS_OVER = "rows_back", "rows_left", "rows_over"
"""The metrics of a head: the rows that came back, left the loop, and went round too often."""


class TooManyRounds(ExpressionFailure):
    """A row has gone round too often, and nothing reads `over`, the stream of such rows."""

    def __init__(self, message: str, over: str) -> None:
        super().__init__(message)
        self.hint = f"a step or sink with from: {over} takes such rows"


class LoopHead(StatelessOperator):
    """The operator of `iterate`."""

    def __init__(self, step: nodes.Step, loop: nodes.Loop, context: KeyedContext) -> None:
        import polars as pl

        self._name, self._loop = step.name, loop
        self._inside = nodes.name_loop_stream(step.name)
        self._over = nodes.name_over_stream(step.name)
        self._read_streams = context.read_streams
        out = step.outputs[0]
        self._columns = out.schema.names
        hidden = ((EVENT_TIME, out.has_event_time), (ORDER, out.has_row_order))
        self._hidden = [name for name, is_there in hidden if is_there]
        self._until = None if loop.until is None else to_expr(loop.until).fill_null(value=False)
        self._needs_now = loop.until is not None and PROCESSING_TIME in find_inputs(loop.until)
        self._now_us: Callable[[], int] = context.now_us
        self._one_more = pl.col(nodes.ROUNDS_COLUMN).fill_null(0) + 1
        self.returning_rows = context.state.open_entries(LOOP_STATE, Redistribution.LIST)
        """The rows on their way back, while a snapshot is taken and after a restart."""
        self._counts = context.state.counters.metrics.counters
        for name in (ROWS_BACK, ROWS_LEFT, *((ROWS_OVER,) if loop.max_rounds else ())):
            self._counts.setdefault(name, 0)

    def copy_counts(self) -> dict[str, int]:
        """Return the numbers of rows that have been counted so far."""
        return dict(self._counts)

    def set_counts(self, counts: Mapping[str, int]) -> None:
        """Set the numbers of rows, as those at a barrier while its snapshot is taken."""
        self._counts.update(counts)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Send new rows on."""
        import polars as pl

        if self._loop.has_rounds:
            frame = add_columns(frame, pl.lit(0, dtype=pl.Int64).alias(nodes.ROUNDS_COLUMN))
        return self._send_on(self._select(frame))

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Send rows on that have come back."""
        self._counts[ROWS_BACK] += frame.height
        if self._loop.has_rounds:
            frame = add_columns(frame, self._one_more.alias(nodes.ROUNDS_COLUMN))
        return self._send_on(self._select(frame))

    def _select(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with their columns in the order of the stream."""
        names = [*self._columns, *self._hidden]
        return frame if frame.columns == names else pick_columns(frame, names)

    def _send_on(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the rows that leave, those that have gone round too often, and all others."""
        if self._until is not None:
            leaves = self._evaluate_until(frame)
            leaving = int(leaves.sum())
            self._counts[ROWS_LEFT] += leaving
            if leaving == frame.height:
                yield self._name, frame
                return
            if leaving:
                yield self._name, filter_rows(frame, leaves)
                frame = filter_rows(frame, ~leaves)
        if self._loop.max_rounds is not None:
            is_over = frame[nodes.ROUNDS_COLUMN] >= self._loop.max_rounds
            if count := int(is_over.sum()):
                self._counts[ROWS_OVER] += count
                yield self._over, self._check_read(filter_rows(frame, is_over))
                frame = filter_rows(frame, ~is_over)
        yield self._inside, frame

    def _evaluate_until(self, frame: pl.DataFrame) -> pl.Series:
        import polars as pl

        assert self._until is not None
        if self._needs_now:
            frame = frame.with_columns(pl.lit(self._now_us()).alias(PROCESSING_TIME))
        return add_columns(frame, self._until.alias("__until"))["__until"]

    def _check_read(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows that have gone round too often. Raises TooManyRounds without a reader."""
        if self._over not in self._read_streams:
            row = pick_columns(rows, self._columns).row(0, named=True)
            message = f"a row has come back {self._loop.max_rounds} times and does not leave: {row}"
            raise TooManyRounds(message, self._over)
        return rows
