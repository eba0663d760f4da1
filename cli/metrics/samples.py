"""How figures become samples: one for the job, or for each of its parts, subtasks, states."""

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
"""The values of the labels, and the figure."""
Read: TypeAlias = "Callable[[Figures], Iterable[Sample]]"


def of_job(value: Callable[[Figures], float | None]) -> Read:
    """A figure of the job, if there is one."""

    def read(figures: Figures) -> Iterator[Sample]:
        said = value(figures)
        if said is not None:
            yield (figures.name,), said

    return read


def of_task(value: Callable[[SubtaskStatistics], float | None]) -> Read:
    """A figure of each subtask, of those that have one."""

    def read(figures: Figures) -> Iterator[Sample]:
        for subtask in figures.subtasks:
            said = value(subtask)
            if said is not None:
                yield (figures.name, _name(subtask), str(subtask.id.index)), said

    return read


def _name(subtask: SubtaskStatistics) -> str:
    """What the parts of a task are called together."""
    return " > ".join(subtask.parts)


def of_newest(value: Callable[[Remembered], float | None]) -> Read:
    """A figure of the newest checkpoint, once there is one."""

    def read(figures: Figures) -> float | None:
        newest = figures.history.newest
        return None if newest is None else value(newest)

    return of_job(read)


def of_queue(value: Callable[[Queue], float]) -> Read:
    """A figure of what waits before each subtask that is not a source's."""

    def read(subtask: SubtaskStatistics) -> float | None:
        return None if subtask.queue is None else value(subtask.queue)

    return of_task(read)


def of_part(value: Callable[[Passed], float]) -> Read:
    """A figure of each part of each subtask."""

    def read(figures: Figures) -> Iterator[Sample]:
        for subtask in figures.subtasks:
            for part, passed in subtask.parts.items():
                yield (figures.name, part, str(subtask.id.index)), value(passed)

    return read


def of_state(value: Callable[[Size], float]) -> Read:
    """A figure of each state of each subtask."""

    def read(figures: Figures) -> Iterator[Sample]:
        for subtask in figures.subtasks:
            for step, sizes in subtask.states.items():
                for name, size in sizes.items():
                    yield (figures.name, step, name, str(subtask.id.index)), value(size)

    return read


def status(figures: Figures) -> Iterator[Sample]:
    """What the job is doing, of all that it might."""
    for each in STATUSES:
        yield (figures.name, each), float(figures.status == each)


def outcomes(figures: Figures) -> Iterator[Sample]:
    """Checkpoints by what became of them."""
    yield (figures.name, "completed"), figures.history.completed
    yield (figures.name, "failed"), figures.history.failed


def late(figures: Figures) -> Iterator[Sample]:
    """Rows that were late, of the parts with windows."""
    for part in figures.parts:
        count = figures.late(part)
        if count is not None:
            yield (figures.name, part), count


def of_lookup(value: Callable[[Asking], int]) -> Read:
    """A figure of each step that looks rows up."""

    def read(figures: Figures) -> Iterator[Sample]:
        for part, counts in figures.parts.items():
            if counts.lookup is not None:
                yield (figures.name, part), value(counts.lookup)

    return read


def splits(figures: Figures) -> Iterator[Sample]:
    """The splits of sources by what they are doing."""
    for subtask in figures.subtasks:
        if subtask.splits is not None:
            ended = sum(split.ended for split in subtask.splits)
            idle = sum(split.idle for split in subtask.splits)
            source, at = next(iter(subtask.parts)), str(subtask.id.index)
            reading = len(subtask.splits) - ended - idle
            for doing, count in (("reading", reading), ("idle", idle), ("ended", ended)):
                yield (figures.name, source, at, doing), count


def behind(figures: Figures) -> Iterator[Sample]:
    """Records that were not read, of the splits of which that is known."""
    for subtask in figures.subtasks:
        source, at = next(iter(subtask.parts)), str(subtask.id.index)
        for split in subtask.splits or ():
            if split.behind is not None and not split.ended:
                yield (figures.name, source, at, split.name), split.behind


def watermark_s(subtask: SubtaskStatistics) -> float | None:
    """When it is, unless time is at its end."""
    return None if subtask.lag_s is None else (subtask.watermark_us or 0) / 1e6
