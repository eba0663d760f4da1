"""Ordered pages: the multiset of the rows of each group, sorted and divided into pages.

A row is there once, with the number of its copies. A change reads and writes the page in which its
row is; the row of the group has the list of its pages, each with its first row, its number of rows,
and what else a reader stores of it. So a change costs as much as a page and the list of pages.

The order must be total: rows that it ranks alike are equal. The count of a row may be negative for
a while: its removal arrived before the row itself.

Tests: tests/core/operators/changelog/test_counting_aggregate.py and test_retraction_top.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.state import KEY, KEY_INDEX, NO_CLOCK_US, StepState
from headrace.core.operators.changelog.conversion import LIST_PREFIX, explode_rows
from headrace.core.operators.changelog.weighted_rows import merge_rows
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.types.elements import WEIGHT
from headrace.core.types.frames import filter_rows, gather_rows
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

MAX_PAGE_ROWS = 1024
"""The most rows of a page."""

FEW_PAGES, MIN_FILLING = 4, 8
"""The pages of a group are joined when there are more than FEW_PAGES, and the share of the rows
that they might have is less than one in MIN_FILLING."""

GROUP = "__group"
"""The number of a group among those of a batch."""

PAGE = "__page"
"""The number of a page among those of its group."""

SIZE = "__size"
"""The number of rows that are stored in a page."""

TARGET = "__target"
"""The page into which the rows of a page go."""

PART = "__part"
"""The part of a page that has too many rows."""

IS_CHANGE = "__is_change"
"""Whether a row is a change, and not the first row of a page."""

Summarize: TypeAlias = "Callable[[pl.DataFrame, pl.DataFrame, pl.DataFrame], pl.DataFrame]"
"""Adds columns to pages, whose rows and groups are the further arguments."""


@dataclass(frozen=True, slots=True)
class RowOrder:
    """A total order of rows, by expressions."""

    keys: tuple[pl.Expr, ...]
    descending: tuple[bool, ...]
    nulls_last: tuple[bool, ...]

    def sort(self, rows: pl.DataFrame, group: Sequence[str], *last: str) -> pl.DataFrame:
        """Sort rows by these columns, in this order, and then by the `last` columns."""
        before, after = [False] * len(group), [False] * len(last)
        return rows.sort(
            *group,
            *self.keys,
            *last,
            descending=[*before, *self.descending, *after],
            nulls_last=[*before, *self.nulls_last, *after],
        )


@dataclass(frozen=True, slots=True)
class UpdatedPages:
    """The pages of the groups of a batch after its changes."""

    pages: pl.DataFrame
    """All pages of these groups, with GROUP, in order."""
    lists: pl.DataFrame
    """The columns that are stored of each group: the lists of its pages."""
    touched: pl.DataFrame
    """GROUP and PAGE of the pages that were changed, as they were before."""
    written: pl.DataFrame
    """GROUP and PAGE of the pages that were written."""
    rows: pl.DataFrame
    """The rows of the pages that were written, with GROUP and PAGE, in order by these."""


def get_pages_columns(prefix: str, entry: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """Return the columns of the row of a group with its pages; `entry` are those of a page."""
    import polars as pl

    columns = {PAGE: pl.Int64(), SIZE: pl.Int64(), **entry}
    return {f"{prefix}{name}": pl.List(type) for name, type in columns.items()}


class OrderedPages:
    """The ordered pages of the groups of a step."""

    def __init__(
        self,
        state: StepState,
        name: str,
        grouping: GroupingKey,
        columns: Mapping[str, pl.DataType],
        order: RowOrder,
        group_columns: Sequence[str],
        counts: Sequence[pl.Expr],
        page_rows: int = MAX_PAGE_ROWS,
        summarize: Summarize = lambda pages, rows, groups: pages,
    ) -> None:
        """`columns` are those of a row, `group_columns` those with the pages of a group.

        `counts` are computed from the rows of a page when it is written, and `summarize` adds more.
        """
        import polars as pl

        self._columns = list(columns)
        self._types = {**columns, WEIGHT: pl.Int64()}
        self._order, self._counts, self._summarize = order, list(counts), summarize
        self._page_rows = page_rows
        self._key = list(grouping.internal_names)
        self._group_columns = list(group_columns)
        self._prefix = self._group_columns[0].removesuffix(PAGE)
        self._entry = [each.removeprefix(self._prefix) for each in self._group_columns]
        lists = {f"{LIST_PREFIX}{name}": pl.List(type) for name, type in self._types.items()}
        self._lists = list(lists)
        self._table = state.open_table(
            name, {**grouping.types, PAGE: pl.Int64(), **lists}, tuple(self._key)
        )

    @property
    def deferred_rows(self) -> int:
        """The number of earlier rows that the next calls work on."""
        return self._table.estimate_deferred_rows(NO_CLOCK_US)

    def list_pages(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Return the pages of groups in order, with GROUP; the groups have `group_columns`."""
        listed = groups[[GROUP, *self._group_columns]]
        numbers = groups[self._group_columns[0]]
        if numbers.null_count():
            listed = filter_rows(listed, numbers.is_not_null())
        return explode_rows(listed, self._prefix)

    def update(
        self, changes: pl.DataFrame, groups: pl.DataFrame, pages: pl.DataFrame
    ) -> UpdatedPages:
        """Apply changes, which have GROUP and WEIGHT, to groups with these pages, which are listed.

        The groups have GROUP, which numbers them from 0, KEY and the columns of the key.
        """
        if not changes.height:
            nothing = pages[[GROUP, PAGE]].clear()
            lists = groups.select(*self._group_columns)
            return UpdatedPages(pages, lists, nothing, nothing, self._read_nothing())
        if have_several(pages):
            return self._update_pages(changes, groups, pages)
        return self._update_single_pages(changes, groups, pages)

    def _update_single_pages(
        self, changes: pl.DataFrame, groups: pl.DataFrame, pages: pl.DataFrame
    ) -> UpdatedPages:
        """Apply changes to groups with one page at most."""
        import polars as pl

        numbers = pl.zeros(groups.height, pl.Int64(), eager=True).alias(PAGE)
        numbers = numbers.scatter(pages[GROUP], pages[PAGE])
        touched, untouched = groups[[GROUP]].hstack([numbers]), pages[:0]
        if changes[GROUP].n_unique() < groups.height:
            is_touched = touched[GROUP].is_in(changes[GROUP].unique().implode())
            touched = filter_rows(touched, is_touched)
            untouched = filter_rows(pages, ~is_touched.gather(pages[GROUP]))
            pages = filter_rows(pages, is_touched.gather(pages[GROUP]))
        changes = changes.hstack([numbers.gather(changes[GROUP])])
        stored = self.read(pages, groups)
        rows = merge_rows(pl.concat([stored, changes[stored.columns]]))
        rows, is_split = self._split_pages(self._order.sort(rows, (GROUP,)), pages)
        new_pages = self._write_pages(rows, groups)
        if is_split or new_pages.height < touched.height:
            self._remove_empty(touched, new_pages, groups)
        pages = new_pages[[GROUP, *self._entry]]
        if untouched.height:
            pages = pl.concat([pages, untouched.select(pages.columns)])
            pages = pages.sort(GROUP, maintain_order=True)
        lists = self._list_by_group(pages, groups)
        return UpdatedPages(pages, lists, touched, new_pages[[GROUP, PAGE]], rows)

    def _update_pages(
        self, changes: pl.DataFrame, groups: pl.DataFrame, pages: pl.DataFrame
    ) -> UpdatedPages:
        """Apply changes to the pages in which their rows are."""
        import polars as pl

        changes = self._assign_pages(merge_rows(changes), pages)
        touched = changes.select(GROUP, PAGE).unique(maintain_order=True)
        sparse = self._find_sparse_groups(pages)
        if sparse is not None:
            changes, all_pages = _replace_pages(changes, sparse), pages.select(GROUP, PAGE)
            joined = all_pages.join(sparse, on=GROUP, how="semi")
            touched = pl.concat([touched.join(sparse, on=GROUP, how="anti"), joined])
        stored = self.read(touched, groups)
        if sparse is not None:
            stored = _replace_pages(stored, sparse)
        rows = merge_rows(pl.concat([stored, changes[stored.columns]]))
        rows, is_split = self._split_pages(self._order.sort(rows, (GROUP, PAGE)), pages)
        new_pages = self._write_pages(rows, groups)
        if is_split or new_pages.height < touched.height:
            self._remove_empty(touched, new_pages, groups)
        untouched = pages.join(touched, on=[GROUP, PAGE], how="anti")
        columns = [GROUP, *self._entry]
        pages = pl.concat([untouched[columns], new_pages[columns]])
        pages = self._order.sort(pages, (GROUP,))  # their numbers say nothing of their order
        lists = self._list_by_group(pages, groups)
        return UpdatedPages(pages, lists, touched, new_pages[[GROUP, PAGE]], rows)

    def remove(
        self, removed: pl.DataFrame, updated: UpdatedPages, groups: pl.DataFrame
    ) -> UpdatedPages:
        """Remove pages, with their rows, and return the others."""
        if not removed.height:
            return updated
        self._table.remove(_encode_pages(removed, groups))
        pages = updated.pages.join(removed, on=[GROUP, PAGE], how="anti", maintain_order="left")
        return replace(updated, pages=pages, lists=self._list_by_group(pages, groups))

    def remove_groups(self, groups: pl.DataFrame) -> None:
        """Remove all pages of groups, which have GROUP, KEY and `group_columns`."""
        self._table.remove(_encode_pages(self.list_pages(groups), groups))

    def _remove_empty(
        self, touched: pl.DataFrame, written: pl.DataFrame, groups: pl.DataFrame
    ) -> None:
        """Remove the pages that were changed and not written: they have no rows."""
        empty = touched.join(written, on=[GROUP, PAGE], how="anti")
        self._table.remove(_encode_pages(empty, groups))

    def read(self, pages: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of pages, with GROUP and PAGE."""
        if not pages.height:
            return self._read_nothing()
        found = self._table.find(_encode_pages(pages, groups))
        lists = found[self._lists]
        read = pages[[GROUP, PAGE]]
        if found.height < read.height:
            read = gather_rows(read, found[KEY_INDEX])
        return explode_rows(read.hstack(lists.get_columns()))

    def read_updated(
        self, pages: pl.DataFrame, groups: pl.DataFrame, updated: UpdatedPages
    ) -> pl.DataFrame:
        """Return the rows of pages, with GROUP and PAGE; those that were written are at hand.

        If these are all, and each group has one page, the rows are in order.
        """
        import polars as pl

        pages = pages[[GROUP, PAGE]]
        if pages.equals(updated.written):
            return updated.rows
        at_hand = updated.rows.join(pages, on=[GROUP, PAGE], how="semi")
        other = pages.join(updated.rows, on=[GROUP, PAGE], how="anti")
        read = self.read(other, groups)
        return pl.concat([at_hand.select(read.columns), read])

    def _read_nothing(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(schema={GROUP: pl.UInt32(), PAGE: pl.Int64(), **self._types})

    def _assign_pages(self, changes: pl.DataFrame, pages: pl.DataFrame) -> pl.DataFrame:
        """Add the page of each change: the last one whose first row is not greater."""
        import polars as pl

        columns = [GROUP, *self._columns, WEIGHT, PAGE, IS_CHANGE]
        firsts = pages.with_columns(
            pl.lit(None, dtype=pl.Int64).alias(WEIGHT), pl.lit(False).alias(IS_CHANGE)
        )
        new = changes.with_columns(
            pl.lit(None, dtype=pl.Int64).alias(PAGE), pl.lit(True).alias(IS_CHANGE)
        )
        both = pl.concat([firsts.select(columns), new.select(columns)])
        ordered = self._order.sort(both, (GROUP,), IS_CHANGE)
        # Rows before the first page go into that.
        page = pl.col(PAGE).forward_fill().backward_fill().over(GROUP).fill_null(0)
        return ordered.with_columns(page).filter(IS_CHANGE).drop(IS_CHANGE)

    def _find_sparse_groups(self, pages: pl.DataFrame) -> pl.DataFrame | None:
        """Return the groups whose pages are nearly empty, with the page that all of them become."""
        import polars as pl

        filling = pages.group_by(GROUP).agg(pl.len(), pl.col(SIZE).sum(), pl.col(PAGE).min())
        sparse = filling.filter(
            pl.col("len") > FEW_PAGES,
            pl.col(SIZE) * MIN_FILLING < pl.col("len") * self._page_rows,
        )
        return sparse.select(GROUP, pl.col(PAGE).alias(TARGET)) if sparse.height else None

    def _split_pages(self, rows: pl.DataFrame, pages: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
        """Divide pages with too many rows into halves of full pages; new ones get new numbers.

        Returns the rows, and whether there are new pages.
        """
        import polars as pl

        of_page = (GROUP, PAGE)
        if rows.height <= self._page_rows:
            return rows, False
        if rows.group_by(of_page).len()["len"].max() <= self._page_rows:  # type: ignore[operator]
            return rows, False
        part = pl.int_range(pl.len()) // (self._page_rows // 2)
        part = pl.when(pl.len() > self._page_rows).then(part).otherwise(0)
        rows = rows.with_columns(part.over(of_page).alias(PART))
        is_new = pl.col(PART) > 0
        parts = rows.select(*of_page, PART).unique(maintain_order=True)
        last = pages.group_by(GROUP).agg(pl.col(PAGE).max().alias(TARGET))
        next_number = pl.col(TARGET).fill_null(0) + is_new.cast(pl.Int64).cum_sum().over(GROUP)
        numbered = parts.join(last, on=GROUP, how="left", maintain_order="left").with_columns(
            pl.when(is_new).then(next_number).otherwise(PAGE).alias(TARGET)
        )
        joined = rows.join(numbered, on=[*of_page, PART], maintain_order="left")
        return joined.drop(PAGE, PART).rename({TARGET: PAGE}), True

    def _write_pages(self, rows: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
        """Store the rows of pages, which are sorted, and return the pages with their entries."""
        import polars as pl

        pages = rows.group_by(GROUP, PAGE, maintain_order=True).agg(
            pl.len().cast(pl.Int64).alias(SIZE),
            *self._counts,
            *(pl.col(name).first() for name in self._columns),
            *(pl.col(name).alias(f"{LIST_PREFIX}{name}") for name in self._types),
        )
        if pages.height:
            keys = gather_rows(groups[self._key], pages[GROUP]) if self._key else pl.DataFrame()
            keyed = [_encode_pages(pages, groups), *keys.get_columns()]
            self._table.put(pages.hstack(keyed))
        stored = set(self._lists)
        summary = pages[[name for name in pages.columns if name not in stored]]
        return self._summarize(summary, rows, groups)

    def _list_by_group(self, pages: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
        """Return the lists of the pages of each group; null where it has none."""
        import polars as pl

        lists = pages.group_by(GROUP, maintain_order=True).agg(
            pl.col(name).alias(f"{self._prefix}{name}") for name in self._entry
        )
        if lists.height < groups.height:
            lists = groups.select(GROUP).join(lists, on=GROUP, how="left", maintain_order="left")
        return lists[self._group_columns]


def have_several(pages: pl.DataFrame) -> bool:
    """Whether any group has several of these pages."""
    return pages.height > 1 and bool(pages[GROUP].is_duplicated().any())


def _replace_pages(rows: pl.DataFrame, targets: pl.DataFrame) -> pl.DataFrame:
    """Replace the pages of rows in these groups by the TARGET of the group."""
    import polars as pl

    joined = rows.join(targets, on=GROUP, how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce(TARGET, PAGE).alias(PAGE)).drop(TARGET)


def _encode_pages(pages: pl.DataFrame, groups: pl.DataFrame) -> pl.Series:
    """Return the keys of pages in the table."""
    import polars as pl

    keys = groups[KEY].gather(pages[GROUP])
    numbers = pages[PAGE].cast(pl.String)
    return (keys + "/" + numbers).alias(KEY)
