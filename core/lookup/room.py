"""How many calls of a table there may be at a time.

A call that is tried again goes before those that have not been tried: rows that go out in order
wait for it, and of a server that is gone it is told after its retries, not after a try of each key.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Room:
    """So many places, which are handed on to whoever waits."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._again: deque[asyncio.Future[None]] = deque()
        self._first: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def place(self, *, again: bool) -> AsyncIterator[None]:
        """One of the places, when there is one: before all others for a call that comes again."""
        if self._free:
            self._free -= 1
        else:
            await self._turn(self._again if again else self._first)
        try:
            yield
        finally:
            self._leave()

    async def _turn(self, line: deque[asyncio.Future[None]]) -> None:
        turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._leave()  # it was handed a place just then
            with suppress(ValueError):
                line.remove(turn)
            raise

    def _leave(self) -> None:
        """Hand the place on."""
        for line in (self._again, self._first):
            while line:
                turn = line.popleft()
                if not turn.done():
                    return turn.set_result(None)
        self._free += 1
        return None
