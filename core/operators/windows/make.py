"""From a step's operation to the operator of its windows."""

from __future__ import annotations

from headrace.core.operators.folds import Aggregates
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.operator import Operator
from headrace.core.operators.outgoing import Outgoing
from headrace.core.operators.place import Place
from headrace.core.operators.windows.due import Shared, Whole
from headrace.core.operators.windows.filing import Filed
from headrace.core.operators.windows.grid import grid_of
from headrace.core.operators.windows.results import Results
from headrace.core.operators.windows.rows import Clock, Rows
from headrace.core.operators.windows.spread import Spread
from headrace.core.operators.windows.windows import Parts, Windows
from headrace.core.plan import nodes


def windowed(operation: nodes.Aggregate, place: Place) -> Operator:
    """The operator of an operation over windows of time."""
    window = operation.window
    assert window is not None
    grouping = Grouping(operation.key)
    grid = grid_of(window.shape)
    clock = Clock(window, grid, place)
    fold = Aggregates(operation, grouping, newest=not window.bounded)
    filed = Filed(place.state, grouping, fold)
    spread = Spread(grid, filed)
    due = (
        Whole(filed, keep=window.lateness_us > 0)
        if grid.one_to_one
        else Shared(grid, filed, spread)
    )
    out = Outgoing(operation, place.stream, ordered=place.ordered)
    results = Results(grid, grouping, fold, out, bounded=window.bounded)
    rows = Rows(grid, clock, grouping, fold)
    return Windows(Parts(window, grid, clock, rows, filed, spread, due, results, place))
