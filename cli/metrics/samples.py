"""Readers of metrics: they compute samples for the job, its parts, subtasks or states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from headrace.cli.metrics.figures import STATUSES, Figures
from headrace.core.history import Remembered
from headrace.core.lookup.asked import Asking
from headrace.core.sizes import Size
from headrace.core.subtask_statistics import Queue, SubtaskStatistics
from headrace.core.tally import Passed

Sample: TypeAlias = "tuple[tuple[str, ...], float]"
"""The values of the labels, and the value of the metric."""
Read: TypeAlias = "Callable[[Figures], Iterable[Sample]]"


def of_job(value: Callable[[Figures], float | None]) -> Read:
    """Build a reader of a value of the job."""

    def read(figures: Figures) -> Iterator[Sample]:
        said = value(figures)
        if said is not None:
            yield (figures.name,), said

    return read


def of_task(value: Callable[[SubtaskStatistics], float | None]) -> Read:
    """Build a reader of a value of each subtask; None gives no sample."""

    def read(figures: Figures) -> Iterator[Sample]:
        for subtask in figures.subtasks:
            said = value(subtask)
            if said is not None:
                yield (figures.name, _name(subtask), str(subtask.id.index)), said

    return read


def _name(subtask: SubtaskStatistics) -> str:
    """Return the name of a task: those of its parts, chained."""
    return " > ".join(subtask.parts)


def of_newest(value: Callable[[Remembered], float | None]) -> Read:
    """Build a reader of a value of the newest checkpoint."""

    def read(figures: Figures) -> float | None:
        newest = figures.history.newest
        return None if newest is None else value(newest)

    return of_job(read)


def of_queue(value: Callable[[Queue], float]) -> Read:
    """Build a reader of a value of the input queue of each subtask; sources have none."""

    def read(subtask: SubtaskStatistics) -> float | None:
        return None if subtask.queue is None else value(subtask.queue)

    return of_task(read)


def of_part(value: Callable[[Passed], float]) -> Read:
    """Build a reader of a value of each part of each subtask."""

    def read(figures: Figures) -> Iterator[Sample]:
        for subtask in figures.subtasks:
            for part, passed in subtask.parts.items():
                yield (figures.name, part, str(subtask.id.index)), value(passed)

    return read


def of_state(value: Callable[[Size], float]) -> Read:
    """Build a reader of a value of each state of each subtask."""

    def read(figures: Figures) -> Iterator[Sample]:
        for subtask in figures.subtasks:
            for step, sizes in subtask.states.items():
                for name, size in sizes.items():
                    yield (figures.name, step, name, str(subtask.id.index)), value(size)

    return read


def status(figures: Figures) -> Iterator[Sample]:
    """Yield 1 for the job's status, 0 for all others."""
    for each in STATUSES:
        yield (figures.name, each), float(figures.status == each)


def outcomes(figures: Figures) -> Iterator[Sample]:
    """Yield the number of checkpoints by outcome."""
    yield (figures.name, "completed"), figures.history.completed
    yield (figures.name, "failed"), figures.history.failed


def late(figures: Figures) -> Iterator[Sample]:
    """Yield the late rows of parts with windows."""
    for part in figures.parts:
        count = figures.late(part)
        if count is not None:
            yield (figures.name, part), count


def of_lookup(value: Callable[[Asking], int]) -> Read:
    """Build a reader of a value of each step with a lookup."""

    def read(figures: Figures) -> Iterator[Sample]:
        for part, counts in figures.parts.items():
            if counts.lookup is not None:
                yield (figures.name, part), value(counts.lookup)

    return read


def splits(figures: Figures) -> Iterator[Sample]:
    """Yield the number of splits of each source's subtask by status."""
    for subtask in figures.subtasks:
        if subtask.splits is not None:
            ended = sum(split.ended for split in subtask.splits)
            idle = sum(split.idle for split in subtask.splits)
            source, at = next(iter(subtask.parts)), str(subtask.id.index)
            reading = len(subtask.splits) - ended - idle
            for doing, count in (("reading", reading), ("idle", idle), ("ended", ended)):
                yield (figures.name, source, at, doing), count


def behind(figures: Figures) -> Iterator[Sample]:
    """Yield the number of unread records of each split, if it is known."""
    for subtask in figures.subtasks:
        source, at = next(iter(subtask.parts)), str(subtask.id.index)
        for split in subtask.splits or ():
            if split.behind is not None and not split.ended:
                yield (figures.name, source, at, split.name), split.behind


def watermark_s(subtask: SubtaskStatistics) -> float | None:
    """Return the watermark in seconds; None without event time, or at its end."""
    return None if subtask.lag_s is None else (subtask.watermark_us or 0) / 1e6
