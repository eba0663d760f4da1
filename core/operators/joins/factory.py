"""The factory of join operators."""

from __future__ import annotations

from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import TwoInputOperator
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import (
    AsOfMatch,
    BroadcastMatch,
    ChangelogMatch,
    IntervalMatch,
    TableMatch,
    WindowMatch,
)
from headrace.core.plan.nodes.windows import Session


def build_join(operation: nodes.Join, context: KeyedContext) -> TwoInputOperator:
    """Build the operator of a join, over the state of its subtask."""
    match operation.matching:
        case IntervalMatch():
            from headrace.core.operators.joins.interval_join import IntervalJoin

            return IntervalJoin(operation, operation.matching, context)
        case WindowMatch(window) if isinstance(window.shape, Session):
            from headrace.core.operators.joins.session_join import SessionJoin

            return SessionJoin(operation, window, context)
        case WindowMatch(window):
            from headrace.core.operators.joins.window_join import WindowJoin

            return WindowJoin(operation, window, context)
        case AsOfMatch():
            from headrace.core.operators.joins.as_of_join import AsOfJoin

            return AsOfJoin(operation, operation.matching, context)
        case ChangelogMatch():
            from headrace.core.operators.joins.changelog_join import ChangelogJoin

            return ChangelogJoin(operation, operation.matching, context)
        case TableMatch(ttl_us):
            from headrace.core.operators.joins.table_join import ExpiringTableJoin, TableJoin

            if ttl_us is not None:
                return ExpiringTableJoin(operation, ttl_us, context)
            return TableJoin(operation, context)
        case BroadcastMatch():
            from headrace.core.operators.joins.broadcast_join import BroadcastJoin

            return BroadcastJoin(operation, operation.matching, context)
    raise AssertionError(operation)
