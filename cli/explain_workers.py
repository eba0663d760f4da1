"""The workers of a pipeline, and the subtasks that each of them runs, for `headrace explain`.

Tests: tests/cli/test_explain_workers.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.pipeline.model import Pipeline
    from headrace.core.plan.nodes import Plan
    from headrace.core.plan.placement import PlacedTask

LISTED_SUBTASKS = 4
"""The most subtasks of a task that are listed one by one."""


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """The workers that would run a pipeline."""

    count: int
    reason: str | None
    """Why there are as many, with `workers: auto`."""
    placement: dict[int, tuple[PlacedTask, ...]]
    """The subtasks of each worker; number 0 is the coordinator's process, if it runs them."""
    notes: tuple[str, ...]
    """The settings that have no effect, each with the reason."""

    @property
    def is_plain(self) -> bool:
        """Whether one process runs everything, and nobody has asked for anything else."""
        return self.count == 1 and self.reason is None and not self.notes

    def format_lines(self) -> Iterator[str]:
        """Yield the workers as text."""
        yield f"workers: {self.count}" + (f" (auto: {self.reason})" if self.reason else "")
        if self.count > 1:
            for number, placed in self.placement.items():
                shown = "; ".join(f"task {e.task}: {_format_subtasks(e.subtasks)}" for e in placed)
                yield f"    {str(number).ljust(len(str(self.count)))}  {shown}"
        yield from (f"    {note}" for note in self.notes)

    def build_document(self) -> dict[str, object]:
        """Return the workers as plain data."""
        return {
            "count": self.count,
            "reason": self.reason,
            "placement": [
                {"worker": number, "tasks": [each.to_document() for each in placed]}
                for number, placed in self.placement.items()
            ],
            "notes": list(self.notes),
        }


def plan_workers(pipeline: Pipeline, plan: Plan, *, batch: bool) -> WorkerPlan:
    """Return the workers that would run a pipeline."""
    from headrace.core.plan.placement import (
        count_usable_workers,
        describe_unused_workers,
        group_by_worker,
        place_subtasks,
    )

    wanted, choice = pipeline.settings.workers, pipeline.worker_choice
    alone = [
        name
        for name, source in pipeline.sources.items()
        if source.connector.source and not source.connector.source.is_replayable
    ]
    count = 1 if alone else min(wanted, count_usable_workers(plan))
    numbers = range(1, count + 1) if count > 1 else (0,)
    subtasks = {id: numbers[at] for id, at in place_subtasks(plan, count).items()}
    placement = dict(sorted(group_by_worker(plan, subtasks).items()))
    notes = [*_list_notes(plan, count)]
    if alone and wanted > 1:
        notes.append(f"one process runs everything: {alone[0]} cannot be read again")
    elif unused := describe_unused_workers(plan, wanted):
        notes.append(unused)
    if batch and (ignored := _list_ignored(pipeline, wanted)):
        verb = "has" if len(ignored) == 1 else "have"
        notes.append(f"{_join(ignored)} {verb} no effect with --batch: Spark divides the work")
    return WorkerPlan(count, choice.reason if choice else None, placement, tuple(notes))


def _list_notes(plan: Plan, count: int) -> Iterator[str]:
    slots = list(dict.fromkeys(task.slot for task in plan.tasks))
    if count < len(slots):
        shared = "one process" if count == 1 else f"{count} workers"
        yield f"slots {_join(slots)} share {shared}: they are apart with workers: {len(slots)}"


def _list_ignored(pipeline: Pipeline, workers: int) -> list[str]:
    """Return the keys for the placement of subtasks that a pipeline has."""
    keys = {
        *(key for source in pipeline.sources.values() for key in source.keys_at),
        *(key for step in pipeline.steps.values() for key in step.keys_at),
        *(key for sink in pipeline.sinks.values() for key in sink.keys_at),
    }
    given = [key for key in ("slot", "chain") if key in keys]
    return (["workers"] if workers > 1 else []) + given


def _join(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _format_subtasks(indices: Sequence[int]) -> str:
    """Format the subtasks of a task on one worker, which are evenly spaced.

    >>> _format_subtasks((1,)), _format_subtasks((0, 2)), _format_subtasks(range(1, 64, 4))
    ('subtask 1', 'subtasks 0, 2', 'subtasks 1, 5, ..., 61')
    """
    if len(indices) == 1:
        return f"subtask {indices[0]}"
    listed = [str(each) for each in indices]
    if len(listed) > LISTED_SUBTASKS:
        listed[2:-1] = ["..."]
    return f"subtasks {', '.join(listed)}"
