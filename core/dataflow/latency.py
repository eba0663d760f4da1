"""Latencies from sources to sinks: those of markers at one sink, and their quantiles.

A marker has the time at which its source took the rows before it, and reaches the sink when the
sink's writer has taken these rows. So a latency has the time of queues, kernels, lookups and of the
writer; it does not have the time for which rows wait in windows and other state, which markers
pass, nor that until output is committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field

from headrace.core.types.elements import LatencyMarker
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True)
class MarkerTimer:
    """The times at which a subtask of a source sends markers; the loop's times are passed in."""

    source: int
    """The index of the source among the parts of the plan."""
    interval_s: float
    now_us: Callable[[], int]
    next_at: float | None = None
    """The time of the next marker; None before the first update."""
    _due_marker: LatencyMarker | None = None

    def update(self, now: float) -> None:
        """Make a marker if one is due; the first is due an interval after the first update."""
        if self.next_at is not None and now >= self.next_at:
            self._due_marker = self._due_marker or LatencyMarker(self.source, self.now_us())
        if self.next_at is None or now >= self.next_at:
            self.next_at = now + self.interval_s

    def take(self) -> LatencyMarker | None:
        """Return the marker to send, once."""
        marker, self._due_marker = self._due_marker, None
        return marker


MAX_LATENCIES = 300
"""The newest latencies of a source that a subtask of a sink keeps."""


@dataclass(slots=True)
class LatencyRecorder:
    """The newest latencies at a subtask of a sink, in seconds, by the index of the source."""

    now_us: Callable[[], int]
    by_source: dict[int, deque[float]] = field(default_factory=dict)

    def record(self, marker: LatencyMarker) -> None:
        """Record the arrival of a marker; a clock that was set back gives no negative time."""
        if (kept := self.by_source.get(marker.source)) is None:
            kept = self.by_source[marker.source] = deque(maxlen=MAX_LATENCIES)
        kept.append(max(self.now_us() - marker.at_us, 0) / 1e6)


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """The quantiles of latencies."""

    markers: int
    p50_s: float
    p99_s: float

    def to_document(self) -> dict[str, float]:
        """Return the summary as plain data."""
        return {"markers": self.markers, "p50_s": self.p50_s, "p99_s": self.p99_s}


def summarize_latencies(latencies: Sequence[float]) -> LatencySummary:
    """Return the quantiles of at least one latency, each of them measured, not interpolated.

    >>> summarize_latencies([0.3, 0.1, 0.2])
    LatencySummary(markers=3, p50_s=0.2, p99_s=0.3)
    """
    ordered = sorted(latencies)
    p50, p99 = (ordered[-(-len(ordered) * percent // 100) - 1] for percent in (50, 99))
    return LatencySummary(len(ordered), p50, p99)
