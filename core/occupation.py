"""What a subtask's time goes to, and the shares of it between two looks. No clock: times are given.

| share         | the time in which a subtask                                                    |
|---------------|--------------------------------------------------------------------------------|
| busy          | works: a kernel runs, or waits for a thread; a source makes what comes next    |
| backpressured | waits for whoever reads from it, and for the writer of a sink behind it        |
| idle          | waits for rows, or for its turn: the rest. Behind its end it is idle           |

They add up to 1. A subtask that is a sink and nothing else is busy while its writer writes: so
the part that holds up all others is the first, seen from the sources, that is busy rather than
backpressured.

Whoever looks, looks at what has happened since the last look that is some time ago: those who look
at a job at the same time do not shorten each other's stretch to nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar

LOW = 0.10
HIGH = 0.50

LEAST_S = 0.5
"""Over less than this much time shares say little."""

Word: TypeAlias = "Literal['ok', 'low', 'high']"
Who = TypeVar("Who", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Spent:
    """Where the seconds of a subtask have gone since it began."""

    busy_s: float = 0.0
    idle_s: float = 0.0
    blocked_s: float = 0.0

    @property
    def seconds(self) -> float:
        """All of them."""
        return self.busy_s + self.idle_s + self.blocked_s


@dataclass(frozen=True, slots=True)
class Shares:
    """The same as shares of a stretch of time."""

    busy: float = 0.0
    idle: float = 1.0
    blocked: float = 0.0

    @property
    def backpressure(self) -> Word:
        """The share in which it was backpressured, in a word."""
        return word(self.blocked)


def spent(seconds: float, waited_s: float, blocked_s: float) -> Spent:
    """What the seconds of a life went to, of which so many it waited for rows and for readers.

    >>> spent(10, 4, 1)
    Spent(busy_s=5, idle_s=4, blocked_s=1)
    """
    return Spent(max(seconds - waited_s - blocked_s, 0.0), waited_s, blocked_s)


def shares(before: Spent, now: Spent, seconds: float) -> Shares:
    """The shares of the seconds between two looks.

    >>> shares(Spent(1, 1, 1), Spent(2, 2, 3), 4)
    Shares(busy=0.25, idle=0.25, blocked=0.5)
    >>> shares(Spent(1, 1, 1), Spent(2, 1, 1), 4)  # it came to its end
    Shares(busy=0.25, idle=0.75, blocked=0.0)
    """
    if seconds <= 0:
        return Shares()
    busy = min(max((now.busy_s - before.busy_s) / seconds, 0.0), 1.0)
    blocked = min(max((now.blocked_s - before.blocked_s) / seconds, 0.0), 1.0 - busy)
    return Shares(busy, 1.0 - busy - blocked, blocked)


def word(share: float) -> Word:
    """How backpressure is called.

    >>> word(0.1), word(0.11), word(0.51)
    ('ok', 'low', 'high')
    """
    return "ok" if share <= LOW else "low" if share <= HIGH else "high"


@dataclass(slots=True)
class Looks(Generic[Who]):
    """What was seen at earlier looks: as many as one needs to know the last that is not too new."""

    least_s: float = LEAST_S
    _seen: deque[tuple[float, Mapping[Who, Spent]]] = field(default_factory=deque)

    def shares(self, at: float, seen: Mapping[Who, Spent]) -> dict[Who, Shares]:
        """The shares of everybody since the last look, or since it began, if that was later."""
        while len(self._seen) > 1 and self._seen[1][0] <= at - self.least_s:
            self._seen.popleft()
        then: float = at
        before: Mapping[Who, Spent] = {}
        if self._seen and self._seen[0][0] <= at - self.least_s:
            then, before = self._seen[0]
        if not self._seen or self._seen[-1][0] <= at - self.least_s:
            self._seen.append((at, dict(seen)))
        return {
            who: shares(before[who], now, at - then)
            if who in before
            else shares(Spent(), now, now.seconds)
            for who, now in seen.items()
        }
