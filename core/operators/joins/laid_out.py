"""The columns of the states of a join, as its operator opens them.

Restoring the state of a changed pipeline, or showing a state, needs the columns in their order;
they depend on how rows match, on the join type, and on the readers of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from headrace.core.operators.joins.everywhere import columns_of
from headrace.core.operators.joins.make import join_operator
from headrace.core.operators.joins.sides import NUMBERS
from headrace.core.operators.place import Place
from headrace.core.plan import nodes
from headrace.core.plan.matching import AsOf, Everywhere
from headrace.core.sizes import Size
from headrace.core.state import (
    KEY,
    NO_CLOCK_US,
    SLOT,
    Counts,
    Entries,
    Frozen,
    Runs,
    RunsLayout,
    Spread,
    StepState,
    Table,
)
from headrace.core.types import BIGINT, to_polars

if TYPE_CHECKING:
    import polars as pl

    Layout = Mapping[str, pl.DataType]


def laid_out(operation: nodes.Join, *, ordered: bool) -> dict[str, Layout]:
    """Return the columns of each state, in order; for tables without EXPIRY."""
    if isinstance(operation.matching, Everywhere):
        return columns_of(operation, operation.matching, ordered=ordered)
    state = _Asked(time_is_slot=isinstance(operation.matching, AsOf))
    join_operator(operation, Place("", state, lambda: 0, ordered, frozenset()))
    return state.layouts


class _Asked(StepState):
    """A state that stores nothing and records the layouts that are opened."""

    def __init__(self, *, time_is_slot: bool) -> None:
        """`time_is_slot`: whether SLOT takes the place of a row's time, before its number."""
        self.layouts: dict[str, Layout] = {}
        self.clock_us = NO_CLOCK_US
        self.counts = Counts()
        self.beside: dict[str, Callable[[], Size]] = {}
        self._time_is_slot = time_is_slot

    def runs(self, name: str, layout: RunsLayout) -> Runs:
        """Record the columns of runs, including SLOT."""
        names = list(layout.columns)
        numbers = [at for at, each in enumerate(names) if each in NUMBERS]
        names.insert(numbers[0] if self._time_is_slot and numbers else len(names), SLOT)
        types = {**layout.columns, SLOT: to_polars(BIGINT)}
        self.layouts[name] = {each: types[each] for each in names}
        return cast(Runs, _Nothing())

    def table(self, name: str, columns: Layout, group: tuple[str, ...] | None = None) -> Table:
        """Record the columns of a table, including KEY."""
        import polars as pl

        self.layouts[name] = {KEY: pl.String(), **columns}
        return cast(Table, _Nothing())

    def entries(self, name: str, spread: Spread) -> Entries:
        """Fail: the columns of entries are not given when they are opened."""
        raise AssertionError("entries do not declare their columns")

    def columns(self, name: str) -> None:
        """Return None: no state was restored."""

    def sizes(self) -> Mapping[str, Size]:
        """Return no sizes: nothing is stored."""
        return {}

    def freeze(self) -> Frozen:
        """Fail: nothing is stored."""
        raise AssertionError("a layout recorder has no rows")

    def close(self) -> None:
        """Do nothing: nothing is open."""


class _Nothing:
    """Runs or a table without rows; operators read only the number of rows on opening."""

    rows = 0
