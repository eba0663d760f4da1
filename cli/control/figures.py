"""Summary of a job as plain data, for `GET /v1/job` and `headrace jobs`."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headrace.cli.run_json import failure_document, look_document
from headrace.cli.run_progress import Look, looked
from headrace.core.job import Job
from headrace.core.messages import CheckpointFailed, CheckpointTaken
from headrace.core.news import News, Resumed
from headrace.core.statistics import PartCounts

EVERY_S = 5.0
"""Rates are over the last five to ten seconds."""


@dataclass(frozen=True, slots=True)
class About:
    """The properties of a job that do not change while it runs."""

    name: str
    pipeline: str
    """The pipeline's file."""
    version: str
    home: str
    """The folder of all homes."""
    since: str


@dataclass(slots=True)
class Figures:
    """Recent counts of a job, and its newest checkpoint."""

    about: About
    checkpoint: Mapping[str, object] | None = None
    failed_checkpoint: Mapping[str, object] | None = None
    """The last checkpoint, if it has failed."""
    _began_s: float = field(default_factory=time.monotonic)
    _samples: deque[tuple[float, Mapping[str, PartCounts]]] = field(
        default_factory=lambda: deque(maxlen=2)
    )

    def hear(self, news: News) -> None:
        """Take note of an event of the job."""
        match news:
            case CheckpointTaken(number, seconds, size):
                self.failed_checkpoint = None
                self.checkpoint = {
                    "number": number,
                    "time": now(),
                    "seconds": round(seconds, 3),
                    "bytes": size,
                }
            case CheckpointFailed(number, why):
                self.failed_checkpoint = {"number": number, "time": now(), "message": why}
            case Resumed(number, taken_at):
                self.checkpoint = {"number": number, "time": taken_at}

    def sample(self, job: Job) -> None:
        """Store the current counts, against which rates are computed."""
        if counts := job.counts():
            self._samples.append((time.monotonic(), counts))

    def look(self, job: Job) -> Look:
        """Return current counts and rates."""
        now = time.monotonic()
        then, before = self._samples[0] if self._samples else (now, job.before)
        return looked(job.plan, job.counts(), before, now - self._began_s, now - then)

    def document(self, job: Job) -> dict[str, object]:
        """All of it."""
        about, look = self.about, self.look(job)
        parallelism = {part.name: part.parallelism for part in job.plan}
        return {
            "name": about.name,
            "id": job.surroundings.job,
            "status": job.status,
            "pipeline": os.path.abspath(about.pipeline),
            "home": about.home,
            "pid": os.getpid(),
            "version": about.version,
            "since": about.since,
            "uptime_s": round(time.monotonic() - self._began_s, 3),
            "attempt": job.attempt_number,
            "failure": job.failure and failure_document(job.failure),
            "checkpoint": self.checkpoint,
            "failed_checkpoint": self.failed_checkpoint,
            "parallelism": parallelism,
            **look_document(look),
        }


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
