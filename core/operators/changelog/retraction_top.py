"""`top` over retractions: the ranks of each group that changes are computed from all its rows.

The ranked rows of each group are stored as well, to find the ranks that change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY, KeyedTable
from headrace.core.operators.changelog.rows import (
    NEWEST_TIME,
    ROWS_STATE,
    add_stored_values,
    find_groups,
)
from headrace.core.operators.changelog.weighted_rows import (
    WeightedRows,
    consolidate,
    get_weights,
    repeat_rows,
    subtract_rows,
)
from headrace.core.operators.folds import RowRanking, get_row_types
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import (
    MAX_OUTPUT_ROWS,
    Output,
    StatelessOperator,
    request_offload,
)
from headrace.core.operators.running_results import BEST_ROWS
from headrace.core.operators.ttl_operator import KEYS_STATE
from headrace.core.plan import nodes
from headrace.core.plan.nodes import RANK_COLUMN
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, HIDDEN_COLUMNS, ORDER, WEIGHT

if TYPE_CHECKING:
    import polars as pl


class RetractionTopOperator(StatelessOperator):
    """The operator of `top` over retractions."""

    def __init__(self, operation: nodes.Top, context: KeyedContext) -> None:
        self._operation = operation
        self._context = context
        self._grouping = GroupingKey(operation.key)
        self._ranks = RowRanking(operation.by, operation.rows)
        self._states: tuple[KeyedTable, WeightedRows] | None = None
        self._columns: tuple[str, ...] = ()
        columns = context.state.get_restored_columns(KEYS_STATE)
        if columns is not None:
            self._open(get_row_types(columns, BEST_ROWS))

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the ranks that change with these rows."""
        import polars as pl

        if not frame.height:
            return
        table, stored = self._states or self._open(frame.schema)
        yield from request_offload(stored.count_deferred_rows(0))
        rows = self._grouping.project_rows(
            frame.with_columns(get_weights(frame)), (*self._columns, WEIGHT)
        )
        changes = self._grouping.encode_keys(rows)
        groups = find_groups(changes, self._grouping)
        before = stored.take(groups.select(self._grouping.internal_names))
        now = consolidate(pl.concat([before, changes.select(before.columns)]))
        stored.add(now)
        ranked = self._ranks.rank_rows(self._grouping.encode_keys(repeat_rows(now)), (KEY,))
        found = table.find(groups[KEY])
        groups = add_stored_values(groups, found)
        self._store_ranks(groups, ranked, table)
        yield from self._emit_changes(_unnest_ranks(found), ranked, groups, frame)

    def _open(self, types: Mapping[str, pl.DataType]) -> tuple[KeyedTable, WeightedRows]:
        """Open the states; `types` are the types of the input columns."""
        import polars as pl

        hidden = (EVENT_TIME, DELETE, WEIGHT)
        row = {
            n: t for n, t in types.items() if n not in hidden and self._operation.stores_column(n)
        }
        self._columns = tuple(row)
        columns = {BEST_ROWS: pl.List(pl.Struct(row)), NEWEST_TIME: to_polars(TIMESTAMP)}
        table = self._context.state.open_table(KEYS_STATE, columns)
        stored = WeightedRows(
            self._context.state,
            ROWS_STATE,
            self._grouping.internal_names,
            {**self._grouping.types, **row},
        )
        self._states = (table, stored)
        return self._states

    def _store_ranks(self, groups: pl.DataFrame, ranked: pl.DataFrame, table: KeyedTable) -> None:
        import polars as pl

        best = ranked.group_by(KEY, maintain_order=True).agg(
            pl.struct(self._columns).alias(BEST_ROWS)
        )
        if best.height:
            table.put(best.join(groups.select(KEY, NEWEST_TIME), on=KEY))
        empty = groups.join(best, on=KEY, how="anti")[KEY]
        if len(empty):
            table.remove(empty)

    def _emit_changes(
        self,
        before: pl.DataFrame,
        after: pl.DataFrame,
        groups: pl.DataFrame,
        frame: pl.DataFrame,
    ) -> Iterator[Output]:
        """Emit the rows at ranks that have changed, and deletes of ranks without a row."""
        import polars as pl

        row = [KEY, *self._columns, RANK_COLUMN]
        changed = subtract_rows(after.select(row), before.select(row))
        new = changed.filter(pl.col(WEIGHT) > 0)
        old = changed.filter(pl.col(WEIGHT) < 0).join(new, on=[KEY, RANK_COLUMN], how="anti")
        out = pl.concat([new, old]).with_columns((pl.col(WEIGHT) < 0).alias(DELETE))
        hidden = [DELETE]
        if time_column := self._operation.time_column:
            out = out.with_columns(pl.col(time_column).alias(EVENT_TIME))
            hidden.append(EVENT_TIME)
        elif EVENT_TIME in frame.columns:
            out = out.join(groups.select(KEY, pl.col(NEWEST_TIME).alias(EVENT_TIME)), on=KEY)
            hidden.append(EVENT_TIME)
        if self._context.is_ordered:
            hidden.append(ORDER)
        names = [name for name in self._columns if name not in HIDDEN_COLUMNS]
        rank = [] if time_column else [RANK_COLUMN]
        out = out.select(*names, *rank, *hidden)
        for start in range(0, out.height, MAX_OUTPUT_ROWS):
            yield self._context.stream, out.slice(start, MAX_OUTPUT_ROWS)


def _unnest_ranks(found: pl.DataFrame) -> pl.DataFrame:
    """Return the stored rows with their ranks."""
    import polars as pl

    rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(KEY)
    rows = found.select(KEY, BEST_ROWS).explode(BEST_ROWS).unnest(BEST_ROWS)
    return rows.with_columns(rank.alias(RANK_COLUMN))
