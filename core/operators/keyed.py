"""The operator of each keyed operation."""

from __future__ import annotations

from headrace.core.operators.operator import Operator
from headrace.core.operators.place import Place
from headrace.core.operators.running import Running
from headrace.core.plan import nodes


def keyed_operator(operation: nodes.Keyed, place: Place) -> Operator:
    """The operator that does this, over the state of its subtask."""
    match operation:
        case nodes.Aggregate(window=Window(shape=Session())):
            return _sessions(operation, place)
        case nodes.Aggregate(window=Window(shape=Count())):
            return _counting(operation, place)
    raise NotImplementedError(operation)


def _sessions(operation: nodes.Aggregate, place: Place) -> Operator:
    from headrace.core.operators.sessions import Sessions

    assert operation.window is not None
    grouping = Grouping(operation.key)
    fold = Aggregates(operation, grouping)
    out = Outgoing(operation, place.stream, ordered=place.ordered)
    return Sessions(
        operation.window, grouping, fold, place.state, out, place.now_us, late=place.late
    )


def _counting(operation: nodes.Aggregate, place: Place) -> Operator:
    from headrace.core.operators.counting import Counting

    assert operation.window is not None and isinstance(operation.window.shape, Count)
    grouping = Grouping(operation.key)
    fold = Aggregates(operation, grouping)
    out = Outgoing(operation, place.stream, ordered=place.ordered)
    return Counting(operation.window.shape, grouping, fold, place.state, out)
