"""Progress of a running job between two samples of its counts: rates and waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from headrace.core.job.job import JobOutcome
from headrace.core.job.statistics import format_time
from headrace.core.plan import nodes
from headrace.core.plan.loop_bodies import list_loops
from headrace.core.plan.nodes import Plan
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.statistics import PartCounts
from headrace.core.worker.time_shares import classify_backpressure

if TYPE_CHECKING:
    from headrace.core.diagnosis.findings import Finding


@dataclass(frozen=True, slots=True)
class PartProgress:
    """The progress of one part: its counts since the start, its rates since the last sample."""

    name: str
    counts: PartCounts
    in_per_s: float
    out_per_s: float
    wait_share: float
    """The share of time that its task waited for its readers."""

    @property
    def backpressure(self) -> str:
        """The share of waiting in a word: ok, low or high."""
        return classify_backpressure(self.wait_share)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of all parts, in the order of the plan, with totals of sources and sinks."""

    seconds: float
    parts: tuple[PartProgress, ...]
    rows_in: int
    rows_out: int
    in_per_s: float
    out_per_s: float
    endless_loops: tuple[Finding, ...] = ()
    """The loops from which no row has left, of a job that was stopped."""

    @property
    def bad_rows(self) -> int:
        """The number of bad records and failed rows."""
        return sum(part.counts.bad_rows for part in self.parts)

    @property
    def late_rows(self) -> int | None:
        """The number of rows too late for all their windows; None without windows."""
        counted = [
            part.counts.late_rows for part in self.parts if part.counts.late_rows is not None
        ]
        return sum(counted) if counted else None

    @property
    def has_watermark(self) -> bool:
        """Whether any part has a watermark."""
        return any(part.counts.watermark_us is not None for part in self.parts)

    @property
    def unfilled_rows(self) -> int:
        """The number of rows in count windows that are not full."""
        return sum(part.counts.unfilled_rows or 0 for part in self.parts)

    @property
    def state_bytes(self) -> int | None:
        """The size of all state, in memory and on disk; None if no step has state."""
        sizes = [part.counts.state for part in self.parts if part.counts.state is not None]
        return sum(size.bytes + size.disk_bytes for size in sizes) if sizes else None

    @property
    def backpressured_parts(self) -> list[PartProgress]:
        """The parts under backpressure, the most affected first."""
        slowed = [part for part in self.parts if part.backpressure != "ok"]
        return sorted(slowed, key=lambda part: -part.wait_share)


@dataclass(slots=True)
class ProgressMeter:
    """The last sample, against which the next rates are computed."""

    _seconds: float = 0.0
    _counts: Mapping[str, PartCounts] = field(default_factory=dict)

    def set_baseline(self, counts: Mapping[str, PartCounts]) -> None:
        """Set the counts from before this run, which do not count for rates."""
        if not self._counts:
            self._counts = counts

    def sample(self, plan: Plan, counts: Mapping[str, PartCounts], seconds: float) -> JobProgress:
        """Take a sample, `seconds` after the start; a rescale may have changed the plan."""
        look = compute_progress(plan, counts, self._counts, seconds, seconds - self._seconds)
        self._seconds, self._counts = seconds, counts
        return look


def compute_progress(
    plan: Plan,
    counts: Mapping[str, PartCounts],
    before: Mapping[str, PartCounts],
    seconds: float,
    passed: float,
) -> JobProgress:
    """Compute the progress from two samples, `passed` seconds apart, `seconds` after the start."""
    passed = max(passed, 1e-9)
    nothing = PartCounts()
    parts = []
    for part in plan:
        now, last = counts.get(part.name, nothing), before.get(part.name, nothing)
        waits = (now.backpressured_s - last.backpressured_s) / passed / part.parallelism
        in_per_s = (now.rows_in - last.rows_in) / passed
        out_per_s = (now.rows_out - last.rows_out) / passed
        # A restart or a rescale resets the counts to those of the checkpoint.
        rates = (max(rate, 0.0) for rate in (in_per_s, out_per_s, min(waits, 1.0)))
        parts.append(PartProgress(part.name, now, *rates))
    return _add_totals(plan, tuple(parts), seconds)


def _add_totals(plan: Plan, parts: tuple[PartProgress, ...], seconds: float) -> JobProgress:
    pairs = list(zip(plan, parts, strict=True))
    sources = [look for part, look in pairs if isinstance(part, nodes.Source)]
    sinks = [look for part, look in pairs if isinstance(part, nodes.Sink)]
    return JobProgress(
        seconds,
        parts,
        rows_in=sum(look.counts.rows_in for look in sources),
        rows_out=sum(look.counts.rows_out for look in sinks),
        in_per_s=sum(look.in_per_s for look in sources),
        out_per_s=sum(look.out_per_s for look in sinks),
    )


def summarize_run(plan: Plan, outcome: JobOutcome) -> JobProgress:
    """Compute the progress over the whole run, when it is over."""
    counts = outcome.part_counts
    progress = compute_progress(
        plan, counts, outcome.initial_counts, outcome.seconds, outcome.seconds
    )
    if not outcome.is_stopped or outcome.is_drained or not list_loops(plan):
        return progress
    from headrace.core.diagnosis.row_causes import find_loops_without_exit

    return replace(progress, endless_loops=tuple(find_loops_without_exit(plan, counts)))


def format_watermark(part: PartProgress) -> str:
    """Format the watermark of a part.

    >>> format_watermark(PartProgress("a", PartCounts(watermark_us=1_767_225_600_000_000), 0, 0, 0))
    '2026-01-01T00:00:00.000Z'
    """
    return format_time(part.counts.watermark_us) or ""
