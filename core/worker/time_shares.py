"""The time of a subtask, and the shares of it between two samples. No clock: times are passed in.

| share         | the time in which a subtask                                                  |
|---------------|------------------------------------------------------------------------------|
| busy          | works, as a kernel, a thread for it or the decoder of a source: the rest     |
| backpressured | waits for its consumers, or for the writer of its sink                       |
| idle          | waits for rows or for its turn, and all time after its end                   |

The shares add up to 1. A subtask that consists of a sink alone is busy while its writer writes. So
the bottleneck is the first part, seen from the sources, that is busy rather than backpressured.

Shares cover the time since the last sample that is old enough, so that several observers of a job
do not shorten each other's interval to nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import field
from typing import Generic, Literal, TypeAlias, TypeVar

from headrace.core.types.lazy_dataclass import dataclass

LOW_BACKPRESSURE = 0.10
HIGH_BACKPRESSURE = 0.50

MIN_INTERVAL_S = 0.5
"""The shortest interval over which shares mean something."""

BackpressureLevel: TypeAlias = "Literal['ok', 'low', 'high']"
SubtaskKey = TypeVar("SubtaskKey", bound=Hashable)


@dataclass(frozen=True, slots=True)
class TaskTime:
    """The time of a subtask since it began, in seconds by use."""

    busy_s: float = 0.0
    idle_s: float = 0.0
    backpressured_s: float = 0.0

    @property
    def total_s(self) -> float:
        """The total time."""
        return self.busy_s + self.idle_s + self.backpressured_s


@dataclass(frozen=True, slots=True)
class TimeShares:
    """The shares of an interval."""

    busy: float = 0.0
    idle: float = 1.0
    backpressured: float = 0.0

    @property
    def backpressure(self) -> BackpressureLevel:
        """The level of backpressure."""
        return classify_backpressure(self.backpressured)


def make_task_time(seconds: float, waited_s: float, blocked_s: float) -> TaskTime:
    """Return the time of a subtask from its lifetime and its times of waiting.

    >>> make_task_time(10, 4, 1)
    TaskTime(busy_s=5, idle_s=4, backpressured_s=1)
    """
    return TaskTime(max(seconds - waited_s - blocked_s, 0.0), waited_s, blocked_s)


def compute_shares(before: TaskTime, now: TaskTime, seconds: float) -> TimeShares:
    """Return the shares of the interval between two samples.

    >>> compute_shares(TaskTime(1, 1, 1), TaskTime(2, 2, 3), 4)
    TimeShares(busy=0.25, idle=0.25, backpressured=0.5)
    >>> compute_shares(TaskTime(1, 1, 1), TaskTime(2, 1, 1), 4)  # it ended
    TimeShares(busy=0.25, idle=0.75, backpressured=0.0)
    """
    if seconds <= 0:
        return TimeShares()
    busy = min(max((now.busy_s - before.busy_s) / seconds, 0.0), 1.0)
    blocked = min(max((now.backpressured_s - before.backpressured_s) / seconds, 0.0), 1.0 - busy)
    return TimeShares(busy, 1.0 - busy - blocked, blocked)


def classify_backpressure(share: float) -> BackpressureLevel:
    """Return the level of backpressure for a share.

    >>> classify_backpressure(0.1), classify_backpressure(0.11), classify_backpressure(0.51)
    ('ok', 'low', 'high')
    """
    return "ok" if share <= LOW_BACKPRESSURE else "low" if share <= HIGH_BACKPRESSURE else "high"


@dataclass(slots=True)
class TimeShareSampler(Generic[SubtaskKey]):
    """The earlier samples: back to the newest that is old enough."""

    min_interval_s: float = MIN_INTERVAL_S
    _samples: deque[tuple[float, Mapping[SubtaskKey, TaskTime]]] = field(default_factory=deque)

    def sample(
        self, at: float, seen: Mapping[SubtaskKey, TaskTime]
    ) -> dict[SubtaskKey, TimeShares]:
        """Return the shares of each subtask since the last sample, or since it began."""
        while len(self._samples) > 1 and self._samples[1][0] <= at - self.min_interval_s:
            self._samples.popleft()
        then: float = at
        before: Mapping[SubtaskKey, TaskTime] = {}
        if self._samples and self._samples[0][0] <= at - self.min_interval_s:
            then, before = self._samples[0]
        if not self._samples or self._samples[-1][0] <= at - self.min_interval_s:
            self._samples.append((at, dict(seen)))
        return {
            subtask: compute_shares(before[subtask], now, at - then)
            if subtask in before
            else compute_shares(TaskTime(), now, now.total_s)
            for subtask, now in seen.items()
        }
