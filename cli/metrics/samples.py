"""Samples of metrics, computed from all statistics of a job at one instant.

A reader computes the samples of one metric, for the job, its parts, subtasks or states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import TypeAlias, get_args

from headrace.core.api.splits import SubtaskId
from headrace.core.api.state_sizes import StateSize
from headrace.core.checkpoint.counters import PartCounters
from headrace.core.checkpoint.history import CheckpointHistory, CheckpointRecord
from headrace.core.job.job import Job
from headrace.core.job.lifecycle import JobStatus
from headrace.core.operators.lookup.client import LookupStatistics
from headrace.core.plan import nodes
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.report import InputQueue, SubtaskStatistics, WorkerIdentity
from headrace.core.worker.statistics import PartCounts, compute_lag_s

STATUSES: tuple[JobStatus, ...] = get_args(JobStatus)


@dataclass(frozen=True, slots=True)
class JobSample:
    """One sample of a job. Taken on the job's loop."""

    plan: nodes.Plan
    status: JobStatus
    attempts: int
    subtasks: tuple[SubtaskStatistics, ...]
    parts: Mapping[str, PartCounts]
    initial_parts: Mapping[str, PartCounts]
    """The counts of each part at the start of the process."""
    history: CheckpointHistory
    version: str = ""
    now_us: int = 0
    """The time of the wall clock."""
    workers: Mapping[SubtaskId, WorkerIdentity] = field(default_factory=dict)
    """The worker of each subtask; none for those of a lost worker."""

    @classmethod
    def take(cls, job: Job, version: str) -> JobSample:
        """Take a sample now."""
        statistics = job.collect_statistics()
        return cls(
            job.plan,
            job.status,
            job.attempt_number,
            statistics.subtasks,
            statistics.parts,
            job.initial_counts,
            job.storage.history if job.storage else CheckpointHistory(),
            version,
            job.spec.operator_context.now_us() if statistics.subtasks else 0,
            statistics.workers,
        )

    @property
    def name(self) -> str:
        """The name of the job."""
        return str(self.plan.name)

    def count_late_rows(self, part: str) -> int | None:
        """Return the late rows since the start of the process; None for a part without windows."""
        counts, before = self.parts[part], self.initial_parts.get(part)
        if counts.late_rows is None:
            return None
        return max(counts.late_rows - ((before.late_rows or 0) if before else 0), 0)


Sample: TypeAlias = "tuple[tuple[str, ...], float]"
"""The values of the labels, and the value of the metric."""


SampleReader: TypeAlias = "Callable[[JobSample], Iterable[Sample]]"


def read_job(value: Callable[[JobSample], float | None]) -> SampleReader:
    """Build a reader of a value of the job."""

    def read(figures: JobSample) -> Iterator[Sample]:
        sample = value(figures)
        if sample is not None:
            yield (figures.name,), sample

    return read


def read_subtasks(value: Callable[[SubtaskStatistics], float | None]) -> SampleReader:
    """Build a reader of a value of each subtask; None gives no sample."""

    def read(figures: JobSample) -> Iterator[Sample]:
        for subtask in figures.subtasks:
            sample = value(subtask)
            if sample is not None:
                yield (figures.name, _task_name(subtask), str(subtask.id.index)), sample

    return read


def _task_name(subtask: SubtaskStatistics) -> str:
    """Return the name of a task: those of its parts, chained."""
    return " > ".join(subtask.parts)


def read_newest_checkpoint(value: Callable[[CheckpointRecord], float | None]) -> SampleReader:
    """Build a reader of a value of the newest checkpoint."""

    def read(figures: JobSample) -> float | None:
        newest = figures.history.newest_completed
        return None if newest is None else value(newest)

    return read_job(read)


def read_queue(value: Callable[[InputQueue], float]) -> SampleReader:
    """Build a reader of a value of the input queue of each subtask; sources have none."""

    def read(subtask: SubtaskStatistics) -> float | None:
        return None if subtask.queue is None else value(subtask.queue)

    return read_subtasks(read)


def read_parts(value: Callable[[PartCounters], float]) -> SampleReader:
    """Build a reader of a value of each part of each subtask."""

    def read(figures: JobSample) -> Iterator[Sample]:
        for subtask in figures.subtasks:
            for part, passed in subtask.parts.items():
                yield (figures.name, part, str(subtask.id.index)), value(passed)

    return read


def read_states(value: Callable[[StateSize], float]) -> SampleReader:
    """Build a reader of a value of each state of each subtask."""

    def read(figures: JobSample) -> Iterator[Sample]:
        for subtask in figures.subtasks:
            for step, sizes in subtask.state_sizes.items():
                for name, size in sizes.items():
                    yield (figures.name, step, name, str(subtask.id.index)), value(size)

    return read


def read_status(figures: JobSample) -> Iterator[Sample]:
    """Yield 1 for the job's status, 0 for all others."""
    for each in STATUSES:
        yield (figures.name, each), float(figures.status == each)


def read_checkpoint_outcomes(figures: JobSample) -> Iterator[Sample]:
    """Yield the number of checkpoints by outcome."""
    yield (figures.name, "completed"), figures.history.completed_count
    yield (figures.name, "failed"), figures.history.failed_count


def read_late_rows(figures: JobSample) -> Iterator[Sample]:
    """Yield the late rows of parts with windows."""
    for part in figures.parts:
        count = figures.count_late_rows(part)
        if count is not None:
            yield (figures.name, part), count


def read_user_counters(figures: JobSample) -> Iterator[Sample]:
    """Yield the counters of user code since the start of the process."""
    for part, counts in figures.parts.items():
        before = figures.initial_parts.get(part)
        for name, count in counts.metrics.counters.items():
            earlier = before.metrics.counters.get(name, 0) if before else 0
            yield (figures.name, part, name), max(count - earlier, 0)


def read_user_gauges(figures: JobSample) -> Iterator[Sample]:
    """Yield the gauges of user code, added up over the subtasks."""
    for part, counts in figures.parts.items():
        for name, value in counts.metrics.gauges.items():
            yield (figures.name, part, name), value


def read_latencies(figures: JobSample) -> Iterator[Sample]:
    """Yield the quantiles of the latency from each source to each sink."""
    for part, counts in figures.parts.items():
        for source, latency in counts.summarize_latencies().items():
            yield (figures.name, part, source, "0.5"), latency.p50_s
            yield (figures.name, part, source, "0.99"), latency.p99_s


def read_latency_markers(figures: JobSample) -> Iterator[Sample]:
    """Yield the number of markers that the quantiles of the latency are of."""
    for part, counts in figures.parts.items():
        for source, latency in counts.summarize_latencies().items():
            yield (figures.name, part, source), latency.markers


def read_lookups(value: Callable[[LookupStatistics], int]) -> SampleReader:
    """Build a reader of a value of each step with a lookup."""

    def read(figures: JobSample) -> Iterator[Sample]:
        for part, counts in figures.parts.items():
            if counts.lookup is not None:
                yield (figures.name, part), value(counts.lookup)

    return read


def read_workers(figures: JobSample) -> Iterator[Sample]:
    """Yield 1 for each subtask of a part, labelled with its worker, unless that is lost."""
    for subtask in figures.subtasks:
        if (worker := figures.workers.get(subtask.id)) is not None:
            index, task = str(subtask.id.index), _task_name(subtask)
            for part in subtask.parts:
                yield (figures.name, part, index, task, str(worker.number)), 1


def read_splits(figures: JobSample) -> Iterator[Sample]:
    """Yield the number of splits of each source's subtask by status."""
    for subtask in figures.subtasks:
        if subtask.splits is not None:
            ended = sum(split.is_ended for split in subtask.splits)
            idle = sum(split.is_idle for split in subtask.splits)
            source, at = next(iter(subtask.parts)), str(subtask.id.index)
            reading = len(subtask.splits) - ended - idle
            for doing, count in (("reading", reading), ("idle", idle), ("ended", ended)):
                yield (figures.name, source, at, doing), count


def read_split_lag(figures: JobSample) -> Iterator[Sample]:
    """Yield the number of unread records of each split, if it is known."""
    for subtask in figures.subtasks:
        source, at = next(iter(subtask.parts)), str(subtask.id.index)
        for split in subtask.splits or ():
            if split.unread_records is not None and not split.is_ended:
                yield (figures.name, source, at, split.name), split.unread_records


def watermark_seconds(subtask: SubtaskStatistics) -> float | None:
    """Return the watermark in seconds; None without event time, or at its end."""
    at_us = subtask.watermark_us
    return None if at_us is None or at_us == MAX_WATERMARK_US else at_us / 1e6


def read_watermark_lag(figures: JobSample) -> Iterable[Sample]:
    """Yield the lead of the wall clock over the watermark of each subtask that has one."""
    read = read_subtasks(lambda subtask: compute_lag_s(subtask.watermark_us, figures.now_us))
    return read(figures)
