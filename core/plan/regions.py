"""The regions of a plan: the subtasks that rows connect, which therefore restart together.

A forward edge connects the subtasks of equal index; any other exchange connects every subtask that
it reads from with every one that it writes to. A subtask of one region never gets a row, a barrier
or a watermark of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headrace.core.api.splits import SubtaskId
from headrace.core.plan import nodes
from headrace.core.plan.components import find_components
from headrace.core.plan.layout import list_subtask_ids


def find_regions(plan: nodes.Plan) -> tuple[frozenset[SubtaskId], ...]:
    """Return the connected components of the graph of subtasks, ordered by their first subtasks."""
    return find_components(list_subtask_ids(plan), _connect_subtasks(plan))


def _connect_subtasks(plan: nodes.Plan) -> Iterator[tuple[SubtaskId, SubtaskId]]:
    """Yield enough pairs to connect the subtasks of each edge, without all pairs of an exchange."""
    of_part = {name: number for number, task in enumerate(plan.tasks) for name in task.parts}
    for edge in plan.edges:
        writer, reader = of_part[edge.producer], of_part[edge.consumer]
        if edge.exchange == "forward":
            for index in range(plan.tasks[writer].parallelism):
                yield SubtaskId(writer, index), SubtaskId(reader, index)
        else:
            for task in (writer, reader):
                for index in range(plan.tasks[task].parallelism):
                    yield SubtaskId(writer, 0), SubtaskId(task, index)


def find_lost_subtasks(
    regions: Iterable[frozenset[SubtaskId]], placement: Mapping[SubtaskId, int], worker: int
) -> frozenset[SubtaskId]:
    """Return the subtasks that restart when a worker dies: those of all regions that it ran."""
    return frozenset(
        subtask
        for region in regions
        if any(placement[each] == worker for each in region)
        for subtask in region
    )
