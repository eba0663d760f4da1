"""An aggregate of all rows that is one row from the start, also over no rows, as in SQL.

It wraps the operator of the aggregate over its input, which knows only groups that have rows. The
row of no rows is emitted once, before anything else, by the subtask that owns the empty key; and
again when the last row has been removed. `having` is applied here, to both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY
from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.folds import AggregateFold
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import Operator, Output
from headrace.core.operators.running_results import IS_EMITTED
from headrace.core.operators.ttl_operator import KEYS_STATE
from headrace.core.operators.wrappers import OperatorWrapper
from headrace.core.plan.nodes import Aggregate
from headrace.core.plan.states import EMITTED_STATE
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, HIDDEN_COLUMNS, ORDER
from headrace.core.types.row_order import ORDER_TYPE, add_row_order

if TYPE_CHECKING:
    import polars as pl


class EmptyResultOperator(OperatorWrapper):
    """The operator of an aggregate of all rows whose result is never missing."""

    def __init__(
        self,
        operation: Aggregate,
        build: Callable[[Aggregate, KeyedContext], Operator],
        context: KeyedContext,
    ) -> None:
        """`build` builds the operator of the aggregate, without `having`."""
        import polars as pl

        # A job that had no such row before may have emitted another one.
        was_emitted = context.state.get_restored_columns(KEYS_STATE) is not None
        operator = build(replace(operation, having=None), context)
        super().__init__(operator)
        self._stream = context.stream
        self._empty = _compute_empty_result(operation)
        hidden = {EVENT_TIME: to_polars(TIMESTAMP)} if operation.has_event_time else {}
        self._start_columns = [pl.lit(None, dtype=type).alias(n) for n, type in hidden.items()]
        self._is_ordered = context.is_ordered
        self._having = to_expr(operation.having.condition) if operation.having else pl.lit(True)
        self._table = context.state.open_table(EMITTED_STATE, {IS_EMITTED: pl.Boolean()})
        stored = self._table.find(pl.Series(KEY, [""]))
        self._is_emitted = bool(stored[IS_EMITTED][0]) if stored.height else was_emitted
        has_begun = stored[IS_EMITTED][0] is not None if stored.height else was_emitted
        # A job that resumes without this state had ended here.
        has_ended = context.is_restored and not stored.height
        self._has_started = has_begun or has_ended or not context.owns_empty_key

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process rows; a deleted result becomes the one of no rows."""
        yield from self._start()
        yield from self._convert(self._operator.process(frame))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Advance the watermark."""
        yield from self._start()
        yield from self._convert(self._operator.advance(watermark_us))

    def next_tick_us(self) -> int | None:
        """Return the next tick of the operator; at once before the first result."""
        return self._operator.next_tick_us() if self._has_started else 0

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        yield from self._start()
        yield from self._convert(self._operator.tick(now_us))

    def flush_to_state(self) -> None:
        """Store that nothing was emitted yet, unless something was."""
        super().flush_to_state()
        if not self._has_started:
            self._store(None)

    def _start(self) -> Iterator[Output]:
        """Emit the result of no rows, if this job has not begun with it yet."""
        import polars as pl

        if self._has_started:
            return
        self._has_started = True
        row = self._empty.with_columns(pl.lit(False).alias(DELETE), *self._start_columns)
        if self._is_ordered:
            row = add_row_order(row, pl.lit(0, dtype=pl.Int64))
        yield from self._emit(row)
        self._store(self._is_emitted)

    def _convert(self, outputs: Iterator[Output]) -> Iterator[Output]:
        """Return the output of the operator with the result of no rows where it deletes its own."""
        for stream, out in outputs:
            if stream != self._stream or not out.height:
                yield stream, out
            else:
                yield from self._emit(self._replace_deleted(out))

    def _replace_deleted(self, row: pl.DataFrame) -> pl.DataFrame:
        """Return the result; the one of no rows, with its time, if it is deleted."""
        import polars as pl

        if not row[DELETE].any():
            return row
        hidden = row.select(name for name in row.columns if name in HIDDEN_COLUMNS)
        gone = hidden.tail(1).with_columns(pl.lit(False).alias(DELETE))
        return self._empty.hstack(gone).select(row.columns)

    def _emit(self, row: pl.DataFrame) -> Iterator[Output]:
        """Emit a result if it passes `having`, or else the delete of the one before."""
        import polars as pl

        passes = bool(row.select(self._having.fill_null(False).all().alias("passes"))["passes"][0])
        if passes or self._is_emitted:
            yield self._stream, row.with_columns(pl.lit(not passes).alias(DELETE))
        if passes != self._is_emitted:
            self._is_emitted = passes
            self._store(passes)

    def _store(self, is_emitted: bool | None) -> None:
        import polars as pl

        types = {KEY: pl.String(), IS_EMITTED: pl.Boolean()}
        self._table.put(pl.DataFrame({KEY: [""], IS_EMITTED: [is_emitted]}, types))


def _compute_empty_result(operation: Aggregate) -> pl.DataFrame:
    """Return the result of an aggregate over no rows."""
    import polars as pl

    fold = AggregateFold(operation, GroupingKey(()))
    nothing = pl.DataFrame(schema={**fold.input_types, ORDER: to_polars(ORDER_TYPE)})
    return fold.finish(fold.begin(nothing, ()), ())
