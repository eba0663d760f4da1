"""`--limit N`: the first N rows of a source, over all its files in order and all its subtasks.

The subtasks of a source share one quota and take turns: a file is started when the one before it
has been read. A block never holds more records than rows are still wanted, so that no record after
the last wanted row is decoded, not even to find it bad.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable


class RowQuota:
    """The rows that are still wanted, and the order of the splits."""

    def __init__(self, rows: int) -> None:
        self.left = rows
        self._order: deque[str] = deque()
        self._expected: set[str] = set()
        self._changed = asyncio.Event()

    def append_splits(self, names: Iterable[str]) -> None:
        """Append splits to the reading order."""
        new = [name for name in names if name not in self._expected]
        self._expected.update(new)
        self._order.extend(new)

    def subtract_rows(self, rows: int) -> None:
        """Subtract rows that were read."""
        self.left -= rows

    def is_turn(self, name: str) -> bool:
        """Whether it is this split's turn to be read."""
        return self._order[0] == name

    def end_turn(self, name: str) -> None:
        """End a split's turn: it was read to its end, or as far as it was wanted."""
        self._order.remove(name)
        self.notify()

    def notify(self) -> None:
        """Wake all tasks in `wait_for_change`."""
        self._changed.set()
        self._changed.clear()

    async def wait_for_change(self) -> None:
        """Wait for the next change of turns or splits."""
        await self._changed.wait()
