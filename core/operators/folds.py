"""The computation of a keyed operator over the rows of a group: begin, merge, finish.

Windows decide which rows belong together; a fold computes the result. Its state is columns, so
states can be split, stored and merged in any order: merging is associative and commutative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from headrace.core.aggregates import (
    AggregateExpression,
    compute_partial_states,
    compute_results,
    deduplicate_calls,
    merge_states,
    type_aggregate_text,
)
from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.expressions.typed import ColumnReference, walk
from headrace.core.operators.grouping import GroupingKey
from headrace.core.operators.telling import GroupErrorContext
from headrace.core.ordinals import ORDER_TYPE
from headrace.core.plan import nodes
from headrace.core.types import TIMESTAMP, Field, Schema, to_polars

if TYPE_CHECKING:
    import polars as pl

ROW_TIME = "__at"
"""The time of a row in microseconds: its event time, or its arrival by the wall clock."""


class Fold(Protocol):
    """A fold over the rows of groups; `by` are the columns that name a group: key and window."""

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
        """Merge several states of a group into one; the columns `by` are kept."""
        ...

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the output rows of merged states: `by`, under the key's own names, and results."""
        ...


class AggregateFold:
    """The fold of `aggregate`: partial states; with `newest` also the greatest event time."""

    def __init__(
        self, operation: nodes.Aggregate, grouping: GroupingKey, *, newest: bool = False
    ) -> None:
        self._grouping = grouping
        self._error_context = GroupErrorContext(grouping, operation.window)
        self._expressions = {column.name: column.expression for column in operation.columns}
        if newest:
            self._expressions[EVENT_TIME] = _build_newest_call()
        self._calls = deduplicate_calls(self._expressions.values())
        order = {ORDER} if any(call.needs_order for call in self._calls) else set()
        self.input_columns = frozenset[str](order).union(
            *(call.input_columns for call in self._calls)
        )
        self.state_columns = {
            name: to_polars(type)
            for call in self._calls
            for name, type in call.state_types(ORDER_TYPE).items()
        }

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return partial states."""
        with self._error_context(rows):
            return compute_partial_states(rows, by, self._calls)

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return merged states."""
        with self._error_context(states):
            return merge_states(states, by, self._calls)

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the results."""
        inside = dict(zip(self._grouping.internal_names, self._grouping.names, strict=True))
        names = [inside.get(name, name) for name in by]
        with self._error_context(states):
            return compute_results(
                self._grouping.restore_names(states), names, self._calls, self._expressions
            )

    def describe_groups(self, groups: pl.DataFrame, number: str) -> AbstractContextManager[None]:
        """Describe groups in errors by their number among `groups`, which have the key."""
        return self._error_context.resolve_numbers(groups, number)

    @property
    def input_types(self) -> Mapping[str, pl.DataType]:
        """The types of the columns that the fold reads."""
        typed = [each.typed for call in self._calls for each in call.all_inputs]
        columns = [
            node for value in typed for node in walk(value) if isinstance(node, ColumnReference)
        ]
        return {column.name: to_polars(column.type) for column in columns}


def _build_newest_call() -> AggregateExpression:
    time = Schema((Field(EVENT_TIME, TIMESTAMP),))
    return type_aggregate_text(f"max({EVENT_TIME})", time, Schema(()))
