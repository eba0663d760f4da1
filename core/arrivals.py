"""What comes of a reading, as something that can be waited for until a time, or until a stop.

Waiting can be given up and taken up again: what is being read meanwhile is not lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from headrace.core.contracts import Arrival, Reading
from headrace.core.messages import Position, Split


class Arrivals:
    """One arrival after the other. `wait` has one caller, the rest may be called by anybody."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._assigned = False
        self._ended = False
        self._getting: asyncio.Task[Arrival | None] | None = None
        self._woken = asyncio.Event()

    @property
    def assigned(self) -> bool:
        """Whether it was said what to read."""
        return self._assigned

    @property
    def ended(self) -> bool:
        """Whether nothing comes any more: all was read, or somebody asked to stop."""
        return self._ended

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Read these too; nothing is read before the first time."""
        self._assigned = True
        self._reading.assign(splits, last=last)
        self._woken.set()

    def wake(self) -> None:
        """There is something to look at."""
        self._woken.set()

    def stop(self) -> None:
        """Take nothing more, not even what is there."""
        self._ended = True
        self._woken.set()

    async def wait(self, until: float | None) -> None:
        """Wait until there is something to look at, or until this time of the loop."""
        if self._assigned and self._getting is None:
            self._getting = asyncio.create_task(_next(self._reading))
            self._getting.add_done_callback(lambda _: self._woken.set())
        if until is None:
            await self._woken.wait()
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._woken.wait()
        self._woken.clear()

    def take(self) -> Arrival | None:
        """What has come, if anything has. Raises what went wrong with the reading."""
        if self._ended or self._getting is None or not self._getting.done():
            return None
        getting, self._getting = self._getting, None
        arrival = getting.result()
        self._ended = arrival is None
        return arrival

    async def close(self) -> None:
        """Give up whatever is awaited, and close the reading."""
        if self._getting is not None:
            self._getting.cancel()
            await asyncio.gather(self._getting, return_exceptions=True)
        await self._reading.close()


async def _next(reading: Reading) -> Arrival | None:
    return await reading.next()
