"""The placement of subtasks on workers: which of them runs each subtask.

Subtasks that are connected by forward edges share a slot: a worker then holds whole pipelines, and
rows cross workers only where they are exchanged by key or between different parallelisms. Exchanged
rows go from every subtask to every other, so nothing is lost where their ends are on different
workers. Parts with the same slot name share slots as well, and parts with different ones do not.

The slots of a group go round the workers. A group whose slots cannot be dealt out evenly begins at
the worker that has the least so far. Of subtasks with equal tasks the first of a group weighs more:
a source with few splits gives them to its first subtasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.core.api.splits import SubtaskId
from headrace.core.plan import nodes
from headrace.core.plan.components import find_components


@dataclass(slots=True)
class _WorkerLoad:
    """The subtasks that are placed on a worker."""

    subtasks: int = 0
    first_subtasks: int = 0
    """The number of those with index 0."""


@dataclass(slots=True)
class _SlotGroup:
    """Tasks whose subtasks of the same index are placed together."""

    tasks: list[int] = field(default_factory=list)
    parallelism: int = 0
    """The highest parallelism of its tasks: the number of its slots."""


def place_subtasks(
    plan: nodes.Plan, workers: int, slots: Mapping[str, str] | None = None
) -> dict[SubtaskId, int]:
    """Return the number of the worker of each subtask, from 0.

    `slots` has the slot names of parts that have one; the first part of a task decides.
    """
    loads = [_WorkerLoad() for _ in range(workers)]
    placement: dict[SubtaskId, int] = {}
    for group in _group_tasks(plan, slots or {}):
        first = _choose_worker(group, loads)
        for task in group.tasks:
            for index in range(plan.tasks[task].parallelism):
                worker = (first + index) % workers
                placement[SubtaskId(task, index)] = worker
                loads[worker].subtasks += 1
                loads[worker].first_subtasks += index == 0
    return dict(sorted(placement.items()))


def _group_tasks(plan: nodes.Plan, slots: Mapping[str, str]) -> list[_SlotGroup]:
    """Return the slot groups: those with the most slots first, else in the order of the plan."""
    names = [slots.get(task.parts[0]) for task in plan.tasks]
    of_part = {name: number for number, task in enumerate(plan.tasks) for name in task.parts}
    joined = [
        (of_part[edge.producer], of_part[edge.consumer])
        for edge in plan.edges
        if edge.exchange == "forward"
        and names[of_part[edge.producer]] == names[of_part[edge.consumer]]
    ]
    first_of: dict[str, int] = {}
    for number, name in enumerate(names):
        if name is not None:
            joined.append((first_of.setdefault(name, number), number))
    groups = [
        _SlotGroup(sorted(tasks), max(plan.tasks[number].parallelism for number in tasks))
        for tasks in find_components(range(len(plan.tasks)), joined)
    ]
    return sorted(groups, key=lambda group: -group.parallelism)


def _choose_worker(group: _SlotGroup, loads: Sequence[_WorkerLoad]) -> int:
    """Return the worker of the first slot of a group."""
    workers = len(loads)
    left = group.parallelism % workers
    if not left:
        return 0

    def measure(first: int) -> tuple[int, int, int]:
        used = [loads[(first + index) % workers] for index in range(left)]
        return sum(u.subtasks for u in used), sum(u.first_subtasks for u in used), first

    return min(range(workers), key=measure)
