"""The time of a subtask, and the shares of it between two samples. No clock: times are passed in.

| share         | the time in which a subtask                                                  |
|---------------|------------------------------------------------------------------------------|
| busy          | works: runs a kernel or waits for a thread to run it; a source decodes input |
| backpressured | waits for its consumers, or for the writer of its sink                       |
| idle          | waits for rows or for its turn: the rest, and all time after its end         |

The shares add up to 1. A subtask that consists of a sink alone is busy while its writer writes. So
the bottleneck is the first part, seen from the sources, that is busy rather than backpressured.

Shares cover the time since the last sample that is old enough, so that several observers of a job
do not shorten each other's interval to nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar

LOW = 0.10
HIGH = 0.50

LEAST_S = 0.5
"""The shortest interval over which shares mean something."""

Word: TypeAlias = "Literal['ok', 'low', 'high']"
Who = TypeVar("Who", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Spent:
    """The time of a subtask since it began, in seconds by use."""

    busy_s: float = 0.0
    idle_s: float = 0.0
    blocked_s: float = 0.0

    @property
    def seconds(self) -> float:
        """The total time."""
        return self.busy_s + self.idle_s + self.blocked_s


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of an interval."""

    busy: float = 0.0
    idle: float = 1.0
    blocked: float = 0.0

    @property
    def backpressure(self) -> Word:
        """The level of backpressure."""
        return word(self.blocked)


def spent(seconds: float, waited_s: float, blocked_s: float) -> Spent:
    """Return the time of a subtask from its lifetime and its times of waiting.

    >>> spent(10, 4, 1)
    Spent(busy_s=5, idle_s=4, blocked_s=1)
    """
    return Spent(max(seconds - waited_s - blocked_s, 0.0), waited_s, blocked_s)


def shares(before: Spent, now: Spent, seconds: float) -> Shares:
    """Return the shares of the interval between two samples.

    >>> shares(Spent(1, 1, 1), Spent(2, 2, 3), 4)
    Shares(busy=0.25, idle=0.25, blocked=0.5)
    >>> shares(Spent(1, 1, 1), Spent(2, 1, 1), 4)  # it ended
    Shares(busy=0.25, idle=0.75, blocked=0.0)
    """
    if seconds <= 0:
        return Shares()
    busy = min(max((now.busy_s - before.busy_s) / seconds, 0.0), 1.0)
    blocked = min(max((now.blocked_s - before.blocked_s) / seconds, 0.0), 1.0 - busy)
    return Shares(busy, 1.0 - busy - blocked, blocked)


def word(share: float) -> Word:
    """Return the level of backpressure for a share.

    >>> word(0.1), word(0.11), word(0.51)
    ('ok', 'low', 'high')
    """
    return "ok" if share <= LOW else "low" if share <= HIGH else "high"


@dataclass(slots=True)
class Looks(Generic[Who]):
    """The earlier samples: back to the newest that is old enough."""

    least_s: float = LEAST_S
    _seen: deque[tuple[float, Mapping[Who, Spent]]] = field(default_factory=deque)

    def shares(self, at: float, seen: Mapping[Who, Spent]) -> dict[Who, Shares]:
        """Return the shares of each subtask since the last sample, or since it began."""
        while len(self._seen) > 1 and self._seen[1][0] <= at - self.least_s:
            self._seen.popleft()
        then: float = at
        before: Mapping[Who, Spent] = {}
        if self._seen and self._seen[0][0] <= at - self.least_s:
            then, before = self._seen[0]
        if not self._seen or self._seen[-1][0] <= at - self.least_s:
            self._seen.append((at, dict(seen)))
        return {
            subtask: shares(before[subtask], now, at - then)
            if subtask in before
            else shares(Spent(), now, now.seconds)
            for subtask, now in seen.items()
        }
