"""The steps inside of loops: those through which rows come back to the head.

Tests: tests/core/plan/test_loops.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from headrace.core.plan import nodes
from headrace.core.plan.layout import get_input_streams, get_loop
from headrace.core.plan.plan_cache import cache_by_plan
from headrace.core.plan.stream_graph import sort_topologically


def find_steps_between(
    parts: Sequence[nodes.PlanPart], start: Collection[str], end: str
) -> dict[str, nodes.Step]:
    """Return the steps on the ways from the streams of `start` to the stream `end`, by name."""
    reached, below = set(start), dict[str, nodes.Step]()
    for part in parts:
        if isinstance(part, nodes.Step) and not reached.isdisjoint(part.inputs):
            below[part.name] = part
            reached.update(stream.name for stream in part.outputs)
    needed, between = {end}, dict[str, nodes.Step]()
    for step in reversed(below.values()):
        if not needed.isdisjoint(stream.name for stream in step.outputs):
            between[step.name] = step
            needed.update(step.inputs)
    return dict(reversed(between.items()))


def list_loops(parts: Iterable[nodes.PlanPart]) -> list[tuple[nodes.Step, nodes.Loop]]:
    """Return the heads of loops, each with its operation."""
    return [
        (part, loop)
        for part in parts
        if isinstance(part, nodes.Step) and (loop := get_loop(part)) is not None
    ]


@cache_by_plan
def find_loop_bodies(plan: nodes.Plan) -> Mapping[str, Mapping[str, nodes.Step]]:
    """Return the steps inside of each loop, by the name of its head."""
    return {
        head.name: find_steps_between(plan.parts, loop.list_inner_streams(head.name), loop.feedback)
        for head, loop in list_loops(plan)
    }


def list_inner_streams(
    plan: nodes.Plan, name: str, *, feedback: bool
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the loops that a part is inside of, each with the streams inside.

    With `feedback`, that of which the part is the head.
    """
    for head, body in find_loop_bodies(plan).items():
        if name in body or (feedback and name == head):
            loop = get_loop(plan.part(head))
            assert loop is not None, "it is the head of a loop"
            produced = (out.name for step in body.values() for out in step.outputs)
            yield head, frozenset({*loop.list_inner_streams(head), *produced})


def sort_for_rounds(plan: nodes.Plan) -> tuple[nodes.PlanPart, ...]:
    """Return the parts in an order in which a loop can run by itself, round by round.

    All that comes into a loop from outside is before its head.
    """
    heads = list_loops(plan)
    if not heads:
        return plan.parts
    writers = {edge.stream: edge.producer for edge in plan.edges}
    reads = {part.name: [writers[name] for name in get_input_streams(part)] for part in plan}
    for head, _ in heads:
        body = find_loop_bodies(plan)[head.name]
        outside = [each for step in body.values() for each in reads[step.name]]
        reads[head.name] += [each for each in outside if each not in body and each != head.name]
    return tuple(map(plan.part, sort_topologically(reads)))
