"""Causes in the job itself: restarts and failing checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from headrace.core.diagnosis.figures import SampleSpan
from headrace.core.diagnosis.findings import DiagnosisLimits, Finding
from headrace.core.diagnosis.phrases import format_pause


def find_job_causes(span: SampleSpan, limits: DiagnosisLimits) -> Iterator[Finding]:
    """Yield the causes in the job itself."""
    now = span.now
    if now.restart_count and not span.is_still(limits.restart_us, "restarts"):
        times = "once" if now.restart_count == 1 else f"{now.restart_count:,} times"
        pause = format_pause(span.measure_pause_us("restarts"))
        why = f"; the last failure: {now.failure.splitlines()[0]}" if now.failure else ""
        yield Finding(
            "restarts",
            "",
            f"the job has restarted {times}{pause}{why}",
            "what the failure names; `restart:` in `settings:` says how often and how soon",
        )
    failed = list(takewhile(lambda each: each.is_failed, now.checkpoints))
    if failed:
        count = "the last checkpoint" if len(failed) == 1 else f"the last {len(failed)} checkpoints"
        yield Finding(
            "checkpoints_fail",
            "",
            f"{count} failed, and sinks that write with checkpoints show nothing new: "
            f"{failed[0].failure_reason.splitlines()[0]}",
            "`checkpoint:` in `settings:`: `timeout:`, `every:` and `dir:`",
            failed[-1].triggered_us,
        )
