"""Progress of a running job between two samples of its counts: rates and waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.core.job import Outcome
from headrace.core.job_statistics import time_text
from headrace.core.occupation import word
from headrace.core.plan import Plan, nodes
from headrace.core.statistics import PartCounts


@dataclass(frozen=True, slots=True)
class PartLook:
    """The progress of one part: its counts since the start, its rates since the last sample."""

    name: str
    counts: PartCounts
    in_per_s: float
    out_per_s: float
    waits: float
    """The share of time that its task waited for its readers."""

    @property
    def backpressure(self) -> str:
        """The share of waiting in a word: ok, low or high."""
        return word(self.waits)


@dataclass(frozen=True, slots=True)
class Look:
    """The progress of all parts, in the order of the plan, with totals of sources and sinks."""

    seconds: float
    parts: tuple[PartLook, ...]
    rows_in: int
    rows_out: int
    in_per_s: float
    out_per_s: float

    @property
    def bad(self) -> int:
        """The number of bad records and failed rows."""
        return sum(part.counts.bad for part in self.parts)

    @property
    def late(self) -> int | None:
        """The number of rows too late for all their windows; None without windows."""
        counted = [part.counts.late for part in self.parts if part.counts.late is not None]
        return sum(counted) if counted else None

    @property
    def timed(self) -> bool:
        """Whether any part has a watermark."""
        return any(part.counts.watermark_us is not None for part in self.parts)

    @property
    def unfilled(self) -> int:
        """The number of rows in count windows that are not full."""
        return sum(part.counts.unfilled or 0 for part in self.parts)

    @property
    def state_bytes(self) -> int | None:
        """The size of all state, in memory and on disk; None if no step has state."""
        kept = [part.counts.state for part in self.parts if part.counts.state is not None]
        return sum(size.bytes + size.on_disk for size in kept) if kept else None

    @property
    def slowed(self) -> list[PartLook]:
        """The parts under backpressure, the most affected first."""
        slowed = [part for part in self.parts if part.backpressure != "ok"]
        return sorted(slowed, key=lambda part: -part.waits)


@dataclass(slots=True)
class Progress:
    """The last sample, against which the next rates are computed."""

    _seconds: float = 0.0
    _counts: Mapping[str, PartCounts] = field(default_factory=dict)

    def begin(self, counts: Mapping[str, PartCounts]) -> None:
        """Set the counts from before this run, which do not count for rates."""
        if not self._counts:
            self._counts = counts

    def look(self, plan: Plan, counts: Mapping[str, PartCounts], seconds: float) -> Look:
        """Take a sample, `seconds` after the start; a rescale may have changed the plan."""
        look = looked(plan, counts, self._counts, seconds, seconds - self._seconds)
        self._seconds, self._counts = seconds, counts
        return look


def looked(
    plan: Plan,
    counts: Mapping[str, PartCounts],
    before: Mapping[str, PartCounts],
    seconds: float,
    passed: float,
) -> Look:
    """Compute the progress from two samples, `passed` seconds apart, `seconds` after the start."""
    passed = max(passed, 1e-9)
    nothing = PartCounts()
    parts = []
    for part in plan:
        now, last = counts.get(part.name, nothing), before.get(part.name, nothing)
        waits = (now.blocked_s - last.blocked_s) / passed / part.parallelism
        in_per_s = (now.rows_in - last.rows_in) / passed
        out_per_s = (now.rows_out - last.rows_out) / passed
        # A restart or a rescale resets the counts to those of the checkpoint.
        rates = (max(rate, 0.0) for rate in (in_per_s, out_per_s, min(waits, 1.0)))
        parts.append(PartLook(part.name, now, *rates))
    return _summed(plan, tuple(parts), seconds)


def _summed(plan: Plan, parts: tuple[PartLook, ...], seconds: float) -> Look:
    pairs = list(zip(plan, parts, strict=True))
    sources = [look for part, look in pairs if isinstance(part, nodes.Source)]
    sinks = [look for part, look in pairs if isinstance(part, nodes.Sink)]
    return Look(
        seconds,
        parts,
        rows_in=sum(look.counts.rows_in for look in sources),
        rows_out=sum(look.counts.rows_out for look in sinks),
        in_per_s=sum(look.in_per_s for look in sources),
        out_per_s=sum(look.out_per_s for look in sinks),
    )


def overall(plan: Plan, outcome: Outcome) -> Look:
    """Compute the progress over the whole run, when it is over."""
    return looked(plan, outcome.parts, outcome.before, outcome.seconds, outcome.seconds)


def time_said(part: PartLook) -> str:
    """Format the watermark of a part.

    >>> time_said(PartLook("a", PartCounts(watermark_us=1_767_225_600_000_000), 0, 0, 0))
    '2026-01-01T00:00:00.000Z'
    """
    return time_text(part.counts.watermark_us) or ""
