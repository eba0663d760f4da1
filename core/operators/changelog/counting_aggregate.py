"""An aggregate over retractions of which some results cannot be subtracted, such as a minimum.

The row of a group has the states of the calls that can be subtracted, the number of its rows, and
the pages of the sets of values from which all other calls are computed (`counted_values`). No rows
are stored.

Older versions stored the rows of each group. They are counted when the first rows arrive after a
restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.aggregates.value_sets import list_value_sets
from headrace.core.api.state import KEY, NO_CLOCK_US, StepState
from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.changelog import counted_values
from headrace.core.operators.changelog.aggregate import (
    EMITTED_ROW,
    diff_results,
    get_fold_columns,
    get_output_columns,
)
from headrace.core.operators.changelog.counted_values import CountedValues
from headrace.core.operators.changelog.expiring_groups import select_expired_groups
from headrace.core.operators.changelog.ordered_pages import GROUP, MAX_PAGE_ROWS, UpdatedPages
from headrace.core.operators.changelog.rows import (
    NEWEST_TIME,
    ROWS_STATE,
    add_stored_values,
    find_groups,
)
from headrace.core.operators.changelog.subtracting_aggregate import SubtractingFold
from headrace.core.operators.changelog.weighted_rows import WeightedRows, get_weights
from headrace.core.operators.folds import ROW_COUNT, AggregateFold
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import Output, StatelessOperator, request_offload
from headrace.core.operators.result_rows import ResultRows
from headrace.core.operators.ttl_operator import KEYS_STATE
from headrace.core.plan.nodes import Aggregate
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import EVENT_TIME, WEIGHT

if TYPE_CHECKING:
    import polars as pl


def build_subtracting_fold(fold: AggregateFold, grouping: GroupingKey) -> SubtractingFold:
    """Return the fold of the calls that can be subtracted."""
    calls = (call for call in fold.calls if call.accumulator.is_subtractable)
    return SubtractingFold(fold.with_calls(calls), grouping)


def get_group_columns(operation: Aggregate) -> dict[str, pl.DataType]:
    """Return the columns that are stored of a group."""
    import polars as pl

    grouping = GroupingKey(operation.key)
    fold = AggregateFold(operation, grouping)
    columns = {
        EMITTED_ROW: pl.Struct(get_output_columns(operation)),
        NEWEST_TIME: to_polars(TIMESTAMP),
        **build_subtracting_fold(fold, grouping).state_columns,
    }
    for number, each in enumerate(list_value_sets(fold.calls)):
        columns.update(counted_values.get_group_columns(each, number, fold))
    return columns


class CountingAggregateOperator(StatelessOperator):
    """The operator of an aggregate over retractions that stores counted values."""

    def __init__(
        self, operation: Aggregate, context: KeyedContext, page_values: int = MAX_PAGE_ROWS
    ) -> None:
        import polars as pl

        self._grouping = grouping = GroupingKey(operation.key)
        fold = AggregateFold(operation, grouping)
        sets = list_value_sets(fold.calls)
        counted = {call.name: call for each in sets for call in each.calls}
        self._subtracting = build_subtracting_fold(fold, grouping)
        self._results = fold.with_calls(counted.get(call.name, call) for call in fold.calls)
        self._reads = get_fold_columns(fold)
        self._prepared = {
            name: expr
            for call in fold.calls
            if call.name in counted
            for name, expr in call.prepare().items()
        }
        self._results_out = ResultRows(operation, context.stream, ordered=context.is_ordered)
        self._having = to_expr(operation.having.condition) if operation.having else pl.lit(True)
        self._sets = [
            CountedValues(each, number, fold, grouping, context.state, page_values)
            for number, each in enumerate(sets)
        ]
        self._row = tuple(get_output_columns(operation))
        self._keeps_empty = operation.ttl is not None
        self._columns = get_group_columns(operation)
        self._table = context.state.open_table(KEYS_STATE, self._columns)
        self._stored_rows = self._open_stored_rows(context.state)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the new row of each group that has changes in the batch, or its delete."""
        if not frame.height:
            return
        if self._stored_rows is not None:
            yield from request_offload(self._stored_rows.rows)
            self._count_stored_rows(self._stored_rows)
            self._stored_rows = None
        deferred = self._table.estimate_deferred_rows(NO_CLOCK_US)
        yield from request_offload(deferred + sum(each.deferred_rows for each in self._sets))
        frame = frame.with_columns(get_weights(frame))
        rows = self._grouping.project_rows(frame, (*self._reads, WEIGHT))
        changes = self._grouping.encode_keys(rows)
        groups, pages = self._update_groups(changes)
        results = self._compute_results(groups, pages)
        self._store_groups(groups, results)
        out = diff_results(groups, results, self._row)
        yield from self._results_out.emit(
            out if EVENT_TIME in frame.columns else out.drop(EVENT_TIME)
        )

    def forget_groups(self, groups: pl.DataFrame, until_us: int) -> None:
        """Remove those of these groups whose newest row is not later than this time."""
        found = self._table.find(groups[KEY])
        expired = select_expired_groups(groups, found, until_us).with_row_index(GROUP)
        for each in self._sets:
            each.remove_groups(expired)
        self._table.remove(expired[KEY])

    def _update_groups(self, changes: pl.DataFrame) -> tuple[pl.DataFrame, list[UpdatedPages]]:
        """Apply changes, which have KEY and WEIGHT; return their groups, and the pages by set."""

        touched = find_groups(changes, self._grouping)
        found = self._table.find(touched[KEY])
        groups = add_stored_values(touched, found)
        by = (KEY, *self._grouping.internal_names)
        states = self._subtracting.fold_changes(changes, by)
        states = touched.select(KEY).join(states, on=KEY, maintain_order="left")
        states = self._subtracting.merge_stored(states, found)
        groups = groups.with_columns(states.select(*self._subtracting.state_columns).get_columns())
        groups = groups.with_row_index(GROUP)
        numbered = changes.join(groups.select(KEY, GROUP), on=KEY, maintain_order="left")
        prepared = numbered.with_columns(**self._prepared)
        pages = []
        for each in self._sets:
            updated = each.update(prepared, groups)
            pages.append(updated)
            groups = groups.with_columns(updated.lists.get_columns())
        return groups, pages

    def _compute_results(self, groups: pl.DataFrame, pages: list[UpdatedPages]) -> pl.DataFrame:
        """Return the results of the groups that have rows and pass `having`, with KEY."""
        import polars as pl

        by = (KEY, *self._grouping.internal_names)
        states = groups.select(*by, *self._subtracting.state_columns)
        for each, updated in zip(self._sets, pages, strict=True):
            found = each.compute_states(groups, updated)
            states = states.hstack(found.select(*each.state_columns).get_columns())
        states = states.filter(pl.col(ROW_COUNT) > 0)
        if not states.height:
            return states.select(KEY)
        return self._results.finish(states, by).filter(self._having)

    def _store_groups(self, groups: pl.DataFrame, results: pl.DataFrame) -> None:
        """Store the groups with their emitted rows.

        One without rows, sums and values is removed; with a `ttl`, when it expires: until then its
        newest row counts.
        """
        import polars as pl

        shown = (
            results.select(KEY, pl.struct(self._row).alias(EMITTED_ROW))
            if results.height
            else (groups.select(KEY, EMITTED_ROW).clear())
        )
        now = groups.drop(EMITTED_ROW).join(shown, on=KEY, how="left", maintain_order="left")
        pages = [name for each in self._sets for name in list(each.group_columns)[:1]]
        has_values = now.select(
            pl.any_horizontal(pl.col(name).is_not_null() for name in pages).alias("has")
        )["has"]
        is_there = has_values | ~self._subtracting.mask_nothing(now) | self._keeps_empty
        there = now.filter(is_there)
        if there.height:
            self._table.put(there.select(KEY, *self._columns))
        if there.height < now.height:
            self._table.remove(now.filter(~is_there)[KEY])

    def _open_stored_rows(self, state: StepState) -> WeightedRows | None:
        """Open the rows that an older version has stored, if there are any."""
        if state.get_restored_columns(ROWS_STATE) is None:
            return None
        types = {**self._grouping.types, **self._reads}
        return WeightedRows(state, ROWS_STATE, self._grouping.internal_names, types)

    def _count_stored_rows(self, stored: WeightedRows) -> None:
        """Count the rows that an older version has stored, and drop them."""
        import polars as pl

        rows = self._grouping.encode_keys(stored.take_all())
        if not rows.height:
            return
        groups, _ = self._update_groups(rows)
        emitted = groups.filter(pl.col(EMITTED_ROW).is_not_null())
        self._store_groups(groups, emitted.select(KEY, EMITTED_ROW).unnest(EMITTED_ROW))
