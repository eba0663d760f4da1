"""The diagnosis: a pure function from two samples of a job and their history to findings."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.diagnosis.figures import FigureHistory, JobFigures, SampleSpan
from headrace.core.diagnosis.findings import Cause, DiagnosisLimits, Finding
from headrace.core.diagnosis.job_causes import find_job_causes
from headrace.core.diagnosis.load_causes import find_load_causes
from headrace.core.diagnosis.result_causes import find_result_causes
from headrace.core.diagnosis.row_causes import find_row_causes
from headrace.core.diagnosis.time_causes import find_time_causes

DEFAULT_LIMITS = DiagnosisLimits()

EXPLAINED_BY: Mapping[Cause, tuple[Cause, ...]] = {
    "no_rows": ("idle_split", "drift_pauses"),
    "drift_pauses": ("idle_split",),
    "windows_wait": ("having_passes_nothing",),
}
"""The causes that explain another one of the same part, which is then left out."""


def diagnose(
    now: JobFigures, history: FigureHistory, limits: DiagnosisLimits = DEFAULT_LIMITS
) -> tuple[Finding, ...]:
    """Return what holds the output of a job back; nothing for a healthy one.

    The history has tracked the changes up to `now`.
    """
    span = SampleSpan(now, history.earlier, history)
    findings = [
        *find_job_causes(span, limits),
        *find_time_causes(span, limits),
        *find_row_causes(span, limits),
        *find_result_causes(span, limits),
        *find_load_causes(span, limits),
    ]
    named = {(each.cause, each.part) for each in findings}
    return tuple(
        each
        for each in findings
        if named.isdisjoint((cause, each.part) for cause in EXPLAINED_BY.get(each.cause, ()))
    )
