"""Running aggregates and running tops: operators without a window that emit changed results.

`RunningAggregateOperator` emits the new row of a key whenever a batch has rows of the key. The rows
of a batch are folded first, so each key is looked up and emitted once per batch. The greatest event
time of a key is one more aggregate: it is the event time of the output row, and `ttl` counts from
it.

`RunningTopOperator` emits the ranks of a key that have changed. The state of a key is the list of
its best rows. The rows of a batch are ranked among themselves first, so only rows that may change
the list are compared with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY, KEY_INDEX
from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.folds import AggregateFold, RowRanking, get_row_types
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import MAX_OUTPUT_ROWS, Output
from headrace.core.operators.result_rows import ResultRows
from headrace.core.operators.ttl_operator import KEYS_STATE, TtlOperator
from headrace.core.plan import nodes
from headrace.core.plan.nodes import RANK_COLUMN, Aggregate
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, HIDDEN_COLUMNS, ORDER
from headrace.core.types.frames import concat_chunks, select_columns, sort_by_column

if TYPE_CHECKING:
    import polars as pl


IS_EMITTED = "__shown"
"""Whether the row of a key was emitted, and not deleted since."""


class RunningAggregateOperator(TtlOperator):
    """The operator of `aggregate` without a window, which emits a changelog."""

    def __init__(self, operation: Aggregate, context: KeyedContext) -> None:
        import polars as pl

        super().__init__(operation.ttl, context)
        self._grouping = GroupingKey(operation.key)
        self._fold = AggregateFold(operation, self._grouping, newest=True)
        self._out = ResultRows(operation, context.stream, ordered=context.is_ordered)
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
        """Merge the states of new rows with the stored states of their keys."""
        columns = [KEY_INDEX, *self._state_columns]
        numbered = fresh.with_row_index(KEY_INDEX)[columns]
        with self._fold.describe_groups(fresh, KEY_INDEX):
            merged = self._fold.merge(concat_chunks([found[columns], numbered]), (KEY_INDEX,))
        # Restore the order of the requested keys, which the table returns as KEY_INDEX.
        merged = sort_by_column(merged, KEY_INDEX)[list(self._state_columns)]
        return fresh[[*self._grouping.internal_names, KEY]].hstack(merged.get_columns())

    def _finish_states(self, states: pl.DataFrame) -> pl.DataFrame:
        """Return the result rows of these states, with KEY, in the same order."""
        return self._fold.finish(states, (KEY, *self._grouping.internal_names))

    def _select_passing(self, results: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
        """Return the results that pass `having`, and emitted ones that do not pass any more."""
        import polars as pl

        assert self._having is not None
        shown = found.filter(IS_EMITTED)[KEY]
        return results.filter(self._having | pl.col(KEY).is_in(shown.implode()))

    def _store_states(self, states: pl.DataFrame, results: pl.DataFrame) -> None:
        table_rows = states[[KEY, *self._state_columns]]
        if self._having is not None:
            passes = select_columns(results, self._having.fill_null(False).alias(IS_EMITTED))
            table_rows = table_rows.hstack(passes.get_columns())
        self.put(table_rows, results[EVENT_TIME])


def _add_null_time(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return frame.with_columns_seq(pl.lit(None, dtype=to_polars(TIMESTAMP)).alias(EVENT_TIME))


BEST_ROWS = "__best"
"""The best rows of a key, best first."""


NEWEST_TIME = "__last"
"""The greatest event time of a key."""


OLD_RANK = "__before"
"""The rank of a row before the batch; null for a new row."""


class RunningTopOperator(TtlOperator):
    """The operator of `top` without a window, which emits a changelog of ranks."""

    def __init__(self, operation: nodes.Top, context: KeyedContext) -> None:
        super().__init__(operation.ttl, context)
        self._grouping = GroupingKey(operation.key)
        self._ranks = RowRanking(operation.by, operation.rows)
        self._stream = context.stream
        self._ordered = context.is_ordered
        self._keeps_column = operation.stores_column
        self._stored_columns: tuple[str, ...] = ()
        columns = context.state.get_restored_columns(KEYS_STATE)
        if columns is not None:
            self._open(get_row_types(columns, BEST_ROWS))

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the ranks that these rows change."""
        if not self.is_open:
            self._open(frame.schema)
        table = self.get_live_table()
        best = self._rank_batch(frame)
        found = table.find(best[KEY].unique(maintain_order=True))
        ranked = self._merge_ranks(best, found)
        changed = self._select_changed(ranked)
        changed_ranks = ranked if self.has_ttl else ranked.join(changed, on=KEY, how="semi")
        if changed_ranks.height:
            self._store_rows(changed_ranks)
        yield from self._emit_rows(changed, frame)

    def _open(self, types: Mapping[str, pl.DataType]) -> None:
        """Open the table; `types` are the types of the input columns."""
        import polars as pl

        stored_types = {
            n: type for n, type in types.items() if n != EVENT_TIME and self._keeps_column(n)
        }
        self._stored_columns = tuple(stored_types)
        self.open_table(
            {BEST_ROWS: pl.List(pl.Struct(stored_types)), NEWEST_TIME: to_polars(TIMESTAMP)}
        )

    def _rank_batch(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the best rows of each key in the batch, with the key's greatest time."""
        import polars as pl

        rows = self._grouping.project_rows(frame, frame.columns)
        key = self._grouping.internal_names
        timed = EVENT_TIME in frame.columns
        last = pl.col(EVENT_TIME).max() if timed else pl.lit(None, dtype=to_polars(TIMESTAMP))
        rows = rows.with_columns((last.over(key) if key and timed else last).alias(NEWEST_TIME))
        return self._grouping.encode_keys(self._ranks.rank_rows(rows, key))

    def _merge_ranks(self, best: pl.DataFrame, stored_states: pl.DataFrame) -> pl.DataFrame:
        """Return the best of the stored and new rows of each key, ranked, with their OLD_RANK."""
        import polars as pl

        columns = (KEY, *self._stored_columns, NEWEST_TIME, OLD_RANK)
        new_rows = best.with_columns(pl.lit(None, dtype=pl.Int32).alias(OLD_RANK)).select(columns)
        if not stored_states.height:
            return new_rows.with_columns(best[RANK_COLUMN])
        rows = (
            stored_states.select(KEY, BEST_ROWS, NEWEST_TIME).explode(BEST_ROWS).unnest(BEST_ROWS)
        )
        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(KEY)
        old_rows = rows.with_columns(rank.alias(OLD_RANK)).select(columns)
        all_rows = pl.concat([old_rows, new_rows]).with_columns(pl.col(NEWEST_TIME).max().over(KEY))
        return self._ranks.rank_rows(all_rows, (KEY,))

    def _select_changed(self, ranked: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        return ranked.filter(pl.col(OLD_RANK).ne_missing(pl.col(RANK_COLUMN)))

    def _store_rows(self, ranked: pl.DataFrame) -> None:
        import polars as pl

        best = pl.struct(self._stored_columns).alias(BEST_ROWS)
        states = ranked.group_by(KEY, maintain_order=True).agg(best, pl.col(NEWEST_TIME).first())
        self.put(states, states[NEWEST_TIME])

    def _emit_rows(self, changed: pl.DataFrame, frame: pl.DataFrame) -> Iterator[Output]:
        import polars as pl

        names = [name for name in self._stored_columns if name not in HIDDEN_COLUMNS]
        hidden = [pl.lit(False).alias(DELETE)]
        if EVENT_TIME in frame.columns:
            hidden.append(pl.col(NEWEST_TIME).alias(EVENT_TIME))
        if self._ordered:
            hidden.append(pl.col(ORDER))
        out = changed.select(*names, RANK_COLUMN, *hidden)
        for start in range(0, out.height, MAX_OUTPUT_ROWS):
            yield self._stream, out.slice(start, MAX_OUTPUT_ROWS)
