"""From a step's operation to the operator of its windows."""

from __future__ import annotations

from headrace.core.operators.folds import Aggregates
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.operator import Operator
from headrace.core.operators.outgoing import Outgoing
from headrace.core.operators.place import Place
from headrace.core.operators.windows.filing import Filed
from headrace.core.operators.windows.grid import grid_of
from headrace.core.operators.windows.results import Results
from headrace.core.operators.windows.windows import Windows
from headrace.core.plan import nodes


def windowed(operation: nodes.Aggregate, place: Place) -> Operator:
    """The operator of an operation over windows of time."""
    window = operation.window
    assert window is not None
    grouping = Grouping(operation.key)
    grid = grid_of(window.shape)
    fold = Aggregates(operation, grouping, newest=not window.bounded)
    out = Outgoing(operation, place.stream, ordered=place.ordered)
    results = Results(grid, grouping, fold, out, bounded=window.bounded)
    filed = Filed(place.state, grouping, fold)
    return Windows(window, grid, grouping, filed, results, place.state, late_read=place.late)
