"""Sets of values with counts, from which aggregates over retractions are computed.

The values of a group are in `ordered_pages`. With each page are its number of values and the
partial states of the calls over it, so the results of a group are merged from its pages.

Tests: tests/core/operators/changelog/test_counting_aggregate.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.aggregates.counting import normalize_zero
from headrace.core.aggregates.user_aggregates import select_user_calls
from headrace.core.aggregates.value_sets import CallKind, ValueSet, name_values_state
from headrace.core.api.state import KEY, StepState
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
from headrace.core.operators.changelog.weighted_rows import repeat_rows
from headrace.core.operators.folds import AggregateFold
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import WEIGHT

if TYPE_CHECKING:
    import polars as pl

COUNT = "__count"
"""The number of rows with the values of a page, without those whose value is null."""

IS_FILLED = "__filled"
"""Whether any value of a page is there."""


def get_group_columns(values: ValueSet, number: int, fold: AggregateFold) -> dict[str, pl.DataType]:
    """Return the columns of the row of a group with the pages of a set."""
    import polars as pl

    entry: dict[str, pl.DataType] = {
        COUNT: pl.Int64(),
        IS_FILLED: pl.Boolean(),
        **{name: to_polars(type) for name, type in values.columns.items()},
        **fold.with_calls(values.select_calls(CallKind.PAGES)).state_columns,
    }
    return get_pages_columns(f"__pages_{number + 1}.", entry)


class CountedValues:
    """The set of values of some calls, for each group of a step."""

    def __init__(
        self,
        values: ValueSet,
        number: int,
        fold: AggregateFold,
        grouping: GroupingKey,
        state: StepState,
        page_values: int = MAX_PAGE_ROWS,
    ) -> None:
        """`number` is that of the set in its step; `fold` is that of all calls of the step."""
        import polars as pl

        self._values = values
        self._key = list(grouping.internal_names)
        types = {name: to_polars(type) for name, type in values.columns.items()}
        self._columns, self._types = list(types), types
        by_kind = {kind: values.select_calls(kind) for kind in CallKind}
        self._paged = fold.with_calls(by_kind[CallKind.PAGES])
        self._once, self._repeated = (
            fold.with_calls(c for c in self._paged.calls if c.accumulator.is_idempotent is once)
            for once in (True, False)
        )
        self._whole = fold.with_calls(by_kind[CallKind.WHOLE])
        self._by_share = by_kind[CallKind.SHARES]
        self._has_users = bool(select_user_calls(values.calls))
        self.group_columns = get_group_columns(values, number, fold)
        ascending = (False,) * len(types)
        there = pl.col(WEIGHT) > 0
        known = there & pl.col(self._columns[0]).is_not_null() if types else there
        self._pages = OrderedPages(
            state,
            name_values_state(number),
            grouping,
            types,
            RowOrder(tuple(map(pl.col, types)), ascending, ascending),
            list(self.group_columns),
            (
                pl.when(known).then(WEIGHT).otherwise(0).sum().alias(COUNT),
                there.any().alias(IS_FILLED),
            ),
            page_values,
            self._add_page_states,
        )

    @property
    def state_columns(self) -> dict[str, pl.DataType]:
        """The columns of the states of the calls."""
        shares = self._paged.with_calls(self._by_share).state_columns
        return {**self._paged.state_columns, **shares, **self._whole.state_columns}

    @property
    def deferred_rows(self) -> int:
        """The number of earlier rows that the next calls work on."""
        return self._pages.deferred_rows

    def update(self, rows: pl.DataFrame, groups: pl.DataFrame) -> UpdatedPages:
        """Add and remove the values of these rows; return the pages of their groups.

        `rows` have GROUP, the computed columns and WEIGHT; `groups` have GROUP, KEY, the columns of
        the key and `group_columns`.
        """
        import polars as pl

        condition = self._values.condition
        passing = rows if condition is None else rows.filter(pl.col(condition.name))
        passing = passing.select(GROUP, *self._columns, WEIGHT)
        return self._pages.update(passing, groups, self._pages.list_pages(groups))

    def remove_groups(self, groups: pl.DataFrame) -> None:
        """Remove the values of groups, which have GROUP, KEY and `group_columns`."""
        self._pages.remove_groups(groups)

    def compute_states(self, groups: pl.DataFrame, updated: UpdatedPages) -> pl.DataFrame:
        """Return the states of the calls of these groups, with GROUP, in the same order."""
        import polars as pl

        states, pages = groups.select(GROUP), updated.pages
        if self._paged.calls:
            merged = pages.filter(IS_FILLED)
            if have_several(merged):
                if self._has_users:  # errors name the key
                    merged = self._add_keys(merged, groups)
                merged = self._paged.merge(merged, (GROUP,))
            states = self._add_states(states, merged, self._paged)
        if self._by_share:
            states = states.hstack(self._select_by_share(groups, updated))
        if self._whole.calls:
            values = self._pages.read_updated(pages, groups, updated)
            there = repeat_rows(values.filter(pl.col(WEIGHT) > 0))
            if self._has_users:
                there = self._add_keys(there, groups)
            found = self._whole.begin(there, (GROUP,)) if there.height else there
            states = self._add_states(states, found, self._whole)
        return states

    def _add_keys(self, rows: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
        keys = groups.select(GROUP, KEY, *self._key)
        return rows.join(keys, on=GROUP, maintain_order="left")

    def _add_page_states(
        self, pages: pl.DataFrame, values: pl.DataFrame, groups: pl.DataFrame
    ) -> pl.DataFrame:
        """Add the states of the values that are there; null for pages without any."""
        import polars as pl

        values = values.filter(pl.col(WEIGHT) > 0)
        if self._has_users:  # errors name the key
            values = self._add_keys(values, groups)
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
            nothing = fold.begin(pl.DataFrame(schema=self._types), ())
            missing = pl.col(IS_FILLED).is_null()
            joined = joined.with_columns(
                pl.when(missing).then(pl.lit(nothing[name])).otherwise(name).alias(name)
                for name in names
            )
        return joined.drop(IS_FILLED)

    def _select_by_share(self, groups: pl.DataFrame, updated: UpdatedPages) -> list[pl.Series]:
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
        pages = updated.pages.select(GROUP, PAGE, COUNT, value, is_needed.alias("__needed"), at)
        needed = pages.filter("__needed")
        values = self._pages.read_updated(needed, groups, updated)
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
