"""`--limit N`: the first N rows of a source, over all its files in order and all its subtasks.

The subtasks of a source run in one process, share one quota, and take turns: a file is started
when the one before it has been read. A block never holds more records than rows are still wanted,
so that no record after the last wanted row is decoded, not even to find it bad.
"""

from __future__ import annotations

import asyncio

from headrace.core.api.splits import Split


class RowQuota:
    """The rows that are still wanted, and the order of the splits."""

    def __init__(self, rows: int) -> None:
        self.left = rows
        self._turn = 0
        """The number of the split to read: splits are numbered in the order of their discovery."""
        self._changed = asyncio.Event()

    def subtract_rows(self, rows: int) -> None:
        """Subtract rows that were read."""
        self.left -= rows

    def is_turn(self, split: Split) -> bool:
        """Whether it is this split's turn to be read."""
        return split.number == self._turn

    def end_turn(self) -> None:
        """End a split's turn: it was read to its end, or as far as it was wanted."""
        self._turn += 1
        self.notify()

    def notify(self) -> None:
        """Wake all tasks in `wait_for_change`."""
        self._changed.set()
        self._changed.clear()

    async def wait_for_change(self) -> None:
        """Wait for the next change of turns or splits."""
        await self._changed.wait()
