"""Sets of values with counts, from which aggregates over retractions are computed.

The values of a group are sorted, and divided into pages. A change reads and writes the page in
which its values are; the row of the group has the list of its pages, each with its first value, its
number of values, and the partial states of its calls. So the results of a group are merged from its
pages, and a change costs as much as a page and the list of pages.

The count of a value may be negative for a while: its removal arrived before the value itself.

Tests: tests/core/operators/changelog/test_counting_aggregate.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.aggregates.counting import normalize_zero
from headrace.core.aggregates.user_aggregates import select_user_calls
from headrace.core.aggregates.value_sets import CallKind, ValueSet, name_values_state
from headrace.core.api.state import KEY, KEY_INDEX, NO_CLOCK_US, StepState
from headrace.core.operators.changelog.conversion import LIST_PREFIX, explode_rows
from headrace.core.operators.changelog.weighted_rows import repeat_rows
from headrace.core.operators.folds import AggregateFold
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import WEIGHT

if TYPE_CHECKING:
    import polars as pl

MAX_PAGE_VALUES = 1024
"""The most values of a page."""

FEW_PAGES, MIN_FILLING = 4, 8
"""The pages of a group are joined when there are more than FEW_PAGES, and the share of the values
that they might have is less than one in MIN_FILLING."""

GROUP = "__group"
"""The number of a group among those of a batch."""

PAGE = "__page"
"""The number of a page among those of its group."""

SIZE = "__size"
"""The number of values that are stored in a page."""

COUNT = "__count"
"""The number of rows with the values of a page, without those whose value is null."""

IS_FILLED = "__filled"
"""Whether any value of a page is there."""

TARGET = "__target"
"""The page into which the values of a page go."""

PART = "__part"
"""The part of a page that has too many values."""

IS_CHANGE = "__is_change"
"""Whether a row is a change, and not the first value of a page."""


def get_value_types(values: ValueSet) -> dict[str, pl.DataType]:
    """Return the types of the columns of a stored value, with its count."""
    import polars as pl

    types = {name: to_polars(type) for name, type in values.columns.items()}
    return {**types, WEIGHT: pl.Int64()}


def get_pages_columns(values: ValueSet, number: int, fold: AggregateFold) -> dict[str, pl.DataType]:
    """Return the columns of the row of a group with the pages of a set."""
    import polars as pl

    entry: dict[str, pl.DataType] = {
        PAGE: pl.Int64(),
        SIZE: pl.Int64(),
        COUNT: pl.Int64(),
        IS_FILLED: pl.Boolean(),
        **{name: to_polars(type) for name, type in values.columns.items()},
        **fold.with_calls(values.select_calls(CallKind.PAGES)).state_columns,
    }
    prefix = _name_pages_prefix(number)
    return {f"{prefix}{name}": pl.List(type) for name, type in entry.items()}


def _name_pages_prefix(number: int) -> str:
    return f"__pages_{number + 1}."


class CountedValues:
    """The set of values of some calls, for each group of a step."""

    def __init__(
        self,
        values: ValueSet,
        number: int,
        fold: AggregateFold,
        grouping: GroupingKey,
        state: StepState,
        page_values: int = MAX_PAGE_VALUES,
    ) -> None:
        """`number` is that of the set in its step; `fold` is that of all calls of the step."""
        import polars as pl

        self._values, self._page_values = values, page_values
        self._key = list(grouping.internal_names)
        self._columns = list(values.columns)
        self._types = get_value_types(values)
        by_kind = {kind: values.select_calls(kind) for kind in CallKind}
        self._paged = fold.with_calls(by_kind[CallKind.PAGES])
        self._once, self._repeated = (
            fold.with_calls(c for c in self._paged.calls if c.accumulator.is_idempotent is once)
            for once in (True, False)
        )
        self._whole = fold.with_calls(by_kind[CallKind.WHOLE])
        self._by_share = by_kind[CallKind.SHARES]
        self._has_users = bool(select_user_calls(values.calls))
        self._prefix = _name_pages_prefix(number)
        self.group_columns = get_pages_columns(values, number, fold)
        self._entry = [name.removeprefix(self._prefix) for name in self.group_columns]
        lists = {f"{LIST_PREFIX}{name}": pl.List(type) for name, type in self._types.items()}
        self._table = state.open_table(
            name_values_state(number),
            {**grouping.types, PAGE: pl.Int64(), **lists},
            tuple(self._key),
        )

    @property
    def state_columns(self) -> dict[str, pl.DataType]:
        """The columns of the states of the calls."""
        shares = self._paged.with_calls(self._by_share).state_columns
        return {**self._paged.state_columns, **shares, **self._whole.state_columns}

    @property
    def deferred_rows(self) -> int:
        """The number of earlier rows that the next calls work on."""
        return self._table.estimate_deferred_rows(NO_CLOCK_US)

    def update(self, rows: pl.DataFrame, groups: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Add and remove the values of these rows; return the pages of their groups.

        `rows` have GROUP, the computed columns and WEIGHT; `groups` have GROUP, KEY, the columns of
        the key and `group_columns`. The pages are returned as rows with GROUP, and as
        `group_columns`.
        """
        import polars as pl

        condition = self._values.condition
        passing = rows if condition is None else rows.filter(pl.col(condition.name))
        changes = _consolidate(
            passing.select(GROUP, *self._columns, WEIGHT), (GROUP, *self._columns)
        )
        pages = self._list_pages(groups)
        if not changes.height:
            return pages, groups.select(*self.group_columns)
        is_paged = pages[GROUP].is_duplicated().any()
        changes = self._assign_pages(changes, pages, is_paged=is_paged)
        touched = changes.select(GROUP, PAGE).unique(maintain_order=True)
        sparse = self._find_sparse_groups(pages) if is_paged else None
        if sparse is not None:
            changes, all_pages = _replace_pages(changes, sparse), pages.select(GROUP, PAGE)
            joined = all_pages.join(sparse, on=GROUP, how="semi")
            touched = pl.concat([touched.join(sparse, on=GROUP, how="anti"), joined])
        keys = groups.select(GROUP, KEY, *self._key)
        stored = self._read_pages(touched, keys)
        if sparse is not None:
            stored = _replace_pages(stored, sparse)
        columns = (GROUP, PAGE, *self._columns)
        values = _consolidate(pl.concat([stored, changes.select(stored.columns)]), columns)
        values = self._split_pages(values.sort(columns), pages)
        new_pages = self._write_pages(values, touched, keys)
        untouched = pages.join(touched, on=[GROUP, PAGE], how="anti")
        pages = new_pages.select(GROUP, *self._entry)
        if is_paged or untouched.height:  # the numbers of pages say nothing of their order
            pages = pl.concat([untouched.select(pages.columns), pages]).sort(GROUP, *self._columns)
        lists = pages.group_by(GROUP, maintain_order=True).agg(
            pl.col(name).alias(f"{self._prefix}{name}") for name in self._entry
        )
        listed = keys.select(GROUP).join(lists, on=GROUP, how="left", maintain_order="left")
        return pages, listed.drop(GROUP)

    def compute_states(self, groups: pl.DataFrame, pages: pl.DataFrame) -> pl.DataFrame:
        """Return the states of the calls of these groups, with GROUP, in the same order.

        The groups have GROUP, KEY and the columns of the key; the pages are theirs, and of others.
        """
        import polars as pl

        keys = groups.select(GROUP, KEY, *self._key)
        pages = pages.join(keys, on=GROUP, maintain_order="left")
        states, by = keys.select(GROUP), (GROUP,)
        if self._paged.calls:
            merged = pages.filter(IS_FILLED)
            if merged[GROUP].is_duplicated().any():
                merged = self._paged.merge(merged, by)
            states = self._add_states(states, merged, self._paged)
        if self._by_share:
            states = states.hstack(self._select_by_share(states, pages, keys))
        if self._whole.calls:
            values = self._read_pages(pages, keys)
            there = repeat_rows(values.filter(pl.col(WEIGHT) > 0)).join(keys, on=GROUP)
            found = self._whole.begin(there, by) if there.height else there
            states = self._add_states(states, found, self._whole)
        return states

    def _list_pages(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Return the pages of groups, with GROUP."""
        import polars as pl

        listed = groups.select(GROUP, *self.group_columns)
        return explode_rows(listed.filter(pl.col(listed.columns[1]).is_not_null()), self._prefix)

    def _assign_pages(
        self, changes: pl.DataFrame, pages: pl.DataFrame, *, is_paged: bool
    ) -> pl.DataFrame:
        """Add the page of each change: the last one whose first value is not greater."""
        import polars as pl

        if not is_paged:
            assigned = changes.join(pages.select(GROUP, PAGE), on=GROUP, how="left")
            return assigned.with_columns(pl.col(PAGE).fill_null(0))
        columns = [GROUP, *self._columns, WEIGHT, PAGE, IS_CHANGE]
        firsts = pages.with_columns(
            pl.lit(None, dtype=pl.Int64).alias(WEIGHT), pl.lit(False).alias(IS_CHANGE)
        )
        new = changes.with_columns(
            pl.lit(None, dtype=pl.Int64).alias(PAGE), pl.lit(True).alias(IS_CHANGE)
        )
        both = pl.concat([firsts.select(columns), new.select(columns)])
        ordered = both.sort(GROUP, *self._columns, IS_CHANGE)
        # Values before the first page go into that.
        page = pl.col(PAGE).forward_fill().backward_fill().over(GROUP).fill_null(0)
        return ordered.with_columns(page).filter(IS_CHANGE).drop(IS_CHANGE)

    def _find_sparse_groups(self, pages: pl.DataFrame) -> pl.DataFrame | None:
        """Return the groups whose pages are nearly empty, with the page that all of them become."""
        import polars as pl

        filling = pages.group_by(GROUP).agg(pl.len(), pl.col(SIZE).sum(), pl.col(PAGE).min())
        sparse = filling.filter(
            pl.col("len") > FEW_PAGES,
            pl.col(SIZE) * MIN_FILLING < pl.col("len") * self._page_values,
        )
        return sparse.select(GROUP, pl.col(PAGE).alias(TARGET)) if sparse.height else None

    def _read_pages(self, pages: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
        """Return the values of pages, with GROUP and PAGE."""
        pages = pages.select(GROUP, PAGE)
        numbered = pages.join(keys, on=GROUP, maintain_order="left")
        found = self._table.find(numbered.select(_encode_page()).to_series())
        lists = found[[name for name in found.columns if name.startswith(LIST_PREFIX)]]
        read = pages if found.height == pages.height else pages[found[KEY_INDEX]]
        return explode_rows(read.hstack(lists.get_columns())).select(GROUP, PAGE, *self._types)

    def _split_pages(self, values: pl.DataFrame, pages: pl.DataFrame) -> pl.DataFrame:
        """Divide pages with too many values into halves of full pages; new ones get new numbers."""
        import polars as pl

        if values.height <= self._page_values:
            return values
        of_page = (GROUP, PAGE)
        if values.group_by(of_page).len()["len"].max() <= self._page_values:  # type: ignore[operator]
            return values
        part = pl.int_range(pl.len()) // (self._page_values // 2)
        part = pl.when(pl.len() > self._page_values).then(part).otherwise(0)
        values = values.with_columns(part.over(of_page).alias(PART))
        is_new = pl.col(PART) > 0
        parts = values.select(*of_page, PART).unique(maintain_order=True)
        last = pages.group_by(GROUP).agg(pl.col(PAGE).max().alias(TARGET))
        next_number = pl.col(TARGET).fill_null(0) + is_new.cast(pl.Int64).cum_sum().over(GROUP)
        numbered = parts.join(last, on=GROUP, how="left", maintain_order="left").with_columns(
            pl.when(is_new).then(next_number).otherwise(PAGE).alias(TARGET)
        )
        joined = values.join(numbered, on=[*of_page, PART], maintain_order="left")
        return joined.drop(PAGE, PART).rename({TARGET: PAGE})

    def _write_pages(
        self, values: pl.DataFrame, touched: pl.DataFrame, keys: pl.DataFrame
    ) -> pl.DataFrame:
        """Store the values of pages, which are sorted, and return the pages with their entries.

        Touched pages without any values are removed.
        """
        import polars as pl

        there = pl.col(WEIGHT) > 0
        known = there & pl.col(self._columns[0]).is_not_null() if self._columns else there
        pages = values.group_by(GROUP, PAGE, maintain_order=True).agg(
            pl.len().cast(pl.Int64).alias(SIZE),
            pl.when(known).then(WEIGHT).otherwise(0).sum().alias(COUNT),
            there.any().alias(IS_FILLED),
            *(pl.col(name).first() for name in self._columns),
            *(pl.col(name).alias(f"{LIST_PREFIX}{name}") for name in self._types),
        )
        empty = touched.join(pages, on=[GROUP, PAGE], how="anti").join(keys, on=GROUP)
        if empty.height:
            self._table.remove(empty.select(_encode_page()).to_series())
        pages = pages.join(keys, on=GROUP, maintain_order="left")
        if pages.height:
            self._table.put(pages.with_columns(_encode_page()))
        return self._add_page_states(pages, values.filter(there), keys)

    def _add_page_states(
        self, pages: pl.DataFrame, values: pl.DataFrame, keys: pl.DataFrame
    ) -> pl.DataFrame:
        """Add the states of the values that are there; null for pages without any."""
        import polars as pl

        if self._has_users:  # errors name the key
            values = values.join(keys, on=GROUP, maintain_order="left")
        for fold in (self._once, self._repeated):
            if not fold.calls:
                continue
            rows = values if fold is self._once else repeat_rows(values)
            if rows.height:
                states = fold.begin(rows, (GROUP, PAGE))
                pages = pages.join(states, on=[GROUP, PAGE], how="left", maintain_order="left")
            else:
                nothing = (pl.lit(None, t).alias(n) for n, t in fold.state_columns.items())
                pages = pages.with_columns(nothing)
        return pages

    def _add_states(
        self, groups: pl.DataFrame, found: pl.DataFrame, fold: AggregateFold
    ) -> pl.DataFrame:
        """Add the states of groups; those without any values have the state of no rows."""
        import polars as pl

        names = list(fold.state_columns)
        if not found.height:
            found = pl.DataFrame(schema={GROUP: pl.UInt32(), **fold.state_columns})
        found = found.select(GROUP, *names, pl.lit(True).alias(IS_FILLED))
        joined = groups.join(found, on=GROUP, how="left", maintain_order="left")
        if joined[IS_FILLED].null_count():
            nothing = fold.begin(pl.DataFrame(schema=self._types).drop(WEIGHT), ())
            missing = pl.col(IS_FILLED).is_null()
            joined = joined.with_columns(
                pl.when(missing).then(pl.lit(nothing[name])).otherwise(name).alias(name)
                for name in names
            )
        return joined.drop(IS_FILLED)

    def _select_by_share(
        self, groups: pl.DataFrame, pages: pl.DataFrame, keys: pl.DataFrame
    ) -> list[pl.Series]:
        """Return the states of calls that are computed from the values at some shares.

        A page without such a value is in them as one value.
        """
        import polars as pl

        end = pl.col(COUNT).cum_sum().over(GROUP)
        total = pl.col(COUNT).sum().over(GROUP)
        shares = {share for call in self._by_share for share in call.accumulator.shares}
        is_needed = pl.lit(False)
        for share in shares:
            first = ((total - 1).cast(pl.Float64) * share).floor() - 1
            last = (total.cast(pl.Float64) * share).ceil() + 1
            is_needed = is_needed | ((end >= first) & (end - pl.col(COUNT) <= last))
        value = self._columns[0]
        at = pl.int_range(pl.len()).alias("at")
        pages = pages.select(GROUP, PAGE, COUNT, value, is_needed.alias("__needed"), at)
        needed = pages.filter("__needed")
        values = self._read_pages(needed, keys)
        item = [GROUP, "at", pl.col(WEIGHT).alias("count"), pl.col(value).alias("value")]
        read = values.join(needed.select(GROUP, PAGE, "at"), on=[GROUP, PAGE]).select(item)
        other = pages.filter(~pl.col("__needed")).rename({COUNT: WEIGHT}).select(item)
        read = read.filter(pl.col("value").is_not_null())
        items = pl.concat([read, other]).filter(pl.col("count") > 0)
        type = self._values.inputs[0].typed.type
        items = items.with_columns(normalize_zero(pl.col("value"), type)).sort(GROUP, "at", "value")
        lists = items.group_by(GROUP).agg(pl.struct("count", "value").alias("items"))
        found = groups.select(GROUP).join(lists, on=GROUP, how="left", maintain_order="left")
        states = self._paged.with_calls(self._by_share).state_columns
        empty = pl.lit([], dtype=next(iter(states.values())))
        return found.select(
            pl.coalesce(pl.col("items"), empty).cast(type).alias(name)
            for name, type in states.items()
        ).get_columns()


def _consolidate(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Add up the weights of equal rows, and drop those whose weights add up to nothing."""
    import polars as pl

    merged = rows.group_by(columns).agg(pl.col(WEIGHT).sum())
    return merged.filter(pl.col(WEIGHT) != 0)


def _replace_pages(rows: pl.DataFrame, targets: pl.DataFrame) -> pl.DataFrame:
    """Replace the pages of rows in these groups by the TARGET of the group."""
    import polars as pl

    joined = rows.join(targets, on=GROUP, how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce(TARGET, PAGE).alias(PAGE)).drop(TARGET)


def _encode_page() -> pl.Expr:
    """Return the key of a page in the table."""
    import polars as pl

    return pl.concat_str(KEY, pl.lit("/"), PAGE).alias(KEY)
