"""The columns of the states of a join, as its operator opens them.

Restoring the state of a changed pipeline, or showing a state, needs the columns in their order;
they depend on how rows match, on the join type, and on the readers of the output.

Migration of the state of a join that was changed to its new definition.

Allowed changes are: which columns of a row are stored, their internal names (a column that both
inputs have is prefixed with the name of its input), whether rows have a position in the row order,
and whether they expire. New columns are null, and the position of earlier rows is the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from headrace.core.api.state import (
    EXPIRY,
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
from headrace.core.api.state_sizes import StateSize
from headrace.core.expressions.typed import ColumnReference
from headrace.core.operators.folds import get_row_types
from headrace.core.operators.joins.as_of_join import VERSIONS_STATE
from headrace.core.operators.joins.broadcast_join import RULES_STATE, get_state_columns
from headrace.core.operators.joins.factory import build_join
from headrace.core.operators.joins.join_sides import NUMBER_COLUMNS
from headrace.core.operators.joins.materialized_side import ROW_COLUMNS
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import AsOfMatch, BroadcastMatch, ChangelogMatch
from headrace.core.types.data_types import BIGINT, to_polars

if TYPE_CHECKING:
    import polars as pl

    Layout = Mapping[str, pl.DataType]
    Columns = Mapping[str, pl.DataType]


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


def build_join_migrations(
    join: nodes.Join, *, ordered: bool
) -> dict[str, Callable[[pl.DataFrame], pl.DataFrame]]:
    """Return the migration of each frame, by the name of its state."""
    layouts = get_state_layouts(join, ordered=ordered)
    return {name: partial(_migrate_frame, join, name, wanted) for name, wanted in layouts.items()}


def _migrate_frame(
    join: nodes.Join, name: str, wanted: Columns, frame: pl.DataFrame
) -> pl.DataFrame:
    """Return the frame with these columns, in order, and EXPIRY if rows still expire."""
    import polars as pl

    is_right = name.endswith("right") or name in (VERSIONS_STATE, RULES_STATE)
    side = join.right if is_right else join.left
    columns = [
        _migrate_list(join, each, wanted, frame.schema)
        if each in ROW_COLUMNS
        else _migrate_column(side, each, type, frame.columns, pl.col)
        for each, type in wanted.items()
    ]
    ttl = isinstance(join.matching, AsOfMatch) and join.matching.ttl_us is not None
    ttl |= isinstance(join.matching, ChangelogMatch) and join.matching.ttl is not None
    return frame.select(*columns, *([EXPIRY] if ttl and EXPIRY in frame.columns else []))


def _migrate_list(join: nodes.Join, name: str, wanted: Columns, frame: Columns) -> pl.Expr:
    """Migrate the rows of a key that are stored as a list."""
    import polars as pl

    side = join.right if name == ROW_COLUMNS[1] else join.left
    field, there = pl.element().struct.field, get_row_types(frame, name)
    types = get_row_types(wanted, name)
    row = [_migrate_column(side, each, type, there, field) for each, type in types.items()]
    return pl.col(name).list.eval(pl.struct(row))


def _migrate_column(
    side: nodes.JoinSide,
    name: str,
    type: pl.DataType,
    there: Iterable[str],
    read: Callable[[str], pl.Expr],
) -> pl.Expr:
    """Return the stored column, possibly under another name, or a constant for a new one."""
    import polars as pl

    of = {
        each.name: each.value.name
        for each in side.columns
        if isinstance(each.value, ColumnReference)
    }
    names = (name, of[name], f"{side.name}.{of[name]}") if name in of else (name,)
    found = next((each for each in names if each in there), None)
    if found is not None:
        return read(found).alias(name)
    return pl.lit(0 if name in NUMBER_COLUMNS else None, dtype=type).alias(name)
