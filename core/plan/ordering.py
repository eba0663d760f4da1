"""Which streams carry their rows' places in the order of all: those where a reader needs them.

Walked from the readers up to the sources, which number what they read. An aggregating step places
its rows itself, by time and key; every other step hands on the place that its rows came with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from headrace.core.plan.matching import AsOf, Connected, Everywhere
from headrace.core.plan.nodes import (
    Aggregate,
    Apply,
    Dedup,
    Join,
    Operation,
    PlanPart,
    Process,
    Sink,
    Step,
    Top,
)


def with_order(
    parts: Iterable[PlanPart], needs: Callable[[Operation], bool] | None = None
) -> tuple[PlanPart, ...]:
    """The parts with `ordered` set on the streams whose rows need their place.

    `needs` says it of an operation that the place of rows has to be known.
    """
    parts = tuple(parts)
    ordered: set[str] = set()
    for part in reversed(parts):
        if isinstance(part, Step) and _reads_order(part, ordered, needs or needs_order):
            ordered.update(part.inputs)
    return tuple(_marked(part, ordered) for part in parts) if ordered else parts


def _reads_order(step: Step, ordered: set[str], needs: Callable[[Operation], bool]) -> bool:
    """Whether the rows that come to a step must have their place."""
    if any(map(needs, step.operations)):
        return True
    places = any(isinstance(operation, Aggregate | Apply) for operation in step.operations)
    handed_on = step.asides if places else {stream.name for stream in step.outputs}
    return not ordered.isdisjoint(handed_on)


def needs_order(operation: Operation) -> bool:
    """Whether what it makes of rows depends on their order, however they come."""
    match operation:
        case Aggregate():
            return operation.needs_order
        case Dedup():
            return operation.in_time
        case Process():
            return operation.body.in_time
        case Join():
            match operation.matching:
                case Everywhere(in_time=in_time):
                    return in_time
                case Connected(body):
                    return body.in_time
            return isinstance(operation.matching, AsOf)
    return isinstance(operation, Apply | Top)


def _marked(part: PlanPart, ordered: set[str]) -> PlanPart:
    if isinstance(part, Sink):
        return part
    outputs = tuple(replace(s, ordered=s.name in ordered) for s in part.outputs)
    return replace(part, outputs=outputs)
