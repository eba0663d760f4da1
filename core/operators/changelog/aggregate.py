"""An aggregate over upserts: each group that changes is aggregated again from its current rows.

A folded value cannot be removed from a minimum or a last value, nor exactly from a sum of doubles.
So the rows of a group are stored, and all of them are folded when one of them changes: the cost of
a batch is the size of the groups that it touches. A group without rows is deleted; for that, its
emitted row is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY, NO_CLOCK_US, SLOT, RunsLayout
from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.changelog.rows import (
    IS_DELETE,
    NEWEST_TIME,
    ROW_ID,
    ROWS_STATE,
    ChangeCompactor,
    add_stored_values,
    find_groups,
)
from headrace.core.operators.folds import AggregateFold
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import Output, StatelessOperator, request_offload
from headrace.core.operators.result_rows import ResultRows
from headrace.core.operators.ttl_operator import KEYS_STATE
from headrace.core.plan.nodes import Aggregate
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, ORDER
from headrace.core.types.row_order import ORDER_TYPE

if TYPE_CHECKING:
    import polars as pl

EMITTED_ROW = "__row"
"""The emitted row of a group; null where it did not pass `having`."""


def get_fold_columns(fold: AggregateFold) -> dict[str, pl.DataType]:
    """Return the types of the stored columns of rows, without the key's and ROW_ID."""
    types = {**fold.input_types, ORDER: to_polars(ORDER_TYPE)}
    return {name: types[name] for name in sorted(fold.input_columns)}


def get_output_columns(operation: Aggregate) -> dict[str, pl.DataType]:
    """Return the types of the output columns."""
    key = {each.name: to_polars(each.value.type) for each in operation.key}
    row = {column.name: to_polars(column.expression.type) for column in operation.columns}
    return {**key, **row}


class IdentifiedGroupRows:
    """The stored rows of upserts, which are identified by their key."""

    def __init__(
        self,
        grouping: GroupingKey,
        columns: Mapping[str, pl.DataType],
        context: KeyedContext,
        key: Sequence[str],
    ) -> None:
        """`key` is the key of the upserts."""
        import polars as pl

        self._grouping = grouping
        self._compactor = ChangeCompactor(grouping, key)
        self._columns = tuple(columns)
        stored_types = {**grouping.types, **columns, ROW_ID: pl.String()}
        self._stored_columns = (*stored_types, SLOT)
        layout = RunsLayout(stored_types, grouping.internal_names, lambda rows: rows)
        self._rows = context.state.open_runs(ROWS_STATE, layout)

    @property
    def deferred_rows(self) -> int:
        """The number of earlier rows that the next calls work on."""
        return self._rows.estimate_deferred_rows(for_lookup=True)

    def read_changes(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the last change of each row."""
        return self._compactor.compact(frame, self._columns)

    def update(self, changes: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
        """Replace and delete the stored rows of these groups."""
        import polars as pl

        slot = pl.lit(0, dtype=pl.Int64).alias(SLOT)
        now = changes.filter(~changes[IS_DELETE]).with_columns(slot).select(self._stored_columns)
        before = self._rows.take_keys(groups.select(self._grouping.internal_names))
        if before is not None:
            unchanged = before.filter(~pl.col(ROW_ID).is_in(changes[ROW_ID].implode()))
            now = pl.concat([unchanged.select(self._stored_columns), now])
        self._rows.add(now)
        return now


class ChangelogAggregateOperator(StatelessOperator):
    """The operator of `aggregate` without a window, over upserts."""

    def __init__(self, operation: Aggregate, context: KeyedContext) -> None:
        import polars as pl

        self._grouping = grouping = GroupingKey(operation.key)
        self._fold = AggregateFold(operation, grouping)
        self._results_out = ResultRows(operation, context.stream, ordered=context.is_ordered)
        self._having = to_expr(operation.having.condition) if operation.having else pl.lit(True)
        reads = get_fold_columns(self._fold)
        self._rows = IdentifiedGroupRows(grouping, reads, context, operation.changelog_key or ())
        row = get_output_columns(operation)
        self._row = tuple(row)
        columns = {EMITTED_ROW: pl.Struct(row), NEWEST_TIME: to_polars(TIMESTAMP)}
        self._table = context.state.open_table(KEYS_STATE, columns)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the new row of each group that has changes in the batch."""

        if not frame.height:
            return
        yield from request_offload(
            self._rows.deferred_rows + self._table.estimate_deferred_rows(NO_CLOCK_US)
        )
        changes = self._rows.read_changes(frame)
        groups = find_groups(changes, self._grouping)
        groups = add_stored_values(groups, self._table.find(groups[KEY]))
        results = self._compute_results(self._rows.update(changes, groups))
        self._store_results(groups, results)
        out = diff_results(groups, results, self._row)
        yield from self._results_out.emit(
            out if EVENT_TIME in frame.columns else out.drop(EVENT_TIME)
        )

    def _compute_results(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the results of the groups that have rows and pass `having`, with KEY."""
        encoded = self._grouping.encode_keys(rows)
        if not encoded.height:
            return encoded.clear().select(KEY)
        by = (KEY, *self._grouping.internal_names)
        results = self._fold.finish(self._fold.begin(encoded, by), by)
        return results.filter(self._having)

    def _store_results(self, groups: pl.DataFrame, results: pl.DataFrame) -> None:
        import polars as pl

        if results.height:
            shown = results.select(KEY, pl.struct(self._row).alias(EMITTED_ROW))
            self._table.put(shown.join(groups.select(KEY, NEWEST_TIME), on=KEY))
        self._table.remove(groups.join(results, on=KEY, how="anti")[KEY])


def diff_results(
    groups: pl.DataFrame, results: pl.DataFrame, columns: Sequence[str]
) -> pl.DataFrame:
    """Return the current result rows, and deletes of those that no longer exist.

    The groups have KEY, EMITTED_ROW and NEWEST_TIME, the results KEY and the columns of a row.
    """
    import polars as pl

    columns = [*columns, DELETE, EVENT_TIME]
    time = groups.select(KEY, pl.col(NEWEST_TIME).alias(EVENT_TIME))
    empty_groups = groups.filter(pl.col(EMITTED_ROW).is_not_null()).join(
        results, on=KEY, how="anti"
    )
    deleted = empty_groups.select(EMITTED_ROW, pl.col(NEWEST_TIME).alias(EVENT_TIME)).unnest(
        EMITTED_ROW
    )
    out = deleted.with_columns(pl.lit(True).alias(DELETE)).select(columns)
    if results.height:
        new = results.join(time, on=KEY).with_columns(pl.lit(False).alias(DELETE))
        out = pl.concat([new.select(columns), out])
    return out
