"""A sample of all statistics of a job at one instant, from which a scrape computes metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from headrace.core.asked import Status
from headrace.core.history import History
from headrace.core.job import Job
from headrace.core.plan import nodes
from headrace.core.statistics import PartCounts
from headrace.core.subtask_statistics import SubtaskStatistics

STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, slots=True)
class Figures:
    """One sample of a job. Taken on the job's loop."""

    plan: nodes.Plan
    status: Status
    attempts: int
    subtasks: tuple[SubtaskStatistics, ...]
    parts: Mapping[str, PartCounts]
    before: Mapping[str, PartCounts]
    """The counts of each part at the start of the process."""
    history: History
    version: str = ""

    @classmethod
    def of(cls, job: Job, version: str) -> Figures:
        """Take a sample now."""
        return cls(
            job.plan,
            job.status,
            job.attempt_number,
            tuple(job.subtasks()),
            job.counts(),
            job.before,
            job.keeping.history if job.keeping else History(),
            version,
        )

    @property
    def name(self) -> str:
        """The name of the job."""
        return str(self.plan.name)

    def late(self, part: str) -> int | None:
        """Return the late rows since the start of the process; None for a part without windows."""
        counts, before = self.parts[part], self.before.get(part)
        if counts.late is None:
            return None
        return max(counts.late - ((before.late or 0) if before else 0), 0)
