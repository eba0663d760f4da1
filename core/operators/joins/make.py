"""The factory of join operators."""

from __future__ import annotations

from headrace.core.operators.operator import TwoInputOperator
from headrace.core.operators.place import KeyedContext
from headrace.core.plan import nodes
from headrace.core.plan.matching import (
    AsOfMatch,
    BroadcastMatch,
    ChangelogMatch,
    IntervalMatch,
    WindowMatch,
)
from headrace.core.plan.windows import Session


def build_join(operation: nodes.Join, place: KeyedContext) -> TwoInputOperator:
    """Build the operator of a join, over the state of its subtask."""
    match operation.matching:
        case IntervalMatch():
            from headrace.core.operators.joins.within import IntervalJoin

            return IntervalJoin(operation, operation.matching, place)
        case WindowMatch(window) if isinstance(window.shape, Session):
            from headrace.core.operators.joins.sessions import SessionJoin

            return SessionJoin(operation, window, place)
        case WindowMatch(window):
            from headrace.core.operators.joins.windows import WindowJoin

            return WindowJoin(operation, window, place)
        case AsOfMatch():
            from headrace.core.operators.joins.as_of import AsOfJoin

            return AsOfJoin(operation, operation.matching, place)
        case ChangelogMatch():
            from headrace.core.operators.joins.changing import ChangelogJoin

            return ChangelogJoin(operation, operation.matching, place)
        case BroadcastMatch():
            from headrace.core.operators.joins.everywhere import BroadcastJoin

            return BroadcastJoin(operation, operation.matching, place)
    raise AssertionError(operation)
