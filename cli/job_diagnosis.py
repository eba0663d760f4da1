"""Samples of a running job for its diagnosis, and the check that something is emitted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field

from headrace.core.diagnosis.figures import FigureHistory, JobFigures, collect_figures
from headrace.core.diagnosis.findings import DiagnosisLimits, Finding
from headrace.core.job.job import Job
from headrace.core.job.statistics import format_time
from headrace.core.types.lazy_dataclass import dataclass

SAMPLE_INTERVAL_S = 5.0
"""Rates are over the last five to ten seconds."""

OUTPUT_LIMIT_US = 30_000_000
"""The time without output, though rows come in, after which a run says why."""


@dataclass(frozen=True, slots=True)
class MissingOutput:
    """Nothing was emitted for some time, though rows came in: the findings say why."""

    seconds: float
    now_us: int
    findings: tuple[Finding, ...]


@dataclass(slots=True)
class JobDiagnosis:
    """The diagnosis of one job of this process, from before its start."""

    limits: DiagnosisLimits = field(default_factory=DiagnosisLimits)
    last_failure: str = ""
    """The failure after which the job restarted last."""
    _history: FigureHistory = field(default_factory=FigureHistory)
    _reported: frozenset[tuple[str, str]] = frozenset()
    """The causes and parts that were reported since something was emitted last."""

    def record_sample(self, job: Job) -> JobFigures:
        """Record a sample, against which later ones are compared."""
        figures = collect_figures(job, self.last_failure)
        if figures.statistics.parts:
            self._history.record(figures)
        return figures

    def find_causes(self, job: Job) -> tuple[JobFigures, Sequence[Finding]]:
        """Return what holds the output back now, with the figures that show it."""
        from headrace.core.diagnosis.diagnosis import diagnose

        figures = collect_figures(job, self.last_failure)
        if not figures.statistics.parts:
            return figures, ()
        self._history.track_changes(figures)
        return figures, diagnose(figures, self._history, self.limits)

    def check_output(self, job: Job) -> MissingOutput | None:
        """Return why nothing is emitted although rows come in, once for the same causes."""
        figures, findings = self.find_causes(job)
        since_us = self._history.get_since_us("output")
        if since_us is None or figures.at_us - since_us < OUTPUT_LIMIT_US:
            self._reported = frozenset()
            return None
        found = frozenset((each.cause, each.part) for each in findings)
        if not self._history.has_input_since_output(figures) or found <= self._reported:
            return None
        self._reported |= found
        return MissingOutput((figures.at_us - since_us) / 1e6, figures.at_us, tuple(findings))

    async def watch(self, job: Job, report: Callable[[MissingOutput], None]) -> None:
        """Sample the job until cancelled, and report why nothing is emitted."""
        while True:
            self.record_sample(job)
            if job.status == "running" and (missing := self.check_output(job)) is not None:
                report(missing)
            await asyncio.sleep(SAMPLE_INTERVAL_S)


def build_findings_document(job: Job, diagnosis: JobDiagnosis) -> dict[str, object]:
    """Return the diagnosis of a job as plain data."""
    figures, findings = diagnosis.find_causes(job)
    return {
        "name": str(job.plan.name),
        "status": job.status,
        "time": format_time(figures.at_us),
        "rows_in": figures.count_input(),
        "rows_out": figures.count_output(),
        "findings": [each.to_document() for each in findings],
    }
