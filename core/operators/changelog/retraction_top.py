"""`top` over retractions: the rows of each group are stored in the order of their ranks.

They are in `ordered_pages`, so a change reads and writes one page of its group, and the first rows
are read again only if a page that has some of them has changed. The emitted rows of a group are
stored as well, to find the ranks that change.

Older versions stored rows in the order of their arrival. They are ranked when the first rows arrive
after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY, NO_CLOCK_US, KeyedTable
from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.typed import ColumnReference
from headrace.core.operators.changelog.ordered_pages import (
    GROUP,
    MAX_PAGE_ROWS,
    PAGE,
    OrderedPages,
    RowOrder,
    UpdatedPages,
    consolidate_rows,
    get_pages_columns,
    have_several,
)
from headrace.core.operators.changelog.rows import (
    NEWEST_TIME,
    ROWS_STATE,
    add_stored_values,
    find_groups,
)
from headrace.core.operators.changelog.weighted_rows import (
    WeightedRows,
    get_weights,
    repeat_rows,
    subtract_rows,
)
from headrace.core.operators.folds import get_order_columns, get_row_types
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
from headrace.core.types.elements import DELETE, EVENT_TIME, HIDDEN_COLUMNS, ORDER, WEIGHT

if TYPE_CHECKING:
    import polars as pl

PAGES_PREFIX = "__pages."
"""The prefix of the columns with the pages of a group."""

RANKING_STATE = "ranking"
"""The name of the table with the pages of rows."""

COUNT = "__count"
"""The number of copies of the rows of a page that are there."""


IS_CHANGED = "__changed"
"""Whether the first rows of a group may have changed."""

FIRST_ROWS = "__first"
"""The list of the first rows of a group, after the changes."""


def get_ranked_columns(row: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """Return the columns of the row of a group with its pages; `row` are those of its rows."""
    import polars as pl

    return get_pages_columns(PAGES_PREFIX, {COUNT: pl.Int64(), **row})


class RetractionTopOperator(StatelessOperator):
    """The operator of `top` over retractions."""

    def __init__(
        self, operation: nodes.Top, context: KeyedContext, page_rows: int = MAX_PAGE_ROWS
    ) -> None:
        self._operation = operation
        self._context = context
        self._page_rows = page_rows
        self._grouping = GroupingKey(operation.key)
        self._states: tuple[KeyedTable, OrderedPages] | None = None
        self._columns: tuple[str, ...] = ()
        self._group_columns: dict[str, pl.DataType] = {}
        self._stored_rows: WeightedRows | None = None
        columns = context.state.get_restored_columns(KEYS_STATE)
        if columns is not None:
            self._open(get_row_types(columns, BEST_ROWS))

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the ranks that change with these rows."""
        if not frame.height:
            return
        table, pages = self._states or self._open(frame.schema)
        if self._stored_rows is not None:
            yield from request_offload(self._stored_rows.rows)
            self._rank_stored_rows(self._stored_rows, table, pages)
            self._stored_rows = None
        yield from request_offload(table.estimate_deferred_rows(NO_CLOCK_US) + pages.deferred_rows)
        rows = self._grouping.project_rows(
            frame.with_columns(get_weights(frame)), (*self._columns, WEIGHT)
        )
        changes = self._grouping.encode_keys(rows)
        groups, ranked = self._update_groups(changes, table, pages)
        yield from self._emit_changes(groups.filter(IS_CHANGED), ranked, frame)

    def _open(self, types: Mapping[str, pl.DataType]) -> tuple[KeyedTable, OrderedPages]:
        """Open the states; `types` are the types of the input columns."""
        import polars as pl

        hidden = (EVENT_TIME, DELETE, WEIGHT)
        row = {
            n: t for n, t in types.items() if n not in hidden and self._operation.stores_column(n)
        }
        self._columns = tuple(row)
        self._group_columns = get_ranked_columns(row)
        state, copies = self._context.state, pl.col(WEIGHT).clip(0).sum()
        emitted = {BEST_ROWS: pl.List(pl.Struct(row)), NEWEST_TIME: to_polars(TIMESTAMP)}
        table = state.open_table(KEYS_STATE, {**emitted, **self._group_columns})
        self._order = _build_row_order(self._operation.by, row)
        pages = OrderedPages(
            state,
            RANKING_STATE,
            self._grouping,
            row,
            self._order,
            list(self._group_columns),
            (copies.alias(COUNT),),
            self._page_rows,
        )
        if state.get_restored_columns(ROWS_STATE) is not None:
            stored, key = {**self._grouping.types, **row}, self._grouping.internal_names
            self._stored_rows = WeightedRows(state, ROWS_STATE, key, stored)
        self._states = table, pages
        return self._states

    def _rank_stored_rows(
        self, stored: WeightedRows, table: KeyedTable, pages: OrderedPages
    ) -> None:
        """Store the rows of an older version in pages; what was emitted stays."""
        rows = self._grouping.encode_keys(stored.take_all())
        if rows.height:
            self._update_groups(rows, table, pages)

    def _update_groups(
        self, changes: pl.DataFrame, table: KeyedTable, pages: OrderedPages
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Apply changes, which have KEY and WEIGHT.

        Returns their groups as they were, with IS_CHANGED, and the first rows of those in which
        these may have changed.
        """

        touched = find_groups(changes, self._grouping)
        groups = add_stored_values(touched, table.find(touched[KEY])).with_row_index(GROUP)
        numbered = changes.join(groups.select(KEY, GROUP), on=KEY, maintain_order="left")
        numbered = numbered.select(GROUP, *self._columns, WEIGHT)
        before = pages.list_pages(groups)
        updated = pages.update(consolidate_rows(numbered, (GROUP, *self._columns)), groups, before)
        groups = groups.with_columns(self._mask_changed(groups, before, updated))
        ranked = self._rank_first_rows(groups, updated, pages)
        self._store_groups(groups, ranked, updated, table)
        return groups, ranked

    def _mask_changed(
        self, groups: pl.DataFrame, before: pl.DataFrame, updated: UpdatedPages
    ) -> pl.Series:
        """Return IS_CHANGED of groups: whether a page with first rows was changed."""
        import polars as pl

        changed, first = updated.touched, self._select_first_pages(before)
        if first.height < before.height:
            changed = changed.join(first, on=[GROUP, PAGE], how="semi")
        mask = pl.repeat(True, groups.height, eager=True).alias(IS_CHANGED)
        return mask.scatter(before[GROUP], False).scatter(changed[GROUP], True)

    def _select_first_pages(self, pages: pl.DataFrame) -> pl.DataFrame:
        """Return the pages of each group that have its first rows."""
        import polars as pl

        if not have_several(pages):
            return pages
        copies_before = pl.col(COUNT).cum_sum().over(GROUP) - pl.col(COUNT)
        return pages.filter(copies_before < self._operation.rows)

    def _rank_first_rows(
        self, groups: pl.DataFrame, updated: UpdatedPages, pages: OrderedPages
    ) -> pl.DataFrame:
        """Return the first rows of changed groups with their ranks, GROUP and KEY."""
        import polars as pl

        changed = updated.pages.filter(groups[IS_CHANGED].gather(updated.pages[GROUP]))
        first = self._select_first_pages(changed)
        rows = pages.read_updated(first, groups, updated)
        there = rows.filter(pl.col(WEIGHT) > 0)
        if have_several(first) or rows is not updated.rows:
            there = self._order.sort(there, (GROUP,))
        copies = there.with_columns(pl.col(WEIGHT).clip(upper_bound=self._operation.rows))
        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(GROUP).alias(RANK_COLUMN)
        ranked = repeat_rows(copies).with_columns(rank)
        first = ranked.filter(pl.col(RANK_COLUMN) <= self._operation.rows)
        return first.with_columns(groups[KEY].gather(first[GROUP]))

    def _store_groups(
        self, groups: pl.DataFrame, ranked: pl.DataFrame, updated: UpdatedPages, table: KeyedTable
    ) -> None:
        """Store the first rows and the pages of groups; one without pages is removed."""
        import polars as pl

        first = ranked.group_by(GROUP, maintain_order=True).agg(
            pl.struct(self._columns).alias(FIRST_ROWS)
        )
        groups = groups.drop(self._group_columns).hstack(updated.lists.get_columns())
        groups = groups.join(first, on=GROUP, how="left", maintain_order="left")
        best = pl.when(IS_CHANGED).then(FIRST_ROWS).otherwise(BEST_ROWS)
        is_there = pl.col(next(iter(self._group_columns))).is_not_null()
        there = groups.with_columns(best.fill_null([]).alias(BEST_ROWS)).filter(is_there)
        if there.height:
            table.put(there.select(KEY, BEST_ROWS, NEWEST_TIME, *self._group_columns))
        if there.height < groups.height:
            table.remove(groups.filter(~is_there)[KEY])

    def _emit_changes(
        self, groups: pl.DataFrame, after: pl.DataFrame, frame: pl.DataFrame
    ) -> Iterator[Output]:
        """Emit the rows at ranks that have changed, and deletes of ranks without a row."""
        import polars as pl

        row = [KEY, *self._columns, RANK_COLUMN]
        changed = subtract_rows(after.select(row), _unnest_ranks(groups).select(row))
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


def _build_row_order(by: Sequence[Ranking], columns: Iterable[str]) -> RowOrder:
    """Return the order of ranks; rows that are ranked alike are ordered by position and values.

    The values are in the order of their names: new columns are null in all rows of a savepoint, and
    leave the order as it is.
    """
    import polars as pl

    named = {each.value.name for each in by if isinstance(each.value, ColumnReference)}
    ties = [*get_order_columns(), *(pl.col(n) for n in sorted(columns) if n not in (*named, ORDER))]
    ascending = (False,) * len(ties)
    return RowOrder(
        (*(to_expr(each.value) for each in by), *ties),
        (*(each.descending for each in by), *ascending),
        (*(each.nulls_last for each in by), *ascending),
    )


def _unnest_ranks(groups: pl.DataFrame) -> pl.DataFrame:
    """Return the emitted rows with their ranks."""
    import polars as pl

    rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(KEY)
    lists = groups.select(KEY, BEST_ROWS).filter(pl.col(BEST_ROWS).list.len() > 0)
    rows = lists.explode(BEST_ROWS).unnest(BEST_ROWS)
    return rows.with_columns(rank.alias(RANK_COLUMN))
