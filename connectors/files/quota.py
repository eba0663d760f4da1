"""`--limit N`: the first N rows of a source, over all its files in order, whoever reads them.

The subtasks of a source share one quota, and take turns: a file is begun when the one before it has
been read. A block then never holds more records than rows are still wanted, so that nothing behind
the last one is looked at, not even to find it bad.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable


class Quota:
    """How many rows are still wanted, and whose turn it is."""

    def __init__(self, rows: int) -> None:
        self.left = rows
        self._order: deque[str] = deque()
        self._changed = asyncio.Condition()

    def expect(self, names: Iterable[str]) -> None:
        """These splits are read, in this order, behind those that were expected before."""
        self._order.extend(names)

    def take(self, rows: int) -> None:
        """So many rows were read."""
        self.left -= rows

    async def turn(self, name: str) -> bool:
        """Wait until a split may be read; false when no row is wanted any more."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.left <= 0 or self._order[0] == name)
            if self.left <= 0:
                self._changed.notify_all()
        return self.left > 0

    async def done(self, name: str) -> None:
        """A split has been read to its end, or as far as it was wanted."""
        async with self._changed:
            self._order.remove(name)
            self._changed.notify_all()
