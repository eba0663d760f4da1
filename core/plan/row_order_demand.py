"""The streams whose rows carry their row order, because a reader depends on it.

The plan is traversed from the readers up to the sources, which number their rows. An aggregation
orders its output rows itself, by time and key; every other step keeps the order of its input rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from headrace.core.expressions.typed import is_random
from headrace.core.plan.changelog import is_table_window
from headrace.core.plan.layout import get_loop
from headrace.core.plan.nodes import (
    Aggregate,
    Apply,
    Dedup,
    Join,
    Match,
    Operation,
    Over,
    PlanPart,
    Process,
    Sink,
    Step,
    Top,
)
from headrace.core.plan.nodes.matching import (
    AsOfMatch,
    BroadcastMatch,
    ConnectedMatch,
    RuleMatch,
    TableMatch,
)
from headrace.core.plan.nodes.windows import Ttl
from headrace.core.plan.row_expressions import list_expressions


def mark_ordered_streams(
    parts: Iterable[PlanPart], needs: Callable[[Operation], bool] | None = None
) -> tuple[PlanPart, ...]:
    """Return the parts with `ordered` set on the streams whose rows need their row order.

    `needs` is true for an operation that depends on row order; by default `needs_row_order`.
    """
    parts = tuple(parts)
    ordered: set[str] = set()
    found = -1
    while len(ordered) > found:  # again for a loop, whose steps inside are readers of its head
        found = len(ordered)
        for part in reversed(parts):
            if not isinstance(part, Step):
                continue
            if _requires_row_order(part, ordered, needs or needs_row_order):
                if (loop := get_loop(part)) is not None:
                    ordered.update(stream.name for stream in part.outputs)
                    if loop.table is not None:
                        continue  # the rows of a table have no order of their own
                    ordered.add(loop.feedback)
                ordered.update(part.inputs)
    return tuple(_mark_outputs(part, ordered) for part in parts) if ordered else parts


def _requires_row_order(step: Step, ordered: set[str], needs: Callable[[Operation], bool]) -> bool:
    """Whether the input rows of a step must carry their row order."""
    if any(map(needs, step.operations)):
        return True
    reorders = any(map(_orders_output, step.operations))
    forwarded = step.side_outputs if reorders else {stream.name for stream in step.outputs}
    return not ordered.isdisjoint(forwarded)


def _orders_output(operation: Operation) -> bool:
    """Whether an operation gives its rows an order of their own."""
    is_rules = isinstance(operation, Join) and isinstance(operation.matching, RuleMatch)
    return is_rules or isinstance(operation, Aggregate | Apply | Match)


def needs_row_order(operation: Operation) -> bool:
    """Whether the result of an operation depends on the row order, not on the arrival order."""
    if any(is_random(each.typed) for each in list_expressions(operation)):
        return True
    if is_table_window(operation):
        return True  # a row that is written again at another time is in another window
    match operation:
        case Aggregate(reads_retractions=True, ttl=Ttl()):
            return True  # a row that is written again at another time renews its key
        case Aggregate():
            return operation.needs_order
        case Dedup():
            return operation.uses_event_time or operation.remembers_changes
        case Process():
            return operation.body.uses_event_time
        case Join():
            match operation.matching:
                case BroadcastMatch(uses_event_time=in_time):
                    return in_time
                case RuleMatch():
                    return True
                case ConnectedMatch(body):
                    return body.uses_event_time
                case TableMatch(ttl_us=int()):
                    return True  # a row that is written again at another time has other matches
            return isinstance(operation.matching, AsOfMatch)
    return isinstance(operation, Apply | Match | Over | Top)


def _mark_outputs(part: PlanPart, ordered: set[str]) -> PlanPart:
    if isinstance(part, Sink):
        return part
    outputs = tuple(replace(s, has_row_order=s.name in ordered) for s in part.outputs)
    return replace(part, outputs=outputs)
