"""`max_drift`: the splits of a source keep together in event time. No clock: times are handed in.

Each subtask reports how far the slowest of its splits has come, of those that are being read. The
coordinator answers, when it changes, up to where splits may be read: the slowest of all, and the
drift. A split that is further waits. The slowest never does, but for the moment until its report is
answered: a subtask whose own slowest split has to wait reports at once, others now and then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.core.elements import FOREVER_US
from headrace.core.messages import SubtaskId

EVERY_S = 0.2
"""How often a subtask reports what nobody is waiting for."""


@dataclass(slots=True)
class Drift:
    """One source, as the coordinator knows it. `most_us`: how far its splits may drift apart."""

    most_us: int
    _at_us: dict[SubtaskId, int] = field(default_factory=dict)
    _until_us: int | None = None

    def reported(self, subtask: SubtaskId, at_us: int | None) -> int | None:
        """How far a subtask has come (None: it reads nothing); the new bound, if there is one."""
        if at_us is None:
            self._at_us.pop(subtask, None)
        else:
            self._at_us[subtask] = at_us
        if not self._at_us:
            return None
        until_us = min(min(self._at_us.values()) + self.most_us, FOREVER_US)
        if until_us == self._until_us:
            return None
        self._until_us = until_us
        return until_us


@dataclass(slots=True)
class Reports:
    """One subtask: up to where it may read, and when it has to report."""

    until_us: int = FOREVER_US
    _told_us: int | None = None
    _next: float = 0.0

    def due(self, at_us: int | None) -> float | None:
        """When to report that it has come so far; None: that is known."""
        if at_us == self._told_us:
            return None
        waits = at_us is not None and at_us > self.until_us
        return 0.0 if waits else self._next

    def told(self, at_us: int | None, now: float) -> None:
        """It was reported."""
        self._told_us = at_us
        self._next = now + EVERY_S
