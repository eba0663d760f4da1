"""The columns of the states of a join, as its operator opens them.

Restoring the state of a changed pipeline, or showing a state, needs the columns in their order;
they depend on how rows match, on the join type, and on the readers of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from headrace.core.operators.joins.everywhere import get_state_columns
from headrace.core.operators.joins.make import build_join
from headrace.core.operators.joins.sides import NUMBER_COLUMNS
from headrace.core.operators.place import KeyedContext
from headrace.core.plan import nodes
from headrace.core.plan.matching import AsOfMatch, BroadcastMatch
from headrace.core.sizes import StateSize
from headrace.core.state import (
    KEY,
    NO_CLOCK_US,
    SLOT,
    Entries,
    FrozenState,
    KeyedTable,
    Redistribution,
    RunsLayout,
    SortedRuns,
    StepCounters,
    StepState,
)
from headrace.core.types import BIGINT, to_polars

if TYPE_CHECKING:
    import polars as pl

    Layout = Mapping[str, pl.DataType]


def get_state_layouts(operation: nodes.Join, *, ordered: bool) -> dict[str, Layout]:
    """Return the columns of each state, in order; for tables without EXPIRY."""
    if isinstance(operation.matching, BroadcastMatch):
        return get_state_columns(operation, operation.matching, ordered=ordered)
    state = _LayoutRecorder(time_is_slot=isinstance(operation.matching, AsOfMatch))
    build_join(operation, KeyedContext("", state, lambda: 0, ordered, frozenset()))
    return state.layouts


class _LayoutRecorder(StepState):
    """A state that stores nothing and records the layouts that are opened."""

    def __init__(self, *, time_is_slot: bool) -> None:
        """`time_is_slot`: whether SLOT takes the place of a row's time, before its number."""
        self.layouts: dict[str, Layout] = {}
        self.clock_us = NO_CLOCK_US
        self.counters = StepCounters()
        self.buffered_sizes: dict[str, Callable[[], StateSize]] = {}
        self._time_is_slot = time_is_slot

    def open_runs(self, name: str, layout: RunsLayout) -> SortedRuns:
        """Record the columns of runs, including SLOT."""
        names = list(layout.columns)
        numbers = [at for at, each in enumerate(names) if each in NUMBER_COLUMNS]
        names.insert(numbers[0] if self._time_is_slot and numbers else len(names), SLOT)
        types = {**layout.columns, SLOT: to_polars(BIGINT)}
        self.layouts[name] = {each: types[each] for each in names}
        return cast(SortedRuns, _EmptyState())

    def open_table(
        self, name: str, columns: Layout, group: tuple[str, ...] | None = None
    ) -> KeyedTable:
        """Record the columns of a table, including KEY."""
        import polars as pl

        self.layouts[name] = {KEY: pl.String(), **columns}
        return cast(KeyedTable, _EmptyState())

    def open_entries(self, name: str, spread: Redistribution) -> Entries:
        """Fail: the columns of entries are not given when they are opened."""
        raise AssertionError("entries do not declare their columns")

    def get_restored_columns(self, name: str) -> None:
        """Return None: no state was restored."""

    def measure_sizes(self) -> Mapping[str, StateSize]:
        """Return no sizes: nothing is stored."""
        return {}

    def freeze(self) -> FrozenState:
        """Fail: nothing is stored."""
        raise AssertionError("a layout recorder has no rows")

    def close(self) -> None:
        """Do nothing: nothing is open."""


class _EmptyState:
    """Runs or a table without rows; operators read only the number of rows on opening."""

    rows = 0
