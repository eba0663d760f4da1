"""A simulated loop under a driver: virtual time passes only when the driver lets it.

The driver is a coroutine of the loop. It changes something outside, such as the rows of a source,
and waits until everything that follows from it has happened. Then nothing can run before a timer,
and time stands still until the driver moves it. Short timers, by which tasks gather small batches,
pass meanwhile; they do not move the wall clock.
"""

from __future__ import annotations

import asyncio
import math

from headrace.core.testing.simulated_loop import SimulatedLoop

SETTLING_S = 0.002
"""The time within which the timers of a job that comes to rest fire: the gathering of a batch."""


class ProcessKilled(BaseException):
    """The simulated process was killed while something ran."""


class SteppedLoop(SimulatedLoop):
    """`wall_s` is the wall clock in seconds: it moves only in `advance`, and while time is free."""

    def __init__(self, seed: int, wall_s: float = 0.0, settling_s: float = SETTLING_S) -> None:
        """`settling_s`: how far timers may be off that fire before the job rests."""
        super().__init__(seed)
        self._settling_s = settling_s
        self._rest: asyncio.Future[None] | None = None
        self._until_s = math.inf
        """The time up to which timers fire before the loop rests."""
        self._wall_s = wall_s
        self._turns_left: int | None = None
        """The turns after which the process is killed; None: it is not."""
        self._wall_since_s: float | None = None
        """The loop's time since which the wall clock runs; None: it stands still."""
        self.set_exception_handler(lambda loop, context: None)

    @property
    def wall_s(self) -> float:
        """The time of the wall clock."""
        running_s = 0.0 if self._wall_since_s is None else self._now - self._wall_since_s
        return self._wall_s + running_s

    def now_us(self) -> int:
        """Return the time of the wall clock in microseconds."""
        return round(self.wall_s * 1e6)

    async def rest(self) -> None:
        """Wait until nothing can run before a timer; the wall clock stands still."""
        self._stop_clock()
        await self._wait_until(self._now + self._settling_s)

    async def advance(self, seconds: float) -> None:
        """Let this time pass, with all timers that are due meanwhile."""
        self._stop_clock()
        self._wall_since_s = self._now
        until_s = self._now + seconds
        await self._wait_until(until_s)
        self._now = max(self._now, until_s)
        self._stop_clock()
        await self.rest()

    def kill_after(self, turns: int | None) -> None:
        """Raise ProcessKilled after some turns of the loop; None: not at all."""
        self._turns_left = turns

    def free_time(self) -> None:
        """Let time pass from timer to timer from now on."""
        self._stop_clock()
        self._until_s, self._wall_since_s = math.inf, self._now

    def _stop_clock(self) -> None:
        self._wall_s, self._wall_since_s = self.wall_s, None

    async def _wait_until(self, until_s: float) -> None:
        self._until_s, self._rest = until_s, self.create_future()
        await self._rest

    def _run_once(self) -> None:
        if self._turns_left is not None:
            self._turns_left -= 1
            if self._turns_left < 0:
                self._turns_left = None
                raise ProcessKilled
        super()._run_once()

    def _on_idle(self) -> None:
        is_due = bool(self._scheduled) and self._scheduled[0].when() <= self._until_s
        if self._rest is not None and not is_due:
            rest, self._rest = self._rest, None
            rest.set_result(None)
        else:
            super()._on_idle()
