"""A sample of all statistics of a job at one instant, from which a scrape computes metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from headrace.core.asked import JobStatus
from headrace.core.history import CheckpointHistory
from headrace.core.job import Job
from headrace.core.plan import nodes
from headrace.core.statistics import PartCounts
from headrace.core.subtask_statistics import SubtaskStatistics

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

    @classmethod
    def take(cls, job: Job, version: str) -> JobSample:
        """Take a sample now."""
        return cls(
            job.plan,
            job.status,
            job.attempt_number,
            tuple(job.collect_subtask_statistics()),
            job.collect_counts(),
            job.initial_counts,
            job.storage.history if job.storage else CheckpointHistory(),
            version,
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
