"""The fetch of a split reader in the background, awaited until a deadline or a stop.

A wait that reaches its deadline loses nothing: the fetch continues, and a later wait picks it up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from headrace.core.contracts import Arrival, Reading
from headrace.core.messages import Position, Split


class Arrivals:
    """Fetches one event of a split reader at a time.

    One task alone calls `wait` and `take`; all other methods may be called by any task.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._assigned = False
        self._ended = False
        self._getting: asyncio.Task[Arrival | None] | None = None
        self._woken = asyncio.Event()

    @property
    def assigned(self) -> bool:
        """Whether splits have been assigned, perhaps none."""
        return self._assigned

    @property
    def ended(self) -> bool:
        """Whether no event will follow: all was read, or a stop was requested."""
        return self._ended

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Add splits to read; nothing is fetched before the first call."""
        self._assigned = True
        self._reading.assign(splits, last=last)
        self._woken.set()

    def wake(self) -> None:
        """Make `wait` return."""
        self._woken.set()

    def stop(self) -> None:
        """Finish at once; a fetched event that was not taken is dropped."""
        self._ended = True
        self._woken.set()

    async def wait(self, until: float | None) -> None:
        """Wait for an event, a call of another method, or this time of the loop."""
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
        """Return the fetched event, if there is one. Raises the reader's error."""
        if self._ended or self._getting is None or not self._getting.done():
            return None
        getting, self._getting = self._getting, None
        arrival = getting.result()
        self._ended = arrival is None
        return arrival

    async def close(self) -> None:
        """Cancel the fetch, and close the reader."""
        if self._getting is not None:
            self._getting.cancel()
            await asyncio.gather(self._getting, return_exceptions=True)
        await self._reading.close()


async def _next(reading: Reading) -> Arrival | None:
    return await reading.next()
