"""The factory of window operators and their folds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core.operators.by_users import ApplyFold, UserEvictingFold
from headrace.core.operators.folds import AggregateFold, Fold
from headrace.core.operators.grouping import GroupingKey
from headrace.core.operators.kept import EvictingFold, TopNFold
from headrace.core.operators.numbered import CountingFold
from headrace.core.operators.operator import Operator
from headrace.core.operators.outgoing import ResultRows
from headrace.core.operators.place import KeyedContext
from headrace.core.operators.telling import GroupErrorContext
from headrace.core.operators.windows.counted import CountTriggerWindows
from headrace.core.operators.windows.due import SharedPaneWindows, SinglePaneWindows
from headrace.core.operators.windows.filing import PaneState
from headrace.core.operators.windows.grid import Grid, SeparateGrid, build_grid
from headrace.core.operators.windows.results import WindowResults
from headrace.core.operators.windows.rows import WindowClock, WindowRows
from headrace.core.operators.windows.spread import PaneExpander
from headrace.core.operators.windows.triggers import DirtyPanes
from headrace.core.operators.windows.watched import TriggerStateFold, UserTriggerWindows
from headrace.core.operators.windows.windows import WindowComponents, WindowOperator
from headrace.core.plan import nodes
from headrace.core.plan.windows import Trigger

if TYPE_CHECKING:
    import polars as pl


def build_window_operator(
    operation: nodes.WindowedOperation, place: KeyedContext, types: Mapping[str, pl.DataType]
) -> Operator:
    """Build the operator of an operation over time windows.

    `types` are the types of the input columns.
    """
    window = operation.window
    assert window is not None
    grouping = GroupingKey(operation.key)
    panes = build_grid(window.shape)
    fold = build_fold(operation, grouping, types, newest=not window.has_bounds)
    clock = WindowClock(window, place)
    out = ResultRows(operation, place.stream, ordered=place.is_ordered)
    results = WindowResults(operation, panes, grouping, fold, out)
    trigger = window.trigger
    # Rows arrive by pane; windows with a row-based trigger each get their own copy.
    by_rows = trigger is not None and trigger.depends_on_rows
    grid: Grid = SeparateGrid(panes) if by_rows else panes
    marked = _add_trigger_columns(fold, trigger)
    rows = WindowRows(panes, clock, grouping, marked)
    filed = PaneState(place.state, grouping, marked)
    spread = PaneExpander(grid, filed)
    keep = window.lateness_us > 0 and window.keeps_rows
    due = (
        SinglePaneWindows(filed, keep=keep)
        if grid.is_one_to_one
        else SharedPaneWindows(grid, filed, spread)
    )
    every = trigger is not None and trigger.every_us is not None
    changed = DirtyPanes(place.state, grouping, filed) if every and window.keeps_rows else None
    parts = WindowComponents(window, grid, clock, rows, filed, spread, due, results, place, changed)
    if trigger is None or not by_rows:
        return WindowOperator(parts)
    if trigger.count is None:
        return UserTriggerWindows(parts, panes, GroupErrorContext(grouping, window))
    return CountTriggerWindows(parts, panes, trigger.count)


def _add_trigger_columns(fold: Fold, trigger: Trigger | None) -> Fold:
    """Add the columns that a row-based trigger needs to the fold."""
    if trigger is None or not trigger.depends_on_rows:
        return fold
    return CountingFold(fold) if trigger.code is None else TriggerStateFold(fold, trigger)


def build_fold(
    operation: nodes.WindowedOperation,
    grouping: GroupingKey,
    types: Mapping[str, pl.DataType],
    *,
    newest: bool = False,
) -> Fold:
    """Build the fold of a windowed operation; `types` are the types of the input columns."""
    window = operation.window
    telling = GroupErrorContext(grouping, window)
    fold: AggregateFold | ApplyFold | TopNFold
    if isinstance(operation, nodes.Top):
        fold = TopNFold(operation, types, newest=newest)
    else:
        fold = (
            ApplyFold(operation, grouping, telling, newest=newest)
            if isinstance(operation, nodes.Apply)
            else AggregateFold(operation, grouping, newest=newest)
        )
        types = fold.input_types
    evict = window.evict if window else None
    if evict is None:
        return fold
    evicted = EvictingFold if evict.code is None else UserEvictingFold
    return evicted(evict, fold, types, telling)
