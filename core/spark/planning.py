"""The plan as a batch runs it, without the parts that matter only while rows still arrive.

No row is late, so lateness has no effect. A window that fires early is emitted again later, so only
its last firing counts. Operations that depend on the order of arrival take rows in the order of
their event time, then of their position among all rows.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.core.plan import nodes
from headrace.core.plan.ordering import needs_order, with_order
from headrace.core.plan.windows import Count, Window


def of_batch(plan: nodes.Plan) -> nodes.Plan:
    """Convert the plan of a stream to that of a batch."""
    parts = (_at_once(part) if isinstance(part, nodes.Step) else part for part in plan)
    return replace(plan, parts=with_order(parts, _is_in_order))


def _at_once(step: nodes.Step) -> nodes.Step:
    return replace(step, operations=tuple(map(_fired_once, step.operations)))


def _fired_once(operation: nodes.Operation) -> nodes.Operation:
    if not isinstance(operation, nodes.Windowed):
        return operation
    if isinstance(operation, nodes.Apply):
        return replace(operation, window=_once(operation.window))
    window = None if operation.window is None else _once(operation.window)
    # A changelog becomes its final table, whose rows are never retracted.
    return replace(operation, window=window, changes=None)


def _once(window: Window) -> Window:
    trigger = None if window.accumulate else window.trigger
    return replace(window, lateness_us=0, trigger=trigger)


def _is_in_order(operation: nodes.Operation) -> bool:
    """Whether the operation needs sorted rows; also if a stream would take the order of arrival."""
    if isinstance(operation, nodes.Dedup):
        return True
    if isinstance(operation, nodes.Aggregate | nodes.Apply) and operation.window is not None:
        return isinstance(operation.window.shape, Count) or needs_order(operation)
    return needs_order(operation)
