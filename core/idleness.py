"""When a source's subtask looks for splits that are idle. It is handed the loop's times.

Nobody says when a split is exhausted, so one looks: every `idle_s` at least, which finds each split
before its time, and then exactly when the first of them has been exhausted for so long.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headrace.core.messages import Split

OFTEN_ENOUGH_S = 0.01
"""However short `idle:` is, looking more often would only cost."""


@dataclass(slots=True)
class Looks:
    """`idle_s` is how long a split is exhausted before it is idle."""

    idle_s: float
    at: float = 0.0
    """When to look next."""

    def idle(self, now: float, exhausted: Mapping[Split, float]) -> Collection[Split]:
        """Which splits are idle, of those that are exhausted since some time."""
        idle_at = {split: since + self.idle_s for split, since in exhausted.items()}
        later = now + max(self.idle_s, OFTEN_ENOUGH_S)
        self.at = min([later, *(at for at in idle_at.values() if at > now)])
        return [split for split, at in idle_at.items() if at <= now]
