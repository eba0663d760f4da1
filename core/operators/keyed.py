"""The operator of each keyed operation."""

from __future__ import annotations

from headrace.core.operators.folds import Aggregates
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.operator import Operator
from headrace.core.operators.outgoing import Outgoing
from headrace.core.operators.place import Place
from headrace.core.plan import nodes
from headrace.core.plan.windows import Count, Session, Window


def keyed_operator(operation: nodes.Keyed, place: Place) -> Operator:
    """The operator that does this, over the state of its subtask."""
    match operation:
        case nodes.Aggregate(window=None):
            return _running(operation, place)
        case nodes.Aggregate(window=Window(shape=Session())):
            return _sessions(operation, place)
        case nodes.Aggregate(window=Window(shape=Count())):
            return _counting(operation, place)
        case nodes.Aggregate():
            return _windowed(operation, place)
    raise NotImplementedError(operation)


def _running(operation: nodes.Aggregate, place: Place) -> Operator:
    from headrace.core.operators.running import Running

    return Running(operation, place)


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


def _windowed(operation: nodes.Aggregate, place: Place) -> Operator:
    from headrace.core.operators.windows.make import windowed

    return windowed(operation, place)
