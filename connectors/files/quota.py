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
        self._expected: set[str] = set()
        self._changed = asyncio.Event()

    def expect(self, names: Iterable[str]) -> None:
        """These splits are read, in this order, behind those that were expected before."""
        new = [name for name in names if name not in self._expected]
        self._expected.update(new)
        self._order.extend(new)

    def take(self, rows: int) -> None:
        """So many rows were read."""
        self.left -= rows

    def turn(self, name: str) -> bool:
        """Whether a split may be read now."""
        return self._order[0] == name

    def done(self, name: str) -> None:
        """A split has been read to its end, or as far as it was wanted."""
        self._order.remove(name)
        self.tell()

    def tell(self) -> None:
        """Wake whoever waits for a change."""
        self._changed.set()
        self._changed.clear()

    async def changed(self) -> None:
        """Wait until there is something new to look at."""
        await self._changed.wait()
