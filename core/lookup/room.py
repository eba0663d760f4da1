"""The limit on concurrent calls of a table.

Retries take precedence over first attempts: ordered rows wait for them, and an unavailable server
is then reported after the retries of one call, not after a first attempt for every key.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class CallLimiter:
    """A semaphore that passes its slots to waiting calls, retries first."""

    def __init__(self, places: int) -> None:
        self._free_slots = places
        self._waiting_retries: deque[asyncio.Future[None]] = deque()
        self._waiting_calls: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def hold_slot(self, *, is_retry: bool) -> AsyncIterator[None]:
        """Hold a slot; wait for a free one, before all first attempts if the call is a retry."""
        if self._free_slots:
            self._free_slots -= 1
        else:
            await self._wait_for_slot(self._waiting_retries if is_retry else self._waiting_calls)
        try:
            yield
        finally:
            self._release_slot()

    async def _wait_for_slot(self, line: deque[asyncio.Future[None]]) -> None:
        turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._release_slot()  # the slot was passed to this call at the same time
            with suppress(ValueError):
                line.remove(turn)
            raise

    def _release_slot(self) -> None:
        """Pass the slot on, or free it."""
        for line in (self._waiting_retries, self._waiting_calls):
            while line:
                turn = line.popleft()
                if not turn.done():
                    return turn.set_result(None)
        self._free_slots += 1
        return None
