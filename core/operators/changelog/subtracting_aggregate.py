"""An aggregate over retractions whose values can be subtracted: counts and exact sums.

The state of a group is that of a running aggregate, and the number of its rows. Removed rows are
aggregated like added ones, and the negated result is merged. So no row is stored, and a batch costs
the same however large its groups are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY, KEY_INDEX, NO_CLOCK_US
from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.changelog.weighted_rows import get_weights, repeat_rows
from headrace.core.operators.folds import ROW_COUNT, AggregateFold, CountingFold
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import Output, StatelessOperator, request_offload
from headrace.core.operators.result_rows import ResultRows
from headrace.core.operators.running_results import IS_EMITTED
from headrace.core.operators.ttl_operator import KEYS_STATE
from headrace.core.plan.nodes import Aggregate
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, WEIGHT

if TYPE_CHECKING:
    import polars as pl


class SubtractingAggregateOperator(StatelessOperator):
    """The operator of an aggregate over retractions that stores no rows."""

    def __init__(self, operation: Aggregate, context: KeyedContext) -> None:
        import polars as pl

        self._grouping = GroupingKey(operation.key)
        self._fold = CountingFold(AggregateFold(operation, self._grouping, newest=True))
        self._out = ResultRows(operation, context.stream, ordered=context.is_ordered)
        self._having = to_expr(operation.having.condition) if operation.having else pl.lit(True)
        self._state_columns = tuple(self._fold.state_columns)
        # The newest event time of a group is no sum: it stays when rows are removed.
        summed = [n for n, type in self._fold.state_columns.items() if not type.is_temporal()]
        self._negated = [(0 - pl.col(name)).alias(name) for name in summed]
        self._is_nothing = pl.all_horizontal(pl.col(name) == 0 for name in summed)
        columns = {**self._fold.state_columns, IS_EMITTED: pl.Boolean()}
        self._table = context.state.open_table(KEYS_STATE, columns)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the new row of each group that has changes in the batch, or its delete."""
        import polars as pl

        yield from request_offload(self._table.estimate_deferred_rows(NO_CLOCK_US))
        timed = EVENT_TIME in frame.columns
        changes = self._grouping.encode_keys(self._fold_changes(frame, timed=timed))
        found = self._table.find(changes[KEY])
        was_emitted = found.filter(IS_EMITTED)[KEY]
        states = self._merge_states(changes, found)
        results = self._fold.finish(states, (KEY, *self._grouping.internal_names, ROW_COUNT))
        is_there = (pl.col(ROW_COUNT) > 0) & self._having.fill_null(False)
        results = results.with_columns(is_there.alias(IS_EMITTED))
        self._store_states(states.hstack([results[IS_EMITTED]]))
        changed = results.filter(pl.col(IS_EMITTED) | pl.col(KEY).is_in(was_emitted.implode()))
        out = changed.with_columns((~pl.col(IS_EMITTED)).alias(DELETE))
        yield from self._out.emit(out if timed else out.drop(EVENT_TIME))

    def _fold_changes(self, frame: pl.DataFrame, *, timed: bool) -> pl.DataFrame:
        """Return the state of the changes of each group: added rows less removed ones."""
        import polars as pl

        if not timed:
            frame = frame.with_columns(pl.lit(None, dtype=to_polars(TIMESTAMP)).alias(EVENT_TIME))
        frame = frame.with_columns(get_weights(frame))
        rows = self._grouping.project_rows(frame, (*self._fold.input_columns, WEIGHT))
        added = repeat_rows(rows.filter(pl.col(WEIGHT) > 0))
        removed = rows.filter(pl.col(WEIGHT) < 0).with_columns(pl.col(WEIGHT).abs())
        by = self._grouping.internal_names
        states = [self._fold.begin(added, by)] if added.height else []
        if removed.height:
            states.append(self._fold.begin(repeat_rows(removed), by).with_columns(self._negated))
        if len(states) == 1:
            return states[0]
        return self._fold.merge(pl.concat([states[0], states[1].select(states[0].columns)]), by)

    def _merge_states(self, changes: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
        """Merge the states of changes with the stored states of their groups."""
        import polars as pl

        if not found.height:
            return changes
        columns = [KEY_INDEX, *self._state_columns]
        numbered = changes.with_row_index(KEY_INDEX).with_columns(
            pl.col(KEY_INDEX).cast(found.schema[KEY_INDEX])
        )
        both = pl.concat([found.select(columns), numbered.select(columns)])
        merged = self._fold.merge(both, (KEY_INDEX,)).sort(KEY_INDEX)
        return changes.with_columns(merged.select(self._state_columns).get_columns())

    def _store_states(self, states: pl.DataFrame) -> None:
        """Store the states of groups; a group without rows, and without sums, has none."""
        is_nothing = states.select(self._is_nothing.alias("nothing"))["nothing"].fill_null(False)
        there = states.filter(~is_nothing)
        if there.height:
            self._table.put(there.select(KEY, *self._state_columns, IS_EMITTED))
        if there.height < states.height:
            self._table.remove(states.filter(is_nothing)[KEY])
