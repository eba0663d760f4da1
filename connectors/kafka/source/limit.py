"""`--limit N`: the first N rows of a source, from any of its partitions.

The subtasks of a source share one limit. Before making a chunk, a subtask takes as many records
from the limit as it may need, and puts back those that became no rows.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True)
class RowLimit:
    """The rows that are still wanted; None: all."""

    rows_left: int | None
    _records_taken: int = 0
    """Records taken whose number of rows is not known yet."""
    _watchers: list[asyncio.Event] = field(default_factory=list)

    @property
    def is_reached(self) -> bool:
        """Whether no more rows are wanted."""
        return self.rows_left is not None and self.rows_left <= 0 and not self._records_taken

    def take_records(self, records: int) -> int | None:
        """Take up to `records` from the limit; return how many, or None if there is no limit."""
        if self.rows_left is None:
            return None
        taken = min(records, self.rows_left)
        self.rows_left -= taken
        self._records_taken += taken
        return taken

    def put_back(self, taken: int | None, rows: int) -> None:
        """Return the records taken that became no rows, and wake the watchers."""
        if taken is None or self.rows_left is None:
            return
        self._records_taken -= taken
        self.rows_left += taken - rows
        for event in self._watchers:
            event.set()

    def add_watcher(self, changed: asyncio.Event) -> None:
        """Set this event whenever records are put back."""
        self._watchers.append(changed)
