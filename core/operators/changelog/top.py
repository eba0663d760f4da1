"""`top` over a changelog.

A list has the first rows of its group, or all rows where it is complete. A row that is not in the
list ranks after its last row; so does, as far as is known, a changed row that now ranks after that.

The best current rows of each group are emitted rank by rank. For each group a list is stored, best
first, that is longer than the number of emitted rows. While it has all rows of the group, it is the
only state. For a larger group every row is stored as well: rows outside the list rank after its
last row, so changes are compared with the list alone. Only when too many rows have left the list is
its group ranked again from all rows. (Counts that grow never cause that; rows that become worse
cause it once in as many changes as the list has spare rows.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY, NO_CLOCK_US, KeyedTable
from headrace.core.operators.changelog.rows import (
    IS_DELETE,
    NEWEST_TIME,
    ROW_ID,
    VERSION,
    ChangeCompactor,
    VersionedRows,
    add_stored_values,
    find_groups,
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
from headrace.core.plan.nodes import RANK_COLUMN, Ranking
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, HIDDEN_COLUMNS, ORDER

if TYPE_CHECKING:
    import polars as pl


OLD_RANK = "__before"
"""The earlier rank of a row; null for a new row."""


IS_CHANGED = "__changed"
"""Whether a row has changed."""


IS_COMPLETE = "__whole"
"""Whether a list has all rows of its group."""


IS_OUTDATED = "__ghost"
"""Marks the old version of a changed or deleted row: it shows how far the list is known."""


class TopLists:
    """The ranking of lists; `columns` are those of a row, including ROW_ID."""

    def __init__(self, by: Sequence[Ranking], shown: int, columns: Sequence[str]) -> None:
        # Rows that are equal otherwise, with equal positions, have a fixed order by ROW_ID.
        self._ranks = RowRanking(by, shown, (ROW_ID, IS_OUTDATED))
        self._emitted_count = shown
        self._columns = list(columns)

    def rank_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Sort rows, which have IS_CHANGED and IS_OUTDATED, by group and rank."""
        import polars as pl

        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(KEY)
        return self._ranks.sort_rows(rows).with_columns(rank.alias(RANK_COLUMN))

    def apply_changes(
        self, before: pl.DataFrame, changes: pl.DataFrame, groups: pl.DataFrame
    ) -> pl.DataFrame:
        """Apply the changes to the lists, as far as they are known; `groups` have IS_COMPLETE."""
        import polars as pl

        columns = [KEY, *self._columns, OLD_RANK, IS_CHANGED, IS_OUTDATED]
        ghost = pl.col(ROW_ID).is_in(changes[ROW_ID].implode())
        known = before.with_columns(ghost.alias(IS_OUTDATED), pl.lit(False).alias(IS_CHANGED))
        new = changes.filter(~changes[IS_DELETE]).with_columns(
            pl.lit(None, dtype=pl.Int32).alias(OLD_RANK),
            pl.lit(True).alias(IS_CHANGED),
            pl.lit(False).alias(IS_OUTDATED),
        )
        both = pl.concat([known.select(columns), new.select(columns)])
        ranked = self.rank_rows(both.join(groups.select(KEY, IS_COMPLETE), on=KEY))
        last = pl.col(RANK_COLUMN).filter(pl.col(OLD_RANK).is_not_null()).max().over(KEY)
        there = ~pl.col(IS_OUTDATED) & (pl.col(IS_COMPLETE) | (pl.col(RANK_COLUMN) <= last))
        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(KEY)
        return ranked.filter(there).with_columns(rank.alias(RANK_COLUMN))

    def diff_ranks(
        self, before: pl.DataFrame, after: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows at ranks that have changed, and those at ranks that no longer exist."""
        import polars as pl

        was = before.filter(pl.col(OLD_RANK) <= self._emitted_count).rename({OLD_RANK: RANK_COLUMN})
        now = after.filter(pl.col(RANK_COLUMN) <= self._emitted_count)
        other = was.select(KEY, RANK_COLUMN, pl.col(ROW_ID).alias(OLD_RANK))
        pairs = now.drop(OLD_RANK, strict=False).join(other, on=[KEY, RANK_COLUMN], how="left")
        new = pairs.filter(pl.col(IS_CHANGED) | pl.col(ROW_ID).ne_missing(pl.col(OLD_RANK)))
        return new, was.join(now, on=[KEY, RANK_COLUMN], how="anti")


SPARE_ROWS = 64
"""The minimal number of rows that a list may have in addition to those that are emitted."""


RERANK_AFTER = "__due"
"""After this many more changes a group is ranked again from all rows, dropping old versions."""


ROW_COUNT = "__count"


class ChangelogTopOperator(StatelessOperator):
    """The operator of `top` over a changelog."""

    def __init__(
        self, operation: nodes.Top, context: KeyedContext, spare: int = SPARE_ROWS
    ) -> None:
        assert operation.changelog_key is not None, "append-only rows have another operator"
        self._operation = operation
        self._context = context
        self._grouping = GroupingKey(operation.key)
        self._compactor = ChangeCompactor(self._grouping, operation.changelog_key)
        self._list_rows = operation.rows + max(operation.rows, spare)
        self._rerank_rows = 16 * spare
        self._states: tuple[KeyedTable, VersionedRows, TopLists] | None = None
        self._columns: tuple[str, ...] = ()
        columns = context.state.get_restored_columns(KEYS_STATE)
        if columns is not None:
            self._open(get_row_types(columns, BEST_ROWS))

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the ranks that change with these changelog rows."""
        if not frame.height:
            return
        table, versioned_rows, lists = self._states or self._open(frame.schema)
        yield from request_offload(
            table.estimate_deferred_rows(NO_CLOCK_US) + versioned_rows.deferred_rows
        )
        changes = self._compactor.compact(frame, self._columns)
        groups = self._load_groups(find_groups(changes, self._grouping), table)
        before = self._unnest_lists(groups)
        after = lists.apply_changes(before, changes, groups)
        groups, after = self._store_large_groups(groups, after, changes)
        self._store_lists(groups, after, table)
        new, deleted = lists.diff_ranks(before, after)
        yield from self._emit_rows(new, deleted, groups, timed=EVENT_TIME in frame.columns)

    def _open(self, types: Mapping[str, pl.DataType]) -> tuple[KeyedTable, VersionedRows, TopLists]:
        """Open the states; `types` are the types of the input columns."""
        import polars as pl

        hidden_columns = (EVENT_TIME, DELETE, ROW_ID)
        stored_types = {
            n: t
            for n, t in types.items()
            if n not in hidden_columns and self._operation.stores_column(n)
        }
        row = {**stored_types, ROW_ID: pl.String()}
        self._columns = tuple(row)
        columns = {
            BEST_ROWS: pl.List(pl.Struct(row)),
            NEWEST_TIME: to_polars(TIMESTAMP),
            IS_COMPLETE: pl.Boolean(),
            VERSION: pl.Int64(),
            RERANK_AFTER: pl.Int64(),
        }
        table = self._context.state.open_table(KEYS_STATE, columns)
        versioned_rows = VersionedRows(self._context.state, self._grouping, row)
        self._states = (
            table,
            versioned_rows,
            TopLists(self._operation.by, self._operation.rows, self._columns),
        )
        return self._states

    def _load_groups(self, touched: pl.DataFrame, table: KeyedTable) -> pl.DataFrame:
        """Join the touched groups with their stored values."""
        import polars as pl

        groups = add_stored_values(touched, table.find(touched[KEY]))
        return groups.with_columns(
            pl.col(IS_COMPLETE).fill_null(True),
            pl.col(VERSION).fill_null(0) + 1,
            pl.col(RERANK_AFTER).fill_null(0),
        )

    def _unnest_lists(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of the stored lists."""
        import polars as pl

        lists = groups.filter(pl.col(BEST_ROWS).is_not_null()).select(KEY, BEST_ROWS)
        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(KEY)
        return lists.explode(BEST_ROWS).unnest(BEST_ROWS).with_columns(rank.alias(OLD_RANK))

    def _store_large_groups(
        self, groups: pl.DataFrame, after: pl.DataFrame, changes: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Store the rows of large groups, and rebuild the lists that are too short."""
        import polars as pl

        assert self._states is not None, "it was opened"
        versioned_rows = self._states[1]
        large_group_changes = changes.join(
            groups.filter(~pl.col(IS_COMPLETE)).select(KEY, VERSION), on=KEY
        )
        versioned_rows.add(large_group_changes)
        groups = _add_counts(groups, large_group_changes, "__change_count")
        groups = _add_counts(groups, after, ROW_COUNT)
        short = (pl.col(ROW_COUNT) < self._operation.rows) | (
            pl.col(RERANK_AFTER) <= pl.col("__change_count")
        )
        groups = groups.with_columns(pl.col(RERANK_AFTER) - pl.col("__change_count"))
        short_groups = groups.filter(~pl.col(IS_COMPLETE) & short)
        if short_groups.height:
            groups, after = self._rebuild_lists(groups, after, short_groups, changes)
        grown = groups.filter(pl.col(IS_COMPLETE) & (pl.col(ROW_COUNT) > self._list_rows))
        if grown.height:
            columns = (KEY, VERSION, *self._grouping.internal_names)
            rows = after.join(grown.select(columns), on=KEY)
            versioned_rows.add(rows.with_columns(pl.lit(False).alias(IS_DELETE)))
            is_grown = pl.col(IS_COMPLETE) & (pl.col(ROW_COUNT) > self._list_rows)
            due = (
                pl.when(is_grown)
                .then(2 * pl.col(ROW_COUNT) + self._rerank_rows)
                .otherwise(pl.col(RERANK_AFTER))
            )
            groups = groups.with_columns(pl.col(IS_COMPLETE) & ~is_grown, due.alias(RERANK_AFTER))
        return groups, after.filter(pl.col(RANK_COLUMN) <= self._list_rows)

    def _rebuild_lists(
        self,
        groups: pl.DataFrame,
        after: pl.DataFrame,
        short_groups: pl.DataFrame,
        changes: pl.DataFrame,
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Rebuild the lists of these groups from all their rows; they then count as complete."""
        import polars as pl

        assert self._states is not None, "it was opened"
        _, versioned_rows, lists = self._states
        is_short = pl.col(KEY).is_in(short_groups[KEY].implode())
        list_rows = after.filter(~is_short)
        stored_rows = versioned_rows.take(short_groups)
        if stored_rows is not None and stored_rows.height:
            rows = self._grouping.encode_keys(stored_rows).with_columns(
                pl.col(ROW_ID).is_in(changes[ROW_ID].implode()).alias(IS_CHANGED),
                pl.lit(None, dtype=pl.Int32).alias(OLD_RANK),
                pl.lit(False).alias(IS_OUTDATED),
                pl.lit(True).alias(IS_COMPLETE),
            )
            list_rows = pl.concat([list_rows, lists.rank_rows(rows).select(list_rows.columns)])
        groups = groups.drop(ROW_COUNT).with_columns(pl.col(IS_COMPLETE) | is_short)
        return _add_counts(groups, list_rows, ROW_COUNT), list_rows

    def _store_lists(self, groups: pl.DataFrame, after: pl.DataFrame, table: KeyedTable) -> None:
        import polars as pl

        best = pl.struct(self._columns).alias(BEST_ROWS)
        lists = after.group_by(KEY, maintain_order=True).agg(best)
        there = groups.drop(BEST_ROWS).join(lists, on=KEY)
        table.put(there.select(KEY, BEST_ROWS, NEWEST_TIME, IS_COMPLETE, VERSION, RERANK_AFTER))
        if there.height < groups.height:
            table.remove(groups.filter(pl.col(ROW_COUNT) == 0)[KEY])

    def _emit_rows(
        self, new: pl.DataFrame, deleted_rows: pl.DataFrame, groups: pl.DataFrame, *, timed: bool
    ) -> Iterator[Output]:
        import polars as pl

        names = [name for name in self._columns if name not in (*HIDDEN_COLUMNS, ROW_ID)]
        place = [ORDER] if self._context.is_ordered else []
        columns = [KEY, *names, RANK_COLUMN, *place, DELETE]
        both = [
            rows.with_columns(pl.lit(deleted).alias(DELETE)).select(columns)
            for rows, deleted in ((new, False), (deleted_rows, True))
        ]
        out = pl.concat(both)
        if timed:
            out = out.join(groups.select(KEY, pl.col(NEWEST_TIME).alias(EVENT_TIME)), on=KEY)
        hidden = [name for name in HIDDEN_COLUMNS if name in out.columns]
        out = out.select(*names, RANK_COLUMN, *hidden)
        for start in range(0, out.height, MAX_OUTPUT_ROWS):
            yield self._context.stream, out.slice(start, MAX_OUTPUT_ROWS)


def _add_counts(groups: pl.DataFrame, rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Add the number of rows of each group to the groups."""
    import polars as pl

    counts = rows.group_by(KEY).agg(pl.len().cast(pl.Int64).alias(name))
    joined = groups.join(counts, on=KEY, how="left", maintain_order="left")
    return joined.with_columns(pl.col(name).fill_null(0))
