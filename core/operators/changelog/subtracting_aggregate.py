"""An aggregate over retractions whose values can be subtracted: counts and exact sums.

The state of a group is that of a running aggregate, and the number of its rows. Removed rows are
aggregated like added ones, and the negated result is merged. So no row is stored, and a batch costs
the same however large its groups are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.aggregates.user_aggregates import select_user_calls
from headrace.core.api.state import EXPIRY, KEY, KEY_INDEX, NO_CLOCK_US
from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.changelog.expiring_groups import drop_expired_changes
from headrace.core.operators.changelog.weighted_rows import get_weights, repeat_rows
from headrace.core.operators.folds import ROW_COUNT, AggregateFold, CountingFold
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import Output, StatelessOperator, request_offload
from headrace.core.operators.result_rows import ResultRows
from headrace.core.operators.running_results import IS_EMITTED
from headrace.core.operators.ttl_operator import KEYS_STATE
from headrace.core.plan.nodes import Aggregate
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, ORDER, WEIGHT
from headrace.core.types.row_order import ORDER_TYPE

if TYPE_CHECKING:
    import polars as pl


ADDED, REMOVED = "__added", "__removed"
"""Whether rows of a group were added or removed; REMOVED is also a suffix of their states."""


class SubtractingFold:
    """The fold of added and removed rows, of states that can be subtracted.

    They are numbers, or partials of a user-defined class, which retracts one from another.
    """

    def __init__(self, fold: AggregateFold, grouping: GroupingKey) -> None:
        import polars as pl

        self._grouping = grouping
        users = select_user_calls(fold.calls)
        self._whole, self._users = fold, fold.with_calls(users)
        self._fold = CountingFold(fold.with_calls(c for c in fold.calls if c not in users))
        self.input_columns = fold.input_columns
        self._input_types = fold.input_types
        self.state_columns = {**self._fold.state_columns, **self._users.state_columns}
        self._partials = list(self._users.state_columns)
        # The newest event time of a group is no sum: it stays when rows are removed.
        summed = [n for n, type in self._fold.state_columns.items() if not type.is_temporal()]
        self._negated = [(0 - pl.col(name)).alias(name) for name in summed]
        self._is_nothing = pl.all_horizontal(pl.col(name) == 0 for name in summed)

    @property
    def calls_users(self) -> bool:
        """Whether it calls user-defined classes; `by` has KEY then."""
        return bool(self._users.calls)

    def fold_changes(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the state of the changes of each group: added rows less removed ones.

        The rows have WEIGHT. The partials of removed rows are columns of their own.
        """
        import polars as pl

        added = repeat_rows(rows.filter(pl.col(WEIGHT) > 0))
        removed = rows.filter(pl.col(WEIGHT) < 0).with_columns(pl.col(WEIGHT).abs())
        removed = repeat_rows(removed)
        states = [self._fold.begin(added, by)] if added.height else []
        if removed.height:
            states.append(self._fold.begin(removed, by).with_columns(self._negated))
        found = states[0]
        if len(states) > 1:
            found = self._fold.merge(pl.concat([found, states[1].select(found.columns)]), by)
        return self._add_partials(found, added, removed) if self.calls_users else found

    def _add_partials(
        self, states: pl.DataFrame, added: pl.DataFrame, removed: pl.DataFrame
    ) -> pl.DataFrame:
        """Add the partials of added and of removed rows; null where there are none."""
        import polars as pl

        for rows, mark, suffix in ((added, ADDED, ""), (removed, REMOVED, REMOVED)):
            names = {name: f"{name}{suffix}" for name in self._partials}
            types = {KEY: pl.String(), **self._users.state_columns}
            found = self._users.begin(rows, (KEY,)) if rows.height else pl.DataFrame(schema=types)
            marked = found.rename(names).with_columns(pl.lit(True).alias(mark))
            states = states.join(marked, on=KEY, how="left", maintain_order="left")
        return states

    def merge_stored(self, changes: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
        """Merge the states of changes with the stored states of their groups, in their order.

        `found` has KEY_INDEX, the number of the group among the changes.
        """
        import polars as pl

        numbered = changes.with_row_index(KEY_INDEX).with_columns(
            pl.col(KEY_INDEX).cast(found.schema[KEY_INDEX])
        )
        if found.height:
            columns = [KEY_INDEX, *self._fold.state_columns]
            both = pl.concat([found.select(columns), numbered.select(columns)])
            merged = self._fold.merge(both, (KEY_INDEX,)).sort(KEY_INDEX)
            changes = changes.with_columns(merged.drop(KEY_INDEX).get_columns())
        if not self.calls_users:
            return changes
        with self._users.describe_groups(changes, KEY_INDEX):
            partials = self._merge_partials(numbered, found)
        return changes.with_columns(partials.select(self._partials).get_columns())

    def _merge_partials(self, numbered: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
        """Return the partials of groups: stored and added rows, without removed ones."""
        import polars as pl

        columns = [KEY_INDEX, *self._partials]
        parts = pl.concat([found.select(columns), numbered.filter(ADDED).select(columns)])
        nothing = self._users.begin(self._build_no_rows(), ())
        new = numbered.select(KEY_INDEX).join(parts, on=KEY_INDEX, how="anti")
        empty = (nothing[name].new_from_index(0, new.height) for name in self._partials)
        parts = pl.concat([parts, new.with_columns(*empty).select(columns)])
        merged = self._users.merge(parts, (KEY_INDEX,)).select(columns).sort(KEY_INDEX)
        is_removed = numbered[REMOVED].fill_null(False)
        if not is_removed.any():
            return merged
        suffixed = [pl.col(f"{name}{REMOVED}").alias(name) for name in self._partials]
        removed = numbered.filter(is_removed).select(suffixed)
        states = merged.filter(is_removed)
        for call in select_user_calls(self._users.calls):
            states = call.apply_retract(states, removed, (KEY_INDEX,))
        return pl.concat([merged.filter(~is_removed), states]).sort(KEY_INDEX)

    def _build_no_rows(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(schema={**self._input_types, ORDER: to_polars(ORDER_TYPE)})

    def fold_nothing(self) -> pl.DataFrame:
        """Return the state of no rows."""
        rows = self._build_no_rows()
        states = self._fold.begin(rows, ())
        if not self.calls_users:
            return states
        return states.hstack(self._users.begin(rows, ()).get_columns())

    def mask_nothing(self, states: pl.DataFrame) -> pl.Series:
        """Return a mask of the states of no rows."""
        import polars as pl

        found = states.select(self._is_nothing.alias("nothing"))["nothing"].fill_null(False)
        if not self.calls_users or not found.any():
            return found
        nothing = self.fold_nothing()
        same = (pl.col(name).eq_missing(pl.lit(nothing[name])) for name in self._partials)
        return found & states.select(pl.all_horizontal(*same).alias("same"))["same"]

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the results of states, after the columns `by`.

        A user-defined class does not get the partial of a group without rows: its results are null.
        """
        import polars as pl

        is_there = states[ROW_COUNT] > 0
        if not self.calls_users or is_there.all():
            return self._whole.finish(states, by)
        numbered = states.with_row_index(KEY_INDEX)
        results = self._whole.finish(numbered.filter(is_there), (KEY_INDEX, *by))
        gone = self._grouping.restore_names(numbered.filter(~is_there).select(KEY_INDEX, *by))
        return pl.concat([results, gone], how="diagonal").sort(KEY_INDEX).drop(KEY_INDEX)


class SubtractingAggregateOperator(StatelessOperator):
    """The operator of an aggregate over retractions that stores no rows."""

    def __init__(self, operation: Aggregate, context: KeyedContext) -> None:
        import polars as pl

        self._grouping = GroupingKey(operation.key)
        fold = AggregateFold(operation, self._grouping, newest=True)
        self._fold = SubtractingFold(fold, self._grouping)
        self._out = ResultRows(operation, context.stream, ordered=context.is_ordered)
        self._having = to_expr(operation.having.condition) if operation.having else pl.lit(True)
        self._state_columns = tuple(self._fold.state_columns)
        self._expiry: tuple[pl.Expr, ...] = ()
        columns = {**self._fold.state_columns, IS_EMITTED: pl.Boolean()}
        self._table = context.state.open_table(KEYS_STATE, columns)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the new row of each group that has changes in the batch, or its delete."""
        import polars as pl

        yield from request_offload(self._table.estimate_deferred_rows(NO_CLOCK_US))
        timed = EVENT_TIME in frame.columns
        changes = self._fold_changes(frame, timed=timed)
        found = self._table.find(changes[KEY])
        was_emitted = found.filter(IS_EMITTED)[KEY]
        states = self._fold.merge_stored(changes, found)
        results = self._fold.finish(states, (KEY, *self._grouping.internal_names, ROW_COUNT))
        is_there = (pl.col(ROW_COUNT) > 0) & self._having.fill_null(False)
        results = results.with_columns(is_there.alias(IS_EMITTED))
        self._store_states(states.hstack([results[IS_EMITTED], results[EVENT_TIME]]))
        changed = results.filter(pl.col(IS_EMITTED) | pl.col(KEY).is_in(was_emitted.implode()))
        out = changed.with_columns((~pl.col(IS_EMITTED)).alias(DELETE))
        yield from self._out.emit(out if timed else out.drop(EVENT_TIME))

    def _fold_changes(self, frame: pl.DataFrame, *, timed: bool) -> pl.DataFrame:
        """Return the state of the changes of each group, with KEY."""
        import polars as pl

        if not timed:
            frame = frame.with_columns(pl.lit(None, dtype=to_polars(TIMESTAMP)).alias(EVENT_TIME))
        frame = frame.with_columns(get_weights(frame))
        rows = self._grouping.project_rows(frame, (*self._fold.input_columns, WEIGHT))
        by = self._grouping.internal_names
        if self._fold.calls_users:
            return self._fold.fold_changes(self._grouping.encode_keys(rows), (KEY, *by))
        return self._grouping.encode_keys(self._fold.fold_changes(rows, by))

    def _store_states(self, states: pl.DataFrame) -> None:
        """Store the states of groups; a group without rows, and without sums, is removed.

        With a `ttl` it is removed when it expires: until then its newest row counts.
        """
        is_nothing = self._fold.mask_nothing(states) & (not self._expiry)
        there = states.filter(~is_nothing)
        if there.height:
            self._table.put(there.select(KEY, *self._state_columns, IS_EMITTED, *self._expiry))
        if there.height < states.height:
            self._table.remove(states.filter(is_nothing)[KEY])


class ExpiringAggregateOperator(SubtractingAggregateOperator):
    """The operator of such an aggregate with a `ttl`: a key is forgotten after its newest row.

    A change of a row that is older than the watermark by more than the `ttl` is late, whether it
    adds the row or removes it. So the key of a row that is removed is still stored, and nothing is
    subtracted from a key that has begun again.
    """

    def __init__(self, operation: Aggregate, ttl_us: int, context: KeyedContext) -> None:
        import polars as pl

        super().__init__(operation, context)
        self._context, self._state, self._ttl_us = context, context.state, ttl_us
        self._expiry = ((pl.col(EVENT_TIME).cast(pl.Int64) + ttl_us).alias(EXPIRY),)

    @property
    def pending_rows(self) -> int:
        """The number of keys that expiry may look at."""
        return self._table.rows

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Forget the keys of which no change will come any more; nothing is emitted."""
        self._state.clock_us = max(self._state.clock_us, watermark_us)
        self._table.expire(self._state.clock_us)
        return iter(())

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Leave out late changes, and emit the groups that the others change."""
        frame = yield from drop_expired_changes(frame, self._ttl_us, self._context)
        if frame.height:
            yield from super().process(frame)
