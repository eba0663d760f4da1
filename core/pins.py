"""The checkpoints that somebody reads, so that nobody collects them meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Pins:
    """By number, how many read a checkpoint or wait for it."""

    _counts: Counter[int] = field(default_factory=Counter)
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def pin(self, number: int) -> None:
        """Somebody reads it."""
        self._counts[number] += 1

    def release(self, number: int) -> None:
        """One of those who read it does so no more."""
        self._counts = self._counts - Counter([number])
        self._released.set()

    @property
    def numbers(self) -> frozenset[int]:
        """Those that are read; asked for in any thread."""
        return frozenset(self._counts)

    async def free(self) -> None:
        """Wait until nobody reads any."""
        while self._counts:
            self._released.clear()
            await self._released.wait()
