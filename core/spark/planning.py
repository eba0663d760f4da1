"""The plan as a batch runs it, without the parts that matter only while rows still arrive.

No row is late, so lateness has no effect. A window that fires early is emitted again later, so only
its last firing counts. Operations that depend on the order of arrival take rows in the order of
their event time, then of their position among all rows.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.core.plan import nodes
from headrace.core.plan.ordering import mark_ordered_streams, needs_row_order
from headrace.core.plan.windows import Count, Window


def to_batch_plan(plan: nodes.Plan) -> nodes.Plan:
    """Convert the plan of a stream to that of a batch."""
    parts = (_convert_step(part) if isinstance(part, nodes.Step) else part for part in plan)
    return replace(plan, parts=mark_ordered_streams(parts, _needs_batch_order))


def _convert_step(step: nodes.Step) -> nodes.Step:
    return replace(step, operations=tuple(map(_convert_operation, step.operations)))


def _convert_operation(operation: nodes.Operation) -> nodes.Operation:
    if not isinstance(operation, nodes.WindowedOperation):
        return operation
    if isinstance(operation, nodes.Apply):
        return replace(operation, window=_fire_once(operation.window))
    window = None if operation.window is None else _fire_once(operation.window)
    # A changelog becomes its final table, whose rows are never retracted.
    return replace(operation, window=window, changelog_key=None)


def _fire_once(window: Window) -> Window:
    trigger = None if window.keeps_rows else window.trigger
    return replace(window, lateness_us=0, trigger=trigger)


def _needs_batch_order(operation: nodes.Operation) -> bool:
    """Whether the operation needs sorted rows; also if a stream would take the order of arrival."""
    if isinstance(operation, nodes.Dedup):
        return True
    if isinstance(operation, nodes.Aggregate | nodes.Apply) and operation.window is not None:
        return isinstance(operation.window.shape, Count) or needs_row_order(operation)
    return needs_row_order(operation)
