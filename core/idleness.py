"""Detection of idle splits in a source's subtask, by polling; the loop's times are passed in.

Readers do not announce that a split is exhausted, so the detector checks at least every `idle_s`,
which finds each exhausted split before it is idle, and then exactly when the first of them is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headrace.core.messages import Split

MIN_CHECK_INTERVAL_S = 0.01
"""The shortest interval between checks: for a shorter `idle:`, more checks would only cost time."""


@dataclass(slots=True)
class IdleDetector:
    """Finds the splits that have been exhausted for `idle_s`."""

    timeout_s: float
    next_check_at: float = 0.0
    """The time of the next check."""

    def find_idle(self, now: float, exhausted: Mapping[Split, float]) -> Collection[Split]:
        """Return the idle splits, given since when each split is exhausted; set the next check."""
        idle_at = {split: since + self.timeout_s for split, since in exhausted.items()}
        later = now + max(self.timeout_s, MIN_CHECK_INTERVAL_S)
        self.next_check_at = min([later, *(at for at in idle_at.values() if at > now)])
        return [split for split, at in idle_at.items() if at <= now]
