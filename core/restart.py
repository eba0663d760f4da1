"""What follows a failure: how long to wait before a job begins again, or that it does not.

Times and random numbers are handed in, so that everything here is a table of cases. Whoever runs a
job keeps one `Restarts` for all of its attempts, and asks at the end of each that failed:

    delay_s = restarts.failed(failure, loop.time(), random.random())

None is the end, and that failure is what the user is told, once and whole. It is the end at once
where the failure is one that no restart will change.

The same failure three times running is the end under every strategy: a record that cannot be read,
or a function that raises, would fail for ever. It is the same if its text, its part, its split and
its position are. A user's code may fail on another row each time, on whichever comes to it first,
and a defect of ours say something else of itself: there it is also the same if the line is, and
attempts began from the same checkpoint. Trouble of the outside world that may pass (a full disk, a
broker that is away) is left to the strategy.
Without a position, an attempt that kept well in between begins the count anew; at a position it
does not, for to get there may take long.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol, TypeAlias

from headrace.core.messages import Failure, Position
from headrace.core.pipeline.settings import (
    ExponentialRestart,
    FailureRateRestart,
    FixedRestart,
    NoRestart,
    Restart,
)

SAME = 3
"""So many times the same failure, and there is no use in another attempt."""
HEALTHY_AFTER = timedelta(minutes=10)
"""When an attempt has kept well, for strategies that do not say."""

Place: TypeAlias = "tuple[str, str, str | None, Position]"


class Strategy(Protocol):
    """How long to wait after a failure. `well`: the attempt before it kept well."""

    def delay_s(self, now_s: float, random: float, *, well: bool) -> float | None:
        """Seconds; None is the end."""
        ...


@dataclass(slots=True)
class Restarts:
    """What follows each failure of one job, in their order."""

    settings: Restart
    _strategy: Strategy = field(init=False)
    _healthy_s: float = field(init=False)
    _begun_s: float | None = None
    """When the attempt that failed now was to begin; None for the first."""
    _last: Place | None = None
    _raised: tuple[str, str, int] | None = None
    """Of code, a user's or ours: where it was raised, in which part, and since which checkpoint."""
    _times: int = 0

    def __post_init__(self) -> None:
        self._strategy = _strategy(self.settings)
        healthy_after = HEALTHY_AFTER
        if isinstance(self.settings, ExponentialRestart):
            healthy_after = self.settings.healthy_after
        self._healthy_s = healthy_after.total_seconds()

    def failed(
        self, failure: Failure, now_s: float, random: float, checkpoint: int = 0
    ) -> float | None:
        """How many seconds to wait before the next attempt; None: there is none.

        `random` is in [0, 1). `checkpoint` is what the attempt that failed began with.
        """
        well = self._begun_s is not None and now_s - self._begun_s >= self._healthy_s
        if self._is_again(failure, checkpoint, well=well) or failure.final:
            return None
        delay_s = self._strategy.delay_s(now_s, random, well=well)
        if delay_s is not None:
            self._begun_s = now_s + delay_s
        return delay_s

    @property
    def longest_s(self) -> float:
        """The longest time before another attempt."""
        match self.settings:
            case NoRestart():
                return 0.0
            case ExponentialRestart():
                return self.settings.max.total_seconds()
        return self.settings.delay.total_seconds()

    def _is_again(self, failure: Failure, checkpoint: int, *, well: bool) -> bool:
        """Whether this failure has come too often running."""
        place = (failure.message, failure.step, failure.split, failure.position)
        raised = (failure.raised, failure.step, checkpoint) if failure.raised else None
        same = place == self._last or (raised is not None and raised == self._raised)
        goes_on = same and not failure.may_pass and (failure.position is not None or not well)
        self._times = self._times + 1 if goes_on else 1
        self._last, self._raised = place, raised
        return self._times >= SAME


def _strategy(settings: Restart) -> Strategy:
    match settings:
        case NoRestart():
            return Fixed(0, 0.0)
        case FixedRestart():
            return Fixed(settings.attempts, settings.delay.total_seconds())
        case ExponentialRestart():
            return Exponential(settings)
        case FailureRateRestart():
            return FailureRate(settings)


@dataclass(slots=True)
class Fixed:
    """So many attempts more, the same time apart."""

    left: int
    wait_s: float

    def delay_s(self, now_s: float, random: float, *, well: bool) -> float | None:
        """The time, as long as an attempt is left."""
        self.left -= 1
        return self.wait_s if self.left >= 0 else None


@dataclass(slots=True)
class Exponential:
    """Longer from one failure to the next, until an attempt keeps well."""

    settings: ExponentialRestart
    _next_s: float | None = None

    def delay_s(self, now_s: float, random: float, *, well: bool) -> float:
        """At most `max`; of the time, `jitter` is the part that is left to chance."""
        longest_s = self.settings.max.total_seconds()
        begins = well or self._next_s is None
        whole_s = self.settings.first.total_seconds() if begins else self._next_s
        assert whole_s is not None
        whole_s = min(whole_s, longest_s)
        self._next_s = min(whole_s * self.settings.factor, longest_s)
        return whole_s * (1 - self.settings.jitter * random)


@dataclass(slots=True)
class FailureRate:
    """The same time apart, until failures come too often."""

    settings: FailureRateRestart
    _at_s: list[float] = field(default_factory=list)
    """When the job failed, not longer ago than what is looked at."""

    def delay_s(self, now_s: float, random: float, *, well: bool) -> float | None:
        """The time, while there are fewer failures `within`."""
        since_s = now_s - self.settings.within.total_seconds()
        self._at_s = [at_s for at_s in (*self._at_s, now_s) if at_s >= since_s]
        too_many = len(self._at_s) >= self.settings.failures
        return None if too_many else self.settings.delay.total_seconds()
