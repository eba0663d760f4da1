"""What went through each part of a running job: read off its subtasks and channels, at any time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.core.assembly import Subtask
from headrace.core.channel import Channel
from headrace.core.plan import nodes


@dataclass(slots=True)
class PartCounts:
    """What went through a source, a step or a sink, over all its subtasks.

    `blocked_s` is how long its task was made to wait by whoever reads from it. The parts of a task
    stand still together, so they all have the same.
    """

    rows_in: int = 0
    rows_out: int = 0
    bad: int = 0
    blocked_s: float = 0.0


def part_counts(
    plan: nodes.Plan,
    subtasks: Iterable[Subtask],
    channels: Mapping[tuple[int, int, int], Channel],
) -> dict[str, PartCounts]:
    """The counts by part; `channels` are named by edge, writing subtask and reading subtask."""
    counts = {part.name: PartCounts() for part in plan}
    for subtask in subtasks:
        _add(counts, subtask, plan)
    together = {name: task.parts for task in plan.tasks for name in task.parts}
    for (edge, _, _), channel in channels.items():
        waited_s = channel.statistics().blocked_s
        for name in together[plan.edges[edge].producer]:
            counts[name].blocked_s += waited_s
    return counts


def _add(counts: dict[str, PartCounts], subtask: Subtask, plan: nodes.Plan) -> None:
    """Count the rows of one subtask's parts: each takes what the one before it let through."""
    flow = subtask.flow.rows_in
    for name in subtask.task.parts:
        part, count = plan.part(name), counts[name]
        if subtask.intake is not None and isinstance(part, nodes.Source):
            flow = subtask.intake.rows_in
            count.rows_in += subtask.intake.bad
            count.bad += subtask.intake.bad
        count.rows_in += flow
        if isinstance(part, nodes.Step):
            flow = subtask.compiled.left(part, flow)
            count.bad += subtask.compiled.failed.get(name, 0)
        count.rows_out += flow
