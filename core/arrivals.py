"""The fetch of a split reader in the background, awaited until a deadline or a stop.

A wait that reaches its deadline loses nothing: the fetch continues, and a later wait picks it up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from headrace.core.contracts import SourceEvent, SplitReader
from headrace.core.messages import Position, Split


class PendingFetch:
    """Fetches one event of a split reader at a time.

    One task alone calls `wait` and `take`; all other methods may be called by any task.
    """

    def __init__(self, reading: SplitReader) -> None:
        self._reader = reading
        self._is_assigned = False
        self._is_finished = False
        self._fetching: asyncio.Task[SourceEvent | None] | None = None
        self._wake_event = asyncio.Event()

    @property
    def is_assigned(self) -> bool:
        """Whether splits have been assigned, perhaps none."""
        return self._is_assigned

    @property
    def is_finished(self) -> bool:
        """Whether no event will follow: all was read, or a stop was requested."""
        return self._is_finished

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Add splits to read; nothing is fetched before the first call."""
        self._is_assigned = True
        self._reader.assign(splits, last=last)
        self._wake_event.set()

    def wake(self) -> None:
        """Make `wait` return."""
        self._wake_event.set()

    def stop(self) -> None:
        """Finish at once; a fetched event that was not taken is dropped."""
        self._is_finished = True
        self._wake_event.set()

    async def wait(self, until: float | None) -> None:
        """Wait for an event, a call of another method, or this time of the loop."""
        if self._is_assigned and self._fetching is None:
            self._fetching = asyncio.create_task(_fetch_next(self._reader))
            self._fetching.add_done_callback(lambda _: self._wake_event.set())
        if until is None:
            await self._wake_event.wait()
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._wake_event.wait()
        self._wake_event.clear()

    def take(self) -> SourceEvent | None:
        """Return the fetched event, if there is one. Raises the reader's error."""
        if self._is_finished or self._fetching is None or not self._fetching.done():
            return None
        getting, self._fetching = self._fetching, None
        arrival = getting.result()
        self._is_finished = arrival is None
        return arrival

    async def close(self) -> None:
        """Cancel the fetch, and close the reader."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)
        await self._reader.close()


async def _fetch_next(reading: SplitReader) -> SourceEvent | None:
    return await reading.fetch()
