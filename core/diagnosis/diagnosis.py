"""The diagnosis: a pure function from two samples of a job and their history to findings."""

from __future__ import annotations

from headrace.core.diagnosis.figures import FigureHistory, JobFigures, SampleSpan
from headrace.core.diagnosis.findings import DiagnosisLimits, Finding
from headrace.core.diagnosis.job_causes import find_job_causes
from headrace.core.diagnosis.load_causes import find_load_causes
from headrace.core.diagnosis.row_causes import find_row_causes
from headrace.core.diagnosis.time_causes import find_time_causes

DEFAULT_LIMITS = DiagnosisLimits()


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
        *find_load_causes(span, limits),
    ]
    # A source whose split holds back the watermark has no rows as a part of that.
    named = {each.part for each in findings if each.cause == "idle_split"}
    return tuple(each for each in findings if each.cause != "no_rows" or each.part not in named)
