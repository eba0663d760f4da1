"""Findings of a diagnosis, and the limits from which on something is one."""

from __future__ import annotations

from typing import Literal, TypeAlias

from headrace.core.job.statistics import format_time
from headrace.core.types.lazy_dataclass import dataclass

Cause: TypeAlias = Literal[
    "backpressure",
    "bad_rows",
    "checkpoints_fail",
    "drift_pauses",
    "future_watermark",
    "having_passes_nothing",
    "idle_split",
    "late_rows",
    "lookup_fails",
    "lookup_waits",
    "no_rows",
    "nothing_matches",
    "restarts",
    "rows_go_round",
    "skew",
    "subtasks_without_splits",
    "watermark_stands_still",
    "where_passes_nothing",
    "windows_wait",
]

USUAL_GAPS = 20
"""The usual distances between two rows that must pass until something stands still."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause of missing or slow output."""

    cause: Cause
    part: str
    """The source, step or sink; empty if it is the job."""
    message: str
    """The observation, in one sentence without a full stop."""
    setting: str
    """The setting that would change it."""
    since_us: int | None = None
    """The wall-clock time since when it is so, if that is known."""

    def to_document(self) -> dict[str, object]:
        """Return the finding as plain data."""
        return {
            "cause": self.cause,
            "part": self.part or None,
            "message": self.message,
            "setting": self.setting,
            "since": format_time(self.since_us),
        }


@dataclass(frozen=True, slots=True)
class DiagnosisLimits:
    """The limits from which on an observation is a finding."""

    still_us: int = 10_000_000
    """The time for which something must not have changed to stand still."""
    future_us: int = 60_000_000
    """The lead of a watermark over the clock."""
    high_share: float = 0.5
    """The share of time that a subtask waits for its consumers."""
    lost_share: float = 0.001
    """The share of rows that are bad or late."""
    min_dropped_rows: int = 100
    """The rows that a condition must not let pass after it has let some pass."""
    min_skew_rows: int = 100
    """The rows of a span from which on their distribution means something."""
    restart_us: int = 900_000_000
    """The time for which a restart is reported."""
