"""A running aggregate: without a window, the new row of a key is emitted whenever it has rows.

The rows of a batch are folded first, so each key is looked up and emitted once. The greatest event
time of a key is one more aggregate: it is the time of the output row, and `ttl` counts from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME
from headrace.core.expressions.typed import to_expr
from headrace.core.frames import concat_chunks, select_columns, sort_by_column
from headrace.core.operators.folds import AggregateFold
from headrace.core.operators.forgetting import TtlOperator
from headrace.core.operators.grouping import GroupingKey
from headrace.core.operators.operator import Output
from headrace.core.operators.outgoing import ResultRows
from headrace.core.operators.place import KeyedContext
from headrace.core.plan.nodes import Aggregate
from headrace.core.state import KEY, KEY_INDEX
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

IS_EMITTED = "__shown"
"""Whether the row of a key was emitted, and not deleted since."""


class RunningAggregateOperator(TtlOperator):
    """The operator of `aggregate` without a window."""

    def __init__(self, operation: Aggregate, place: KeyedContext) -> None:
        import polars as pl

        super().__init__(operation.ttl, place)
        self._grouping = GroupingKey(operation.key)
        self._fold = AggregateFold(operation, self._grouping, newest=True)
        self._out = ResultRows(operation, place.stream, ordered=place.is_ordered)
        self._having = to_expr(operation.having.condition) if operation.having else None
        self._state_columns = tuple(self._fold.state_columns)
        shown = {IS_EMITTED: pl.Boolean()} if operation.having else {}
        self.open_table({**self._fold.state_columns, **shown})

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the new row of each key that has rows in the batch."""
        yield from self.announce_work()
        table = self.get_live_table()
        timed = EVENT_TIME in frame.columns
        rows = self._grouping.project_rows(
            frame if timed else _add_null_time(frame), self._fold.input_columns
        )
        fresh = self._grouping.encode_keys(self._fold.begin(rows, self._grouping.internal_names))
        found = table.find(fresh[KEY])
        states = self._merge_states(fresh, found) if found.height else fresh
        results = self._finish_states(states)
        changed = results if self._having is None else self._select_passing(results, found)
        self._store_states(states, results)
        yield from self._out.emit(changed if timed else changed.drop(EVENT_TIME))

    def _merge_states(self, fresh: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
        """Merge the states of these rows with the stored states of their keys."""
        columns = [KEY_INDEX, *self._state_columns]
        numbered = fresh.with_row_index(KEY_INDEX)[columns]
        with self._fold.describe_groups(fresh, KEY_INDEX):
            merged = self._fold.merge(concat_chunks([found[columns], numbered]), (KEY_INDEX,))
        # Restore the order of the requested keys, which the table returns as KEY_INDEX.
        merged = sort_by_column(merged, KEY_INDEX)[list(self._state_columns)]
        return fresh[[*self._grouping.internal_names, KEY]].hstack(merged.get_columns())

    def _finish_states(self, states: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of these states, with KEY, in the same order."""
        return self._fold.finish(states, (KEY, *self._grouping.internal_names))

    def _select_passing(self, results: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that pass `having`, and those emitted before that no longer pass."""
        import polars as pl

        assert self._having is not None
        shown = found.filter(IS_EMITTED)[KEY]
        return results.filter(self._having | pl.col(KEY).is_in(shown.implode()))

    def _store_states(self, states: pl.DataFrame, results: pl.DataFrame) -> None:
        kept = states[[KEY, *self._state_columns]]
        if self._having is not None:
            passes = select_columns(results, self._having.fill_null(False).alias(IS_EMITTED))
            kept = kept.hstack(passes.get_columns())
        self.put(kept, results[EVENT_TIME])


def _add_null_time(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return frame.with_columns_seq(pl.lit(None, dtype=to_polars(TIMESTAMP)).alias(EVENT_TIME))
