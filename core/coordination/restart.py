"""The restart strategies: how long to wait after a failure before a job restarts, or that it ends.

Times and random numbers are passed in, so everything here is a table of cases. A job has one
`RestartPolicy` for all its attempts, and calls it after each failed one:

    delay_s = policy.decide_delay_s(failure, loop.time(), random.random())

None ends the job, and that failure is reported to the user. A failure that is final, because
another attempt would fail in the same way, ends the job at once.

The same failure three times in a row ends the job under every strategy: a record that cannot be
read, or a function that raises, would fail for ever. Two failures are the same if their message,
part, split and position are. User code may fail on another row each time, whichever comes first,
and the message of a bug in headrace may vary: there failures are also the same if the line that
raised them is the same, and both attempts resumed from the same checkpoint. External failures that
may be transient (a full disk, an unreachable broker) are left to the strategy.

For a failure without a position, an attempt that ran healthily in between resets the count; at a
position it does not, because reaching the position may take long.
"""

from __future__ import annotations

from dataclasses import field
from datetime import timedelta
from typing import Protocol, TypeAlias

from headrace.core.api.splits import Failure, Position
from headrace.core.pipeline.settings import (
    ExponentialRestart,
    FailureRateRestart,
    FixedRestart,
    NoRestart,
    Restart,
)
from headrace.core.types.lazy_dataclass import dataclass

MAX_SAME_FAILURES = 3
"""The number of identical failures after which the job ends."""
DEFAULT_HEALTHY_AFTER = timedelta(minutes=10)
"""The time after which an attempt counts as healthy, for strategies that do not set it."""

FailureSite: TypeAlias = "tuple[str, str, str | None, Position]"


class RestartStrategy(Protocol):
    """A restart strategy. `well`: the attempt before the failure was healthy."""

    def next_delay_s(self, now_s: float, random: float, *, well: bool) -> float | None:
        """Return the delay in seconds; None ends the job."""
        ...


@dataclass(slots=True)
class RestartPolicy:
    """The restarts of one job."""

    settings: Restart
    _strategy: RestartStrategy = field(init=False)
    _healthy_s: float = field(init=False)
    _started_at_s: float | None = None
    """The start time of the attempt that failed; None for the first."""
    _last_site: FailureSite | None = None
    _last_raise: tuple[str, str, int] | None = None
    """The origin of an exception in user code or headrace: the line, the part, the checkpoint."""
    _repetitions: int = 0

    def __post_init__(self) -> None:
        self._strategy = _build_strategy(self.settings)
        healthy_after = DEFAULT_HEALTHY_AFTER
        if isinstance(self.settings, ExponentialRestart):
            healthy_after = self.settings.healthy_after
        self._healthy_s = healthy_after.total_seconds()

    def decide_delay_s(
        self, failure: Failure, now_s: float, random: float, checkpoint: int = 0
    ) -> float | None:
        """Return how many seconds to wait before the next attempt; None: there is none.

        `random` is in [0, 1). `checkpoint` is the one that the failed attempt resumed from.
        """
        well = self._started_at_s is not None and now_s - self._started_at_s >= self._healthy_s
        if self._is_repeated(failure, checkpoint, well=well) or failure.is_final:
            return None
        delay_s = self._strategy.next_delay_s(now_s, random, well=well)
        if delay_s is not None:
            self._started_at_s = now_s + delay_s
        return delay_s

    @property
    def max_delay_s(self) -> float:
        """The longest delay before another attempt."""
        match self.settings:
            case NoRestart():
                return 0.0
            case ExponentialRestart():
                return self.settings.max.total_seconds()
        return self.settings.delay.total_seconds()

    def _is_repeated(self, failure: Failure, checkpoint: int, *, well: bool) -> bool:
        """Whether the same failure has come too often in a row."""
        place = (failure.message, failure.step, failure.split, failure.position)
        raised = (failure.raise_site, failure.step, checkpoint) if failure.raise_site else None
        same = place == self._last_site or (raised is not None and raised == self._last_raise)
        goes_on = same and not failure.is_transient and (failure.position is not None or not well)
        self._repetitions = self._repetitions + 1 if goes_on else 1
        self._last_site, self._last_raise = place, raised
        return self._repetitions >= MAX_SAME_FAILURES


def _build_strategy(settings: Restart) -> RestartStrategy:
    match settings:
        case NoRestart():
            return FixedDelay(0, 0.0)
        case FixedRestart():
            return FixedDelay(settings.attempts, settings.delay.total_seconds())
        case ExponentialRestart():
            return ExponentialBackoff(settings)
        case FailureRateRestart():
            return FailureRateLimit(settings)


@dataclass(slots=True)
class FixedDelay:
    """A fixed number of restarts with a fixed delay."""

    remaining_attempts: int
    interval_s: float

    def next_delay_s(self, now_s: float, random: float, *, well: bool) -> float | None:
        """Return the delay while a restart is left."""
        self.remaining_attempts -= 1
        return self.interval_s if self.remaining_attempts >= 0 else None


@dataclass(slots=True)
class ExponentialBackoff:
    """A delay that grows with each failure until an attempt is healthy."""

    settings: ExponentialRestart
    _next_delay_s: float | None = None

    def next_delay_s(self, now_s: float, random: float, *, well: bool) -> float:
        """Return the delay, at most `max`, reduced by a random part of `jitter`."""
        longest_s = self.settings.max.total_seconds()
        begins = well or self._next_delay_s is None
        whole_s = self.settings.first.total_seconds() if begins else self._next_delay_s
        assert whole_s is not None
        whole_s = min(whole_s, longest_s)
        self._next_delay_s = min(whole_s * self.settings.factor, longest_s)
        return whole_s * (1 - self.settings.jitter * random)


@dataclass(slots=True)
class FailureRateLimit:
    """A fixed delay, until failures come too often."""

    settings: FailureRateRestart
    _failure_times_s: list[float] = field(default_factory=list)
    """The times of the failures within the interval."""

    def next_delay_s(self, now_s: float, random: float, *, well: bool) -> float | None:
        """Return the delay while the interval `within` has fewer failures than the limit."""
        since_s = now_s - self.settings.within.total_seconds()
        self._failure_times_s = [
            at_s for at_s in (*self._failure_times_s, now_s) if at_s >= since_s
        ]
        too_many = len(self._failure_times_s) >= self.settings.failures
        return None if too_many else self.settings.delay.total_seconds()
