"""The placement of subtasks on workers: which of them runs each subtask.

Each slot has workers of its own, so that its subtasks are apart from those of other slots. Slots
with more subtasks of a task get more workers, but none gets more than it can use. With fewer
workers than slots, some slots share one.

Within a slot, subtasks that are connected by forward edges are placed together: a worker then holds
whole pipelines, and rows cross workers only where they are exchanged by key or between different
parallelisms. Exchanged rows go from every subtask to every other, so nothing is lost where their
ends are on different workers.

The subtasks of a group go round the workers. A group that cannot be dealt out evenly begins at the
worker that has the least so far. Of subtasks with equal tasks the first of a group weighs more:
a source with few splits gives them to its first subtasks.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from typing import TypeVar

from headrace.core.api.splits import SubtaskId
from headrace.core.plan import nodes
from headrace.core.plan.components import find_components
from headrace.core.types.lazy_dataclass import dataclass

W = TypeVar("W", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PlacedTask:
    """The subtasks of a task that one worker runs."""

    task: int
    """The number of the task, from 1 as in the list of tasks."""
    parts: tuple[str, ...]
    slot: str
    subtasks: tuple[int, ...]

    def to_document(self) -> dict[str, object]:
        """Return it as plain data."""
        return {
            "task": self.task,
            "parts": list(self.parts),
            "slot": self.slot,
            "subtasks": list(self.subtasks),
        }


@dataclass(slots=True)
class _WorkerLoad:
    """The subtasks that are placed on a worker."""

    subtasks: int = 0
    first_subtasks: int = 0
    """The number of those with index 0."""


@dataclass(slots=True)
class _SlotGroup:
    """Tasks of one slot whose subtasks of the same index are placed together."""

    slot: str
    tasks: list[int] = field(default_factory=list)
    parallelism: int = 0
    """The highest parallelism of its tasks."""


def place_subtasks(plan: nodes.Plan, workers: int) -> dict[SubtaskId, int]:
    """Return the number of the worker of each subtask, from 0."""
    loads = [_WorkerLoad() for _ in range(workers)]
    workers_of = divide_workers(plan, workers)
    placement: dict[SubtaskId, int] = {}
    for group in _group_tasks(plan):
        own = workers_of[group.slot]
        first = _choose_worker(group, [loads[worker] for worker in own])
        for task in group.tasks:
            for index in range(plan.tasks[task].parallelism):
                worker = own[(first + index) % len(own)]
                placement[SubtaskId(task, index)] = worker
                loads[worker].subtasks += 1
                loads[worker].first_subtasks += index == 0
    return dict(sorted(placement.items()))


def group_by_worker(
    plan: nodes.Plan, placement: Mapping[SubtaskId, W]
) -> dict[W, tuple[PlacedTask, ...]]:
    """Return the tasks of each worker that has some, with the subtasks that it runs."""
    indices: dict[W, dict[int, list[int]]] = {}
    for subtask in sorted(placement):
        of_worker = indices.setdefault(placement[subtask], {})
        of_worker.setdefault(subtask.task, []).append(subtask.index)
    return {
        worker: tuple(
            PlacedTask(at + 1, plan.tasks[at].parts, plan.tasks[at].slot, tuple(subtasks))
            for at, subtasks in tasks.items()
        )
        for worker, tasks in indices.items()
    }


def count_usable_workers(plan: nodes.Plan) -> int:
    """Return the number of workers above which some would run no subtask."""
    return sum(_count_usable_by_slot(plan).values())


def describe_unused_workers(plan: nodes.Plan, workers: int) -> str:
    """Describe the workers that would run no subtask and are not started; empty if there are none.

    `workers` are those that were asked for.
    """
    usable = count_usable_workers(plan)
    if usable >= workers:
        return ""
    if usable == 1:
        return f"workers: {workers}: one process runs everything: a second would have no subtask"
    return f"workers: {workers}: {usable} are used: more would have no subtask"


def divide_workers(plan: nodes.Plan, workers: int) -> dict[str, range]:
    """Return the workers of each slot, from 0; two slots share one only if there are too few.

    The last workers are of no slot if there are more than `count_usable_workers`.
    """
    widths: dict[str, int] = {}
    for task in plan.tasks:
        widths[task.slot] = max(widths.get(task.slot, 0), task.parallelism)
    if workers < len(widths):
        return {slot: range(at % workers, at % workers + 1) for at, slot in enumerate(widths)}
    counts, usable = dict.fromkeys(widths, 1), _count_usable_by_slot(plan)
    for _ in range(min(workers, sum(usable.values())) - len(widths)):
        open_slots = [slot for slot in widths if counts[slot] < usable[slot]]
        counts[max(open_slots, key=lambda slot: widths[slot] / counts[slot])] += 1
    divided, first = {}, 0
    for slot, count in counts.items():
        divided[slot] = range(first, first + count)
        first += count
    return divided


def _count_usable_by_slot(plan: nodes.Plan) -> dict[str, int]:
    """Return the number of workers over which the subtasks of each slot can be spread."""
    usable: dict[str, int] = {}
    for group in _group_tasks(plan):
        usable[group.slot] = usable.get(group.slot, 0) + group.parallelism
    return usable


def _group_tasks(plan: nodes.Plan) -> list[_SlotGroup]:
    """Return the groups: those with the most subtasks first, else in the order of the plan."""
    of_part = {name: number for number, task in enumerate(plan.tasks) for name in task.parts}
    ends = [
        (of_part[edge.producer], of_part[edge.consumer])
        for edge in plan.edges
        if edge.exchange == "forward"
    ]
    joined = [(one, other) for one, other in ends if plan.tasks[one].slot == plan.tasks[other].slot]
    groups = []
    for found in find_components(range(len(plan.tasks)), joined):
        tasks = sorted(found)
        parallelism = max(plan.tasks[number].parallelism for number in tasks)
        groups.append(_SlotGroup(plan.tasks[tasks[0]].slot, tasks, parallelism))
    return sorted(groups, key=lambda group: -group.parallelism)


def _choose_worker(group: _SlotGroup, loads: Sequence[_WorkerLoad]) -> int:
    """Return the worker of the first subtasks of a group, by its place in `loads`."""
    workers = len(loads)
    left = group.parallelism % workers
    if not left:
        return 0

    def measure(first: int) -> tuple[int, int, int]:
        used = [loads[(first + index) % workers] for index in range(left)]
        return sum(u.subtasks for u in used), sum(u.first_subtasks for u in used), first

    return min(range(workers), key=measure)
