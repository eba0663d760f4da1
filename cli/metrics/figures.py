"""All figures of a job at one instant: what metrics are read off when somebody scrapes them."""

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
    """One look at a job. On its loop."""

    plan: nodes.Plan
    status: Status
    attempts: int
    subtasks: tuple[SubtaskStatistics, ...]
    parts: Mapping[str, PartCounts]
    before: Mapping[str, PartCounts]
    """What had gone through each part when the process began."""
    history: History
    version: str = ""

    @classmethod
    def of(cls, job: Job, version: str) -> Figures:
        """Those of now."""
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
        """The job's."""
        return str(self.plan.name)

    def late(self, part: str) -> int | None:
        """Rows that came too late, since the process began; None of a part without windows."""
        counts, before = self.parts[part], self.before.get(part)
        if counts.late is None:
            return None
        return max(counts.late - ((before.late or 0) if before else 0), 0)
