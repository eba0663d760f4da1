"""Watermark alignment (`max_drift`) of the splits of a source. No clock: times are passed in.

Each subtask reports the watermark of its slowest split among those that it reads. When the minimum
over all subtasks changes, the coordinator answers with the limit up to which splits may be read:
the minimum plus the drift. A split beyond the limit waits. The slowest split waits at most until
its report is answered: a subtask whose own slowest split has to wait reports at once, the others at
intervals.
"""

from __future__ import annotations

from dataclasses import field

from headrace.core.api.splits import SubtaskId
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass

REPORT_INTERVAL_S = 0.2
"""The interval between the reports of a subtask that is not waiting."""


@dataclass(slots=True)
class WatermarkAlignment:
    """The watermark alignment of one source. `max_drift_us`: how far its splits may drift apart."""

    max_drift_us: int
    _watermarks_us: dict[SubtaskId, int] = field(default_factory=dict)
    _limit_us: int | None = None

    @property
    def limit_us(self) -> int | None:
        """The current limit; None before the first report."""
        return self._limit_us

    def update(self, subtask: SubtaskId, at_us: int | None) -> int | None:
        """Record a watermark (None: the subtask reads nothing). Return the limit if it changed."""
        if at_us is None:
            self._watermarks_us.pop(subtask, None)
        else:
            self._watermarks_us[subtask] = at_us
        if not self._watermarks_us:
            return None
        until_us = min(min(self._watermarks_us.values()) + self.max_drift_us, MAX_WATERMARK_US)
        if until_us == self._limit_us:
            return None
        self._limit_us = until_us
        return until_us


@dataclass(slots=True)
class WatermarkReporter:
    """The watermark reports of one subtask: its current limit, and when to report next."""

    limit_us: int = MAX_WATERMARK_US
    _reported_us: int | None = None
    _next_report_at: float = 0.0

    def next_report_at(self, at_us: int | None) -> float | None:
        """Return when to report this watermark; None if it was reported already."""
        if at_us == self._reported_us:
            return None
        waits = at_us is not None and at_us > self.limit_us
        return 0.0 if waits else self._next_report_at

    def mark_reported(self, at_us: int | None, now: float) -> None:
        """Record that a watermark was reported."""
        self._reported_us = at_us
        self._next_report_at = now + REPORT_INTERVAL_S
