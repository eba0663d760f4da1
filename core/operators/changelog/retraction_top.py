"""`top` over retractions: the rows of each group are stored in the order of their ranks.

They are in `ordered_pages`, so a change reads and writes one page of its group, and the first rows
are read again only if a page that has some of them has changed. The emitted rows of a group are
stored as well, to find the ranks that change.

Older versions stored rows in the order of their arrival. They are ranked when the first rows arrive
after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY, NO_CLOCK_US, KeyedTable
from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.typed import ColumnReference
from headrace.core.operators.changelog.expiring_groups import select_expired_groups
from headrace.core.operators.changelog.ordered_pages import (
    GROUP,
    MAX_PAGE_ROWS,
    PAGE,
    OrderedPages,
    RowOrder,
    UpdatedPages,
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
from headrace.core.types.frames import filter_rows, gather_rows

if TYPE_CHECKING:
    import polars as pl

PAGES_PREFIX = "__pages."
"""The prefix of the columns with the pages of a group."""

RANKING_STATE = "ranking"
"""The name of the table with the pages of rows."""

COUNT = "__count"
"""The number of copies of the rows of a page that are there."""

IS_TOUCHED = "__touched"
"""Whether the first rows of a group may have changed."""

EARLIER_ROW = "__earlier"
"""The number of the emitted row at a rank."""

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
        yield from self._emit_changes(groups, ranked, frame)

    def forget_groups(self, groups: pl.DataFrame, until_us: int) -> None:
        """Remove those of these groups whose newest row is not later than this time."""
        assert self._states is not None, "it has rows"
        table, pages = self._states
        found = table.find(groups[KEY])
        expired = select_expired_groups(groups, found, until_us).with_row_index(GROUP)
        pages.remove_groups(expired)
        table.remove(expired[KEY])

    def _open(self, types: Mapping[str, pl.DataType]) -> tuple[KeyedTable, OrderedPages]:
        """Open the states; `types` are the types of the input columns."""
        import polars as pl

        hidden = (EVENT_TIME, DELETE, WEIGHT)
        row = {
            n: t for n, t in types.items() if n not in hidden and self._operation.stores_column(n)
        }
        self._columns = tuple(row)
        self._group_columns = get_ranked_columns(row)
        state = self._context.state
        emitted = {BEST_ROWS: pl.List(pl.Struct(row)), NEWEST_TIME: to_polars(TIMESTAMP)}
        table = state.open_table(KEYS_STATE, {**emitted, **self._group_columns})
        self._order = build_row_order(self._operation.by, row)
        pages = OrderedPages(
            state,
            RANKING_STATE,
            self._grouping,
            row,
            self._order,
            list(self._group_columns),
            (self._count_rows().alias(COUNT),),
            self._page_rows,
        )
        if state.get_restored_columns(ROWS_STATE) is not None:
            stored, key = {**self._grouping.types, **row}, self._grouping.internal_names
            self._stored_rows = WeightedRows(state, ROWS_STATE, key, stored)
        self._states = table, pages
        return self._states

    def _count_rows(self) -> pl.Expr:
        """Return what is counted of the rows of a page: the ranks that they take at least."""
        import polars as pl

        return pl.col(WEIGHT).clip(0).sum()

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

        Returns their groups as they were, with FIRST_ROWS, and the first rows of those in which
        these may have changed.
        """
        touched = find_groups(changes, self._grouping)
        groups = add_stored_values(touched, table.find(touched[KEY])).with_row_index(GROUP)
        numbered = changes.join(groups[[KEY, GROUP]], on=KEY, maintain_order="left")
        numbered = numbered[[GROUP, *self._columns, WEIGHT]]
        before = pages.list_pages(groups)
        updated = self._select_stored(pages.update(numbered, groups, before), groups, pages)
        is_touched = self._mask_touched(groups, before, updated)
        ranked = self._rank_first_rows(is_touched, updated, groups, pages)
        groups = groups.hstack([self._list_first_rows(groups, ranked, is_touched)])
        self._store_groups(groups, updated, table)
        return groups, ranked

    def _select_stored(
        self, updated: UpdatedPages, groups: pl.DataFrame, pages: OrderedPages
    ) -> UpdatedPages:
        """Return the pages that stay stored: all, as any row may become a first one."""
        return updated

    def _mask_touched(
        self, groups: pl.DataFrame, before: pl.DataFrame, updated: UpdatedPages
    ) -> pl.Series:
        """Return whether a page with first rows of each group was changed."""
        import polars as pl

        changed, first = updated.touched, self._select_first_pages(before)
        if first.height < before.height:
            changed = changed.join(first, on=[GROUP, PAGE], how="semi")
        mask = pl.repeat(True, groups.height, eager=True)
        return mask.scatter(before[GROUP], False).scatter(changed[GROUP], True)

    def _select_first_pages(self, pages: pl.DataFrame) -> pl.DataFrame:
        """Return the pages of each group that have its first rows."""
        import polars as pl

        if not have_several(pages):
            return pages
        copies_before = pl.col(COUNT).cum_sum().over(GROUP) - pl.col(COUNT)
        return pages.filter(copies_before < self._operation.rows)

    def _rank_first_rows(
        self,
        is_touched: pl.Series,
        updated: UpdatedPages,
        groups: pl.DataFrame,
        pages: OrderedPages,
    ) -> pl.DataFrame:
        """Return the first rows of touched groups with their ranks and GROUP, in order."""
        touched = updated.pages
        if not is_touched.all():
            touched = filter_rows(touched, is_touched.gather(touched[GROUP]))
        first = self._select_first_pages(touched)
        there = pages.read_updated(first, groups, updated)
        is_ordered = there is updated.rows and not have_several(first)
        if not (there[WEIGHT] > 0).all():
            there = filter_rows(there, there[WEIGHT] > 0)
        if not is_ordered:
            there = self._order.sort(there, (GROUP,))
        return self._rank_rows(there[[GROUP, *self._columns, WEIGHT]])

    def _rank_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the first rows of these, which are in order, once for each copy, with ranks."""
        import polars as pl

        copies = rows.with_columns(pl.col(WEIGHT).clip(upper_bound=self._operation.rows))
        rows = repeat_rows(copies)
        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(GROUP).alias(RANK_COLUMN)
        ranks = rows.select(rank)[RANK_COLUMN]
        return filter_rows(rows.hstack([ranks]), ranks <= self._operation.rows)

    def _list_first_rows(
        self, groups: pl.DataFrame, ranked: pl.DataFrame, is_touched: pl.Series
    ) -> pl.Series:
        """Return FIRST_ROWS of groups; those of groups that were not touched are as they were."""
        import polars as pl

        lists = ranked.group_by(GROUP, maintain_order=True).agg(
            pl.struct(self._columns).alias(FIRST_ROWS)
        )
        first = lists[FIRST_ROWS]
        if lists.height < groups.height:
            at = pl.repeat(None, groups.height, dtype=pl.UInt32, eager=True)
            numbers = pl.int_range(lists.height, dtype=pl.UInt32, eager=True)
            first = first.gather(at.scatter(lists[GROUP], numbers))
            both = pl.select(first, groups[BEST_ROWS], is_touched.alias(IS_TOUCHED))
            kept = pl.when(IS_TOUCHED).then(FIRST_ROWS).otherwise(BEST_ROWS)
            first = both.select(kept.fill_null([]).alias(FIRST_ROWS))[FIRST_ROWS]
        return first

    def _store_groups(self, groups: pl.DataFrame, updated: UpdatedPages, table: KeyedTable) -> None:
        """Store FIRST_ROWS and the pages of groups.

        One without pages is removed; with a `ttl`, when it expires: until then its newest row
        counts.
        """
        best = groups[FIRST_ROWS].alias(BEST_ROWS)
        stored = groups[[KEY, NEWEST_TIME]].hstack([best, *updated.lists.get_columns()])
        is_empty = stored[next(iter(self._group_columns))].is_null()
        if self._operation.ttl is None and is_empty.any():
            table.remove(groups[KEY].filter(is_empty))
            stored = filter_rows(stored, ~is_empty)
        if stored.height:
            table.put(stored)

    def _emit_changes(
        self, groups: pl.DataFrame, ranked: pl.DataFrame, frame: pl.DataFrame
    ) -> Iterator[Output]:
        """Emit the rows at ranks that have changed, and deletes of ranks without a row."""
        import polars as pl

        is_changed = groups[FIRST_ROWS].ne_missing(groups[BEST_ROWS])
        if not is_changed.any():
            return
        before = _unnest_rows(filter_rows(groups[[GROUP, BEST_ROWS]], is_changed))
        after = filter_rows(ranked, is_changed.gather(ranked[GROUP]))
        out, change = self._compare_rows(before, after)
        hidden = [change]
        if time_column := self._operation.time_column:
            out = out.with_columns(pl.col(time_column).alias(EVENT_TIME))
            hidden.append(EVENT_TIME)
        elif EVENT_TIME in frame.columns:
            out = out.hstack([self._list_times(groups, out)])
            hidden.append(EVENT_TIME)
        if self._context.is_ordered:
            hidden.append(ORDER)
        rank = [] if time_column else [RANK_COLUMN]
        out = out[[*self._shown_columns, *rank, *hidden]]
        for start in range(0, out.height, MAX_OUTPUT_ROWS):
            yield self._context.stream, out.slice(start, MAX_OUTPUT_ROWS)

    def _list_times(self, groups: pl.DataFrame, rows: pl.DataFrame) -> pl.Series:
        """Return the event times of emitted rows: those of the last changes of their groups."""
        return groups[NEWEST_TIME].gather(rows[GROUP]).alias(EVENT_TIME)

    @property
    def _shown_columns(self) -> list[str]:
        """The stored columns that are the user's."""
        return [name for name in self._columns if name not in HIDDEN_COLUMNS]

    def _compare_rows(self, before: pl.DataFrame, after: pl.DataFrame) -> tuple[pl.DataFrame, str]:
        """Return the changes of the first rows, and the column that says what a change is.

        The rows `before` have no ranks; those `after` have.
        """
        import polars as pl

        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(GROUP).alias(RANK_COLUMN)
        new, removed = _compare_ranks(before.with_columns(rank), after, self._columns)
        columns = [GROUP, *self._columns, RANK_COLUMN]
        deletes = (
            pl.repeat(False, new.height, eager=True),
            pl.repeat(True, removed.height, eager=True),
        )
        out = pl.concat(
            rows[columns].hstack([delete.alias(DELETE)])
            for rows, delete in zip((new, removed), deletes, strict=True)
        )
        return out, DELETE


def build_row_order(by: Sequence[Ranking], columns: Iterable[str]) -> RowOrder:
    """Return the order of ranks; rows that are ranked alike are ordered by position and values.

    The values are in the order of their names: new columns are null in all rows of a savepoint, and
    leave the order as it is.
    """
    import polars as pl

    by = [each for each in by if not each.is_constant]
    named = {each.value.name for each in by if isinstance(each.value, ColumnReference)}
    ties = [*get_order_columns(), *(pl.col(n) for n in sorted(columns) if n not in (*named, ORDER))]
    ascending = (False,) * len(ties)
    return RowOrder(
        (*(to_expr(each.value) for each in by), *ties),
        (*(each.descending for each in by), *ascending),
        (*(each.nulls_last for each in by), *ascending),
    )


def _unnest_rows(groups: pl.DataFrame) -> pl.DataFrame:
    """Return the emitted rows of groups, in order."""
    lists = filter_rows(groups, groups[BEST_ROWS].list.len() > 0)
    rows = lists.explode(BEST_ROWS)
    return rows.drop(BEST_ROWS).hstack(rows[BEST_ROWS].struct.unnest().get_columns())


def _compare_ranks(
    before: pl.DataFrame, after: pl.DataFrame, columns: Sequence[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows that are new at their ranks, and those whose ranks have no row any more."""
    import polars as pl

    ranks = [GROUP, RANK_COLUMN]
    numbered = before[ranks].with_row_index(EARLIER_ROW)
    at = after[ranks].join(numbered, on=ranks, how="left", maintain_order="left")[EARLIER_ROW]
    earlier = gather_rows(before[list(columns)], at)
    earlier.columns = [f"{EARLIER_ROW}.{name}" for name in columns]
    differs = (pl.col(name).ne_missing(pl.col(f"{EARLIER_ROW}.{name}")) for name in columns)
    is_new = after.hstack(earlier).select(reduce(or_, differs, pl.lit(at.is_null())))
    is_removed = pl.repeat(True, before.height, eager=True).scatter(at.drop_nulls(), False)
    return filter_rows(after, is_new.to_series()), filter_rows(before, is_removed)
