"""The factory of join operators."""

from __future__ import annotations

from headrace.core.operators.operator import TwoSided
from headrace.core.operators.place import Place
from headrace.core.plan import nodes
from headrace.core.plan.matching import AsOf, Changing, Everywhere, SameWindow, Within
from headrace.core.plan.windows import Session


def join_operator(operation: nodes.Join, place: Place) -> TwoSided:
    """Build the operator of a join, over the state of its subtask."""
    match operation.matching:
        case Within():
            from headrace.core.operators.joins.within import WithinJoin

            return WithinJoin(operation, operation.matching, place)
        case SameWindow(window) if isinstance(window.shape, Session):
            from headrace.core.operators.joins.sessions import SessionJoin

            return SessionJoin(operation, window, place)
        case SameWindow(window):
            from headrace.core.operators.joins.windows import WindowJoin

            return WindowJoin(operation, window, place)
        case AsOf():
            from headrace.core.operators.joins.as_of import AsOfJoin

            return AsOfJoin(operation, operation.matching, place)
        case Changing():
            from headrace.core.operators.joins.changing import ChangingJoin

            return ChangingJoin(operation, operation.matching, place)
        case Everywhere():
            from headrace.core.operators.joins.everywhere import EverywhereJoin

            return EverywhereJoin(operation, operation.matching, place)
    raise AssertionError(operation)
