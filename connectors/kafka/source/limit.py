"""`--limit N`: the first N rows of a source, whichever of its partitions they come from.

The subtasks of a source share one. Whoever makes a chunk takes as many records out as it may need,
and puts back those that became no rows.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True)
class Limit:
    """How many rows are still wanted; None: all."""

    left: int | None
    _out: int = 0
    """How many were taken out by somebody who has not said what became of them."""
    _watchers: list[asyncio.Event] = field(default_factory=list)

    @property
    def is_reached(self) -> bool:
        """Whether nothing is wanted any more."""
        return self.left is not None and self.left <= 0 and not self._out

    def take(self, records: int) -> int | None:
        """Take so many out, or as many as there are; None: there is no end to them."""
        if self.left is None:
            return None
        taken = min(records, self.left)
        self.left -= taken
        self._out += taken
        return taken

    def put_back(self, taken: int | None, rows: int) -> None:
        """So many were taken out, and so many rows came of them."""
        if taken is None or self.left is None:
            return
        self._out -= taken
        self.left += taken - rows
        for event in self._watchers:
            event.set()

    def watch(self, changed: asyncio.Event) -> None:
        """Set this whenever somebody has put back."""
        self._watchers.append(changed)
