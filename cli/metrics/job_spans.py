"""Spans of a job, for traces: its checkpoints, its restarts, and kernels that ran for long."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from headrace.cli.metrics.samples import JobSample
from headrace.core.checkpoint.history import CheckpointRecord
from headrace.core.job.job import Job
from headrace.core.types.lazy_dataclass import dataclass

MAX_SPANS = 1000
"""The spans that wait for a receiver that is down."""


@dataclass(frozen=True, slots=True)
class JobSpan:
    """Something that took a job some time."""

    name: str
    start_us: int
    end_us: int
    attributes: Mapping[str, str | int | float]
    failure: str = ""
    """Why it failed; empty if it did not."""


@dataclass(slots=True)
class SpanCollector:
    """Collects the spans of a job since the last look at it, until they have been sent."""

    pending: deque[JobSpan] = field(default_factory=lambda: deque(maxlen=MAX_SPANS))
    _checkpoint_us: int = 0
    """The start of the newest checkpoint that was collected."""
    _kernel_us: dict[str, int] = field(default_factory=dict)
    """The end of the newest long kernel that was collected, by subtask."""
    _restarts: int = 0
    _running_us: int = 0
    """The last time at which the job was seen running."""

    def watch_restarts(self, job: Job, now_us: int) -> None:
        """Note whether the job runs; call it often, because a restart is as exact as that."""
        if job.status != "running":
            return
        count = job.storage.history.restart_count if job.storage else 0
        if count > self._restarts and self._running_us:
            attributes = {"headrace.restarts": count}
            self.pending.append(JobSpan("restart", self._running_us, now_us, attributes))
        self._restarts, self._running_us = count, now_us

    def collect(self, sample: JobSample) -> None:
        """Collect the checkpoints and long kernels that are new in a sample."""
        self.pending.extend(self._list_checkpoints(sample))
        self.pending.extend(self._list_kernels(sample))

    def drop_sent(self, spans: Iterable[JobSpan]) -> None:
        """Drop spans that were sent, the oldest first."""
        for span in spans:
            if self.pending and self.pending[0] is span:
                self.pending.popleft()

    def _list_checkpoints(self, sample: JobSample) -> Iterator[JobSpan]:
        for record in reversed(sample.history.records):
            if record.triggered_us > self._checkpoint_us:
                self._checkpoint_us = record.triggered_us
                yield _describe_checkpoint(record)

    def _list_kernels(self, sample: JobSample) -> Iterator[JobSpan]:
        for subtask in sample.subtasks:
            task = " > ".join(subtask.parts)
            key = f"{task} {subtask.id.index}"
            for kernel in subtask.slow_kernels:
                if kernel.ended_us > self._kernel_us.get(key, 0):
                    self._kernel_us[key] = kernel.ended_us
                    attributes: dict[str, str | int | float] = {
                        "headrace.task": task,
                        "headrace.subtask": subtask.id.index,
                        "headrace.rows": kernel.rows,
                    }
                    start_us = kernel.ended_us - int(kernel.seconds * 1e6)
                    yield JobSpan("kernel", start_us, kernel.ended_us, attributes)


def _describe_checkpoint(record: CheckpointRecord) -> JobSpan:
    attributes: dict[str, str | int | float] = {"headrace.checkpoint": record.number}
    if record.new_bytes is not None:
        attributes["headrace.new_bytes"] = record.new_bytes
    if record.total_bytes is not None:
        attributes["headrace.total_bytes"] = record.total_bytes
    if record.pauses is not None:
        attributes["headrace.alignment_s"] = record.pauses.alignment_s
        attributes["headrace.sync_s"] = record.pauses.sync_s
    end_us = record.triggered_us + int(record.seconds * 1e6)
    return JobSpan("checkpoint", record.triggered_us, end_us, attributes, record.failure_reason)
