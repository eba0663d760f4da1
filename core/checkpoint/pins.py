"""Pins of checkpoints: one that is being read is pinned, so that it is not collected meanwhile.

Tests: tests/core/job/test_requests.py.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import field

from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True)
class CheckpointPins:
    """The number of readers of each checkpoint, by its number."""

    _counts: Counter[int] = field(default_factory=Counter)
    _release_event: asyncio.Event = field(default_factory=asyncio.Event)

    def pin(self, number: int) -> None:
        """Add a reader of a checkpoint."""
        self._counts[number] += 1

    def release(self, number: int) -> None:
        """Remove a reader of a checkpoint."""
        self._counts = self._counts - Counter([number])
        self._release_event.set()

    @property
    def numbers(self) -> frozenset[int]:
        """The pinned checkpoints. Safe to call from any thread."""
        return frozenset(self._counts)

    async def wait_until_unpinned(self) -> None:
        """Wait until no checkpoint is pinned."""
        while self._counts:
            self._release_event.clear()
            await self._release_event.wait()
