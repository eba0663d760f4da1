"""How the states of a join are laid out: what its operator opens, asked of the operator itself.

Who restores a state of a pipeline that was changed, or shows one, needs the columns in their order,
and they depend on how rows meet, on the type of the join, and on who reads it.
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
    """The columns of each state, in their order; those of tables but for UNTIL."""
    if isinstance(operation.matching, Everywhere):
        return columns_of(operation, operation.matching, ordered=ordered)
    state = _Asked(time_is_slot=isinstance(operation.matching, AsOf))
    join_operator(operation, Place("", state, lambda: 0, ordered, frozenset()))
    return state.layouts


class _Asked(StepState):
    """In the place of a state: it keeps nothing, and knows what was opened."""

    def __init__(self, *, time_is_slot: bool) -> None:
        """`time_is_slot`: whether SLOT stands where the time of a row was, before its number."""
        self.layouts: dict[str, Layout] = {}
        self.clock_us = NO_CLOCK_US
        self.counts = Counts()
        self.beside: dict[str, Callable[[], Size]] = {}
        self._time_is_slot = time_is_slot

    def runs(self, name: str, layout: RunsLayout) -> Runs:
        """Rows with SLOT."""
        names = list(layout.columns)
        numbers = [at for at, each in enumerate(names) if each in NUMBERS]
        names.insert(numbers[0] if self._time_is_slot and numbers else len(names), SLOT)
        types = {**layout.columns, SLOT: to_polars(BIGINT)}
        self.layouts[name] = {each: types[each] for each in names}
        return cast(Runs, _Nothing())

    def table(self, name: str, columns: Layout, group: tuple[str, ...] | None = None) -> Table:
        """Rows with KEY."""
        import polars as pl

        self.layouts[name] = {KEY: pl.String(), **columns}
        return cast(Table, _Nothing())

    def entries(self, name: str, spread: Spread) -> Entries:
        """Their columns are not told here."""
        raise AssertionError("it is asked of who keeps rows by key")

    def columns(self, name: str) -> None:
        """Nothing was restored."""

    def sizes(self) -> Mapping[str, Size]:
        """It keeps nothing."""
        return {}

    def freeze(self) -> Frozen:
        """Nothing is kept of it."""
        raise AssertionError("no rows come to what is only asked")

    def close(self) -> None:
        """It holds nothing."""


class _Nothing:
    """Runs or a table without rows, of which nothing but that is asked before rows come."""

    rows = 0
