"""The factory of window operators and their folds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core.operators.by_users import Applied, EvictedByUser
from headrace.core.operators.folds import Aggregates, Fold
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.kept import Best, Evicted
from headrace.core.operators.numbered import Numbered
from headrace.core.operators.operator import Operator
from headrace.core.operators.outgoing import Outgoing
from headrace.core.operators.place import Place
from headrace.core.operators.telling import Telling
from headrace.core.operators.windows.counted import Counted
from headrace.core.operators.windows.due import Shared, Whole
from headrace.core.operators.windows.filing import Filed
from headrace.core.operators.windows.grid import Apart, Grid, grid_of
from headrace.core.operators.windows.results import Results
from headrace.core.operators.windows.rows import Clock, Rows
from headrace.core.operators.windows.spread import Spread
from headrace.core.operators.windows.triggers import Changed
from headrace.core.operators.windows.watched import Remembering, Watched
from headrace.core.operators.windows.windows import Parts, Windows
from headrace.core.plan import nodes
from headrace.core.plan.windows import Trigger

if TYPE_CHECKING:
    import polars as pl


def windowed(operation: nodes.Windowed, place: Place, types: Mapping[str, pl.DataType]) -> Operator:
    """Build the operator of an operation over time windows.

    `types` are the types of the input columns.
    """
    window = operation.window
    assert window is not None
    grouping = Grouping(operation.key)
    panes = grid_of(window.shape)
    fold = fold_of(operation, grouping, types, newest=not window.bounded)
    clock = Clock(window, place)
    out = Outgoing(operation, place.stream, ordered=place.ordered)
    results = Results(operation, panes, grouping, fold, out)
    trigger = window.trigger
    # Rows arrive by pane; windows with a row-based trigger each get their own copy.
    by_rows = trigger is not None and trigger.looks_at_rows
    grid: Grid = Apart(panes) if by_rows else panes
    marked = _marked(fold, trigger)
    rows = Rows(panes, clock, grouping, marked)
    filed = Filed(place.state, grouping, marked)
    spread = Spread(grid, filed)
    keep = window.lateness_us > 0 and window.accumulate
    due = Whole(filed, keep=keep) if grid.one_to_one else Shared(grid, filed, spread)
    every = trigger is not None and trigger.every_us is not None
    changed = Changed(place.state, grouping, filed) if every and window.accumulate else None
    parts = Parts(window, grid, clock, rows, filed, spread, due, results, place, changed)
    if trigger is None or not by_rows:
        return Windows(parts)
    if trigger.count is None:
        return Watched(parts, panes, Telling(grouping, window))
    return Counted(parts, panes, trigger.count)


def _marked(fold: Fold, trigger: Trigger | None) -> Fold:
    """Add the columns that a row-based trigger needs to the fold."""
    if trigger is None or not trigger.looks_at_rows:
        return fold
    return Numbered(fold) if trigger.code is None else Remembering(fold, trigger)


def fold_of(
    operation: nodes.Windowed,
    grouping: Grouping,
    types: Mapping[str, pl.DataType],
    *,
    newest: bool = False,
) -> Fold:
    """Build the fold of a windowed operation; `types` are the types of the input columns."""
    window = operation.window
    telling = Telling(grouping, window)
    fold: Aggregates | Applied | Best
    if isinstance(operation, nodes.Top):
        fold = Best(operation, types, newest=newest)
    else:
        fold = (
            Applied(operation, grouping, telling, newest=newest)
            if isinstance(operation, nodes.Apply)
            else Aggregates(operation, grouping, newest=newest)
        )
        types = fold.types
    evict = window.evict if window else None
    if evict is None:
        return fold
    evicted = Evicted if evict.code is None else EvictedByUser
    return evicted(evict, fold, types, telling)
