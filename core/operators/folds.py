"""Folds: the computation of a keyed operator over the rows of a group, in three parts.

Windows decide which rows belong together; a fold computes their result. `begin` makes the state of
new rows, `merge` combines states, and `finish` makes output rows. The state is columns, so states
can be split, stored and merged in any order: merging is associative and commutative.

- `AggregateFold` computes aggregates.
- `TopNFold` retains the best rows of a group, by a `RowRanking`; row order decides ties.
- `EvictingFold` retains the rows that an evictor leaves, for another fold.
- `WeightedFold` retains rows that may be removed, with weights, for another fold.
- `CountingFold` adds the number of rows, and the greatest values of some columns, to another fold.

The rows that a fold retains for a group are one list, so they are split, stored and merged like any
other state: one row per group. Merging concatenates lists and drops the rows not needed any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from typing import TYPE_CHECKING, Protocol

from headrace.core.aggregates import (
    AggregateExpression,
    compute_partial_states,
    compute_results,
    deduplicate_calls,
    merge_states,
    type_aggregate_text,
)
from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.typed import ColumnReference, walk
from headrace.core.operators.changelog.weighted_rows import repeat_rows
from headrace.core.operators.group_error_context import GroupErrorContext
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.plan import nodes
from headrace.core.plan.nodes import RANK_COLUMN, Ranking
from headrace.core.plan.nodes.windows import Evict
from headrace.core.types.data_types import BIGINT, TIMESTAMP, Field, Schema, Struct, to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, HIDDEN_COLUMNS, ORDER, WEIGHT
from headrace.core.types.row_order import ORDER_TYPE

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.aggregates.calls import AggregateCall


ROW_TIME = "__at"
"""The time of a row in microseconds: its event time, or its arrival by the wall clock."""


class Fold(Protocol):
    """A computation over the rows of groups; `by` are the columns of a group: key and window."""

    @property
    def input_columns(self) -> frozenset[str]:
        """The input columns that the fold needs."""
        ...

    @property
    def state_columns(self) -> Mapping[str, pl.DataType]:
        """The columns of the fold's state, without those of `by`."""
        ...

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the state of the rows of each group."""
        ...

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Merge the states of each group into one; the result has the columns `by` as well."""
        ...

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the output rows of merged states, in the order of the states.

        They have the columns `by`, those of the key under their names in the pipeline, and results.
        """
        ...


class AggregateFold:
    """The fold of `aggregate`; with `newest` it also computes the greatest event time."""

    def __init__(
        self, operation: nodes.Aggregate, grouping: GroupingKey, *, newest: bool = False
    ) -> None:
        self._grouping = grouping
        self._error_context = GroupErrorContext(grouping, operation.window)
        self._expressions = {column.name: column.expression for column in operation.columns}
        if newest:
            self._expressions[EVENT_TIME] = _build_newest_call()
        self._set_calls(deduplicate_calls(self._expressions.values()))

    def _set_calls(self, calls: tuple[AggregateCall, ...]) -> None:
        self.calls = calls
        order = {ORDER} if any(call.needs_order for call in calls) else set()
        self.input_columns = frozenset[str](order).union(*(call.input_columns for call in calls))
        self.state_columns = {
            name: to_polars(type)
            for call in calls
            for name, type in call.state_types(ORDER_TYPE).items()
        }

    def with_calls(self, calls: Iterable[AggregateCall]) -> AggregateFold:
        """Return the fold of these calls in place of its own, for the same groups and results."""
        fold = copy(self)
        fold._set_calls(tuple(calls))
        return fold

    def begin(self, rows: pl.DataFrame, by: Sequence[str], *more: pl.Expr) -> pl.DataFrame:
        """Return the partial states of the aggregates, and more columns of each group."""
        with self._error_context(rows):
            return compute_partial_states(rows, by, self.calls, more)

    def merge(self, states: pl.DataFrame, by: Sequence[str], *more: pl.Expr) -> pl.DataFrame:
        """Merge the partial states of each group, with more columns of each group."""
        with self._error_context(states):
            return merge_states(states, by, self.calls, more)

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the values of the aggregates, after the columns `by`."""
        inside = dict(zip(self._grouping.internal_names, self._grouping.names, strict=True))
        names = [inside.get(name, name) for name in by]
        with self._error_context(states):
            return compute_results(
                self._grouping.restore_names(states), names, self.calls, self._expressions
            )

    def describe_groups(self, groups: pl.DataFrame, number: str) -> AbstractContextManager[None]:
        """Add key and window to errors that have the number of a group; `groups` have the key."""
        return self._error_context.resolve_numbers(groups, number)

    @property
    def input_types(self) -> Mapping[str, pl.DataType]:
        """The types of the columns that the fold reads."""
        typed = [each.typed for call in self.calls for each in call.all_inputs]
        columns = [
            node for value in typed for node in walk(value) if isinstance(node, ColumnReference)
        ]
        return {column.name: to_polars(column.type) for column in columns}


def _build_newest_call() -> AggregateExpression:
    time = Schema((Field(EVENT_TIME, TIMESTAMP),))
    return type_aggregate_text(f"max({EVENT_TIME})", time, Schema(()))


class RowRanking:
    """A ranking of rows; their position in the row order decides ties."""

    def __init__(self, by: Sequence[Ranking], rows: int, more: Sequence[str] = ()) -> None:
        """`more` are columns that decide ties of rows with equal positions."""
        import polars as pl

        ties = [*get_order_columns(), *map(pl.col, more)]
        by = [each for each in by if not each.is_constant]  # a literal would be too short to sort
        self.rows = rows
        self._by = [*(to_expr(each.value) for each in by), *ties]
        self._descending = [*(each.descending for each in by), *(False for _ in ties)]
        self._nulls_last = [*(each.nulls_last for each in by), *(False for _ in ties)]

    def sort_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Sort the rows, best first."""
        return rows.sort(self._by, descending=self._descending, nulls_last=self._nulls_last)

    def rank_rows(self, rows: pl.DataFrame, group: Sequence[str]) -> pl.DataFrame:
        """Return the best rows of each group, best first, with their rank from 1."""
        import polars as pl

        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32)
        ranked = self.sort_rows(rows).with_columns(
            (rank.over(group) if group else rank).alias(RANK_COLUMN)
        )
        return ranked.filter(pl.col(RANK_COLUMN) <= self.rows)


def get_order_columns() -> list[pl.Expr]:
    """Return the sort keys of the row order: its fields, which sort faster than their struct."""
    import polars as pl

    assert isinstance(ORDER_TYPE, Struct)
    return [pl.col(ORDER).struct.field(field.name) for field in ORDER_TYPE.fields]


KEPT_ROWS = "__kept"
"""The list of the rows that are retained for a group."""


GROUP_NUMBER = "__group"
"""The number of a group."""


class EvictingFold:
    """A fold that retains the rows that an evictor leaves.

    The inner fold computes the result of these rows when the window fires.
    """

    def __init__(
        self,
        evict: Evict,
        inner: Fold,
        types: Mapping[str, pl.DataType],
        error_context: GroupErrorContext,
    ) -> None:
        """`types` are the types of the columns that the inner fold reads."""
        import polars as pl

        self._evict = evict
        self._inner = inner
        self._error_context = error_context
        more = {ORDER: to_polars(ORDER_TYPE)}
        if evict.within_us is not None:
            more[ROW_TIME] = to_polars(BIGINT)
        self._row = {
            **{name: types[name] for name in sorted(inner.input_columns - {ORDER})},
            **more,
        }
        self.input_columns = frozenset(self._row)
        self.state_columns = {KEPT_ROWS: pl.List(pl.Struct(self._row))}

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the list of the rows of each group that the evictor may leave."""
        import polars as pl

        row = pl.struct(*self._row)
        if self._evict.within_us is not None:
            return collect_rows(
                rows,
                by,
                row.filter(pl.col(ROW_TIME) >= pl.col(ROW_TIME).max() - self._evict.within_us),
            )
        return collect_rows(rows.sort(get_order_columns()), by, row.tail(self._evict.last or 0))

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Merge the lists of each group, and drop the rows that the evictor removes."""
        return self.begin(unnest_rows(states, by), by)

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the results of the inner fold over the retained rows."""
        numbered = states.with_row_index(GROUP_NUMBER)
        with self._error_context.resolve_numbers(numbered, GROUP_NUMBER):
            of_group = self._inner.begin(unnest_rows(numbered, (GROUP_NUMBER,)), (GROUP_NUMBER,))
        found = numbered.drop(KEPT_ROWS).join(of_group, on=GROUP_NUMBER, maintain_order="left")
        return self._inner.finish(found, by)


WEIGHTED_ROWS = "__weighted"
"""The list of the rows of a group, each with its weight."""


class WeightedFold:
    """A fold of rows that may be removed: it stores rows with their weights.

    The inner fold computes the result of the rows that are there when the window fires. If windows
    can fire again, results have the column DELETE: it is true for groups without rows.
    """

    def __init__(self, inner: Fold, types: Mapping[str, pl.DataType], *, fires_again: bool) -> None:
        """`types` are the types of the columns that the inner fold reads."""
        import polars as pl

        self.inner = inner
        self._fires_again = fires_again
        known = {**types, ORDER: to_polars(ORDER_TYPE), WEIGHT: pl.Int64()}
        self._row = {name: known[name] for name in (*sorted(inner.input_columns), WEIGHT)}
        self.input_columns = frozenset(self._row)
        self.state_columns = {WEIGHTED_ROWS: pl.List(pl.Struct(self._row))}

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the list of the rows of each group, equal ones merged."""
        import polars as pl

        row = pl.struct(*self._row).alias(WEIGHTED_ROWS)
        names = [*by, *(name for name in self._row if name != WEIGHT)]
        total = pl.col(WEIGHT).sum()
        merged = rows.group_by(names).agg(total) if names else rows.select(total)
        there = merged.filter(pl.col(WEIGHT) != 0)
        return there.group_by(by).agg(row) if by else there.select(row.implode())

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Merge the lists of each group."""
        return self.begin(self.unnest_rows(states, by), by)

    def unnest_rows(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return a row for each row in a list, with the columns of its group before its own."""
        rows = states.select(*by, WEIGHTED_ROWS)
        return rows.explode(WEIGHTED_ROWS, empty_as_null=False).unnest(WEIGHTED_ROWS)

    def fold_rows(self, states: pl.DataFrame) -> pl.DataFrame:
        """Return the states of the inner fold: those of groups in which rows are there."""
        numbered = states.with_row_index(GROUP_NUMBER)
        return self._fold_numbered(numbered).drop(GROUP_NUMBER)

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the results of the inner fold over the rows that are there."""
        import polars as pl

        numbered = states.with_row_index(GROUP_NUMBER)
        folded = self._fold_numbered(numbered)
        results = self.inner.finish(folded.drop(GROUP_NUMBER), by)
        if not self._fires_again:
            return results
        results = results.with_columns(pl.lit(False).alias(DELETE))
        empty = numbered.join(folded, on=GROUP_NUMBER, how="anti").drop(GROUP_NUMBER, WEIGHTED_ROWS)
        if not empty.height:
            return results
        nothing = self.inner.begin(pl.DataFrame(schema=self._row).drop(WEIGHT), ())
        deleted = self.inner.finish(empty.join(nothing, how="cross"), by)
        return pl.concat([results, deleted.with_columns(pl.lit(True).alias(DELETE))])

    def _fold_numbered(self, numbered: pl.DataFrame) -> pl.DataFrame:
        there = repeat_rows(self.unnest_rows(numbered, (GROUP_NUMBER,)))
        of_group = self.inner.begin(there, (GROUP_NUMBER,))
        groups = numbered.drop(WEIGHTED_ROWS)
        return groups.join(of_group, on=GROUP_NUMBER, maintain_order="left")


class TopNFold:
    """The fold of `top`: it retains the best rows of a group, best first.

    With `newest` it also computes the greatest event time of all rows of a group.
    """

    def __init__(
        self, operation: nodes.Top, types: Mapping[str, pl.DataType], *, newest: bool = False
    ) -> None:
        import polars as pl

        hidden_columns = (EVENT_TIME, DELETE, WEIGHT)
        self._row = {
            n: t for n, t in types.items() if n not in hidden_columns and operation.stores_column(n)
        }
        self._visible_columns = [name for name in self._row if name not in HIDDEN_COLUMNS]
        self._ranks = RowRanking(operation.by, operation.rows)
        self._kept_rows = pl.struct(*self._row).head(operation.rows)
        newest_of = {EVENT_TIME: to_polars(TIMESTAMP)} if newest else {}
        self._newest = [pl.col(EVENT_TIME).max()] if newest else []
        self.input_columns = frozenset((*self._row, *newest_of))
        self.state_columns = {KEPT_ROWS: pl.List(pl.Struct(self._row)), **newest_of}

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the list of the best rows of each group."""
        return collect_rows(self._ranks.sort_rows(rows), by, self._kept_rows, *self._newest)

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Merge the lists of each group into the list of its best rows."""
        return self.begin(unnest_rows(states, (*by, *self.state_columns.keys() - {KEPT_ROWS})), by)

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return a row for each best row, with its rank, after the columns `by`."""
        import polars as pl

        ranks = pl.int_ranges(1, pl.col(KEPT_ROWS).list.len() + 1, dtype=pl.Int32).alias(
            RANK_COLUMN
        )
        rows = states.with_columns(ranks).explode(KEPT_ROWS, RANK_COLUMN)
        hidden = dict.fromkeys((*by, *self.state_columns.keys() - {KEPT_ROWS}))
        return (
            rows.select(*hidden, RANK_COLUMN, KEPT_ROWS)
            .unnest(KEPT_ROWS)
            .select(*hidden, *self._visible_columns, RANK_COLUMN)
        )


def get_row_types(
    columns: Mapping[str, pl.DataType], rows_column: str = KEPT_ROWS
) -> Mapping[str, pl.DataType]:
    """Return the column types of the rows in the list column of a state with these columns."""
    import polars as pl

    rows = columns[rows_column]
    assert isinstance(rows, pl.List) and isinstance(rows.inner, pl.Struct)
    return dict(pl.Schema(rows.inner))


def collect_rows(
    rows: pl.DataFrame, by: Sequence[str], row_expr: pl.Expr, *more: pl.Expr
) -> pl.DataFrame:
    """Collect the values of an expression into one list per group."""
    if not by:
        return rows.select(row_expr.implode().alias(KEPT_ROWS), *more)
    return rows.group_by(by).agg(row_expr.alias(KEPT_ROWS), *more)


def unnest_rows(states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return a row for each row in a list, with the columns of its group before its own."""
    return states.select(*by, KEPT_ROWS).explode(KEPT_ROWS, empty_as_null=False).unnest(KEPT_ROWS)


ROW_COUNT = "__rows"
"""The number of rows in a state."""


class CountingFold:
    """A fold that adds ROW_COUNT and the greatest values of some bigint columns to another fold.

    A group must have at least two columns, or one of integers: Polars joins do not find NaN when
    the only join column is sorted.
    """

    def __init__(self, fold: Fold, greatest: Sequence[str] = ()) -> None:
        import polars as pl

        self._fold = fold
        self._greatest = [pl.col(name).max() for name in greatest]
        self.input_columns = fold.input_columns
        self.state_columns: Mapping[str, pl.DataType] = {
            **fold.state_columns,
            **dict.fromkeys((ROW_COUNT, *greatest), pl.Int64()),
        }
        self.finish = fold.finish

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the states of the rows of each group, with their row counts."""
        import polars as pl

        more = [pl.len().cast(pl.Int64).alias(ROW_COUNT), *self._greatest]
        if isinstance(self._fold, AggregateFold):
            return self._fold.begin(rows, by, *more)
        return self._add_columns(self._fold.begin(rows, by), rows, by, more)

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Merge the states of each group, and add up their row counts."""
        import polars as pl

        more = [pl.col(ROW_COUNT).sum(), *self._greatest]
        if isinstance(self._fold, AggregateFold):
            return self._fold.merge(states, by, *more)
        return self._add_columns(self._fold.merge(states, by), states, by, more)

    def _add_columns(
        self, states: pl.DataFrame, of: pl.DataFrame, by: Sequence[str], more: Sequence[pl.Expr]
    ) -> pl.DataFrame:
        """Add more columns of each group of rows to the states."""
        if not by:
            return states.hstack(of.select(more))
        return states.join(of.group_by(by).agg(more), on=by, nulls_equal=True)
