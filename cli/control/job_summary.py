"""Summary of a job as plain data, for `GET /v1/job` and `headrace jobs`."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import field

from headrace.cli.job_diagnosis import JobDiagnosis
from headrace.cli.run_json import build_failure_document, build_progress_document
from headrace.cli.run_progress import JobProgress, compute_progress
from headrace.core.api.snapshots import format_now
from headrace.core.coordination.events import (
    JobEvent,
    JobRestarting,
    JobResumed,
    RegionsRestarting,
)
from headrace.core.coordination.messages import CheckpointCompleted, CheckpointFailed
from headrace.core.job.job import Job
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.statistics import PartCounts, compute_lag_s


@dataclass(frozen=True, slots=True)
class JobDescription:
    """The properties of a job that do not change while it runs."""

    name: str
    pipeline: str
    """The pipeline's file."""
    version: str
    home: str
    """The folder of all homes."""
    started_at: str


@dataclass(slots=True)
class JobSummary:
    """Recent counts of a job, and its newest checkpoint."""

    description: JobDescription
    checkpoint: Mapping[str, object] | None = None
    failed_checkpoint: Mapping[str, object] | None = None
    """The last checkpoint, if it has failed."""
    last_failure: Mapping[str, object] | None = None
    """The last failure of this run, after which the job has restarted."""
    diagnosis: JobDiagnosis = field(default_factory=JobDiagnosis)
    _began_s: float = field(default_factory=time.monotonic)
    _samples: deque[tuple[float, Mapping[str, PartCounts]]] = field(
        default_factory=lambda: deque(maxlen=2)
    )

    def record_event(self, event: JobEvent) -> None:
        """Take note of an event of the job."""
        match event:
            case CheckpointCompleted(number, seconds, size):
                self.failed_checkpoint = None
                self.checkpoint = {
                    "number": number,
                    "time": format_now(),
                    "seconds": round(seconds, 3),
                    "bytes": size,
                }
            case CheckpointFailed(number, why):
                self.failed_checkpoint = {"number": number, "time": format_now(), "message": why}
            case JobRestarting(failure) | RegionsRestarting(failure):
                self.diagnosis.last_failure = failure.message
                self.last_failure = {"time": format_now(), **build_failure_document(failure)}
            case JobResumed(number, taken_at):
                self.checkpoint = {"number": number, "time": taken_at}

    def record_sample(self, job: Job) -> None:
        """Store the current counts, against which rates are computed."""
        if counts := job.collect_counts():
            self._samples.append((time.monotonic(), counts))

    def compute_progress(self, job: Job) -> JobProgress:
        """Return current counts and rates."""
        now = time.monotonic()
        then, before = self._samples[0] if self._samples else (now, job.initial_counts)
        return compute_progress(
            job.plan, job.collect_counts(), before, now - self._began_s, now - then
        )

    def build_document(self, job: Job) -> dict[str, object]:
        """All of it."""
        about, look = self.description, self.compute_progress(job)
        parallelism = {part.name: part.parallelism for part in job.plan}
        return {
            "name": about.name,
            "id": job.spec.run_context.job_id,
            "status": job.status,
            "pipeline": os.path.abspath(about.pipeline),
            "home": about.home,
            "pid": os.getpid(),
            "version": about.version,
            "since": about.started_at,
            "uptime_s": round(time.monotonic() - self._began_s, 3),
            "attempt": job.attempt_number,
            "failure": job.failure and build_failure_document(job.failure),
            "last_failure": self.last_failure,
            "lag_s": _compute_lag_s(job, look),
            "checkpoint": self.checkpoint,
            "failed_checkpoint": self.failed_checkpoint,
            "parallelism": parallelism,
            "workers": [
                {
                    "worker": worker.number,
                    "pid": worker.pid,
                    "tasks": [each.to_document() for each in tasks],
                }
                for worker, tasks in job.list_workers().items()
            ],
            **build_progress_document(look),
        }


def _compute_lag_s(job: Job, look: JobProgress) -> float | None:
    """Return how far the wall clock is ahead of the slowest watermark."""
    now_us = job.spec.operator_context.now_us()
    lags = (compute_lag_s(part.counts.watermark_us, now_us) for part in look.parts)
    return max((lag for lag in lags if lag is not None), default=None)
