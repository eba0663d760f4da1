"""The state of windows by key and pane, with a buffer of rows that are not folded yet.

Folding a few rows costs as much as folding thousands, so rows are buffered until a window fires or
many have gathered. Where folding hardly reduces rows, because nearly each has its own key, the
buffer grows, so that rows are folded once. Buffered rows belong to the state: `flush` writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.frames import projected, together
from headrace.core.operators.folds import Fold
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.windows.packing import grouped
from headrace.core.sizes import Size
from headrace.core.state import SLOT, RunsLayout, StepState

if TYPE_CHECKING:
    import polars as pl

WINDOWS = "windows"
"""The name of the runs in the state."""

SETTLED_ROWS = 131_072
"""The number of buffered rows that are folded at once."""
MOST_WAITING_ROWS = 1_048_576
"""The same where folding hardly reduces rows."""
MOST_WAITING_BYTES = 64 << 20
"""The memory of buffered rows from which they are folded, however many they are."""


class Filed:
    """The state of each key and pane, stored under the pane's end."""

    def __init__(self, state: StepState, grouping: Grouping, fold: Fold) -> None:
        self.key = grouping.inside
        self.by = (*grouping.inside, SLOT)
        self.fold = fold
        layout = RunsLayout({**grouping.types, **fold.columns}, grouping.inside, self.merged)
        self.runs = state.runs(WINDOWS, layout)
        self.watchers: list[Callable[[pl.DataFrame], None]] = []
        """Called with each frame of folded rows."""
        self._buffer: list[pl.DataFrame] = []
        self._buffered_rows = self._buffered_bytes = 0
        state.beside[WINDOWS] = lambda: Size(self._buffered_rows, self._buffered_bytes)
        self._flush_rows = SETTLED_ROWS
        """Adapted to the rows; not part of the state."""
        self._first_pane: int | None = None

    @property
    def rows(self) -> int:
        """The approximate number of stored and buffered rows."""
        return self._buffered_rows + self.runs.rows

    def first(self) -> int | None:
        """Return the first pane that has rows."""
        filed = self.runs.first()
        if filed is None or self._first_pane is None:
            return self._first_pane if filed is None else filed
        return min(filed, self._first_pane)

    def add(self, rows: pl.DataFrame, least: int) -> None:
        """Buffer these rows, which have the `group_columns` and those that the fold reads."""
        if self._overdue:
            self.settle()
        self._buffer.append(rows)
        self._buffered_rows += rows.height
        self._buffered_bytes += int(rows.estimated_size())
        self._first_pane = least if self._first_pane is None else min(self._first_pane, least)

    def owed(self, *, asking: bool) -> int:
        """Return on how many earlier rows `add` works; `asking`: `flush` and a lookup of keys."""
        rows = self._buffered_rows if asking or self._overdue else 0
        return rows + self.runs.owed(asking=asking) if rows or asking else 0

    @property
    def _overdue(self) -> bool:
        """Whether the buffer is folded before the next rows are added."""
        return (
            self._buffered_rows >= 2 * self._flush_rows
            or self._buffered_bytes >= 2 * MOST_WAITING_BYTES
        )

    @property
    def many(self) -> bool:
        """Whether the buffer should be folded, preferably when time advances.

        That work is offloaded, however small the last batch was.
        """
        return self._buffered_rows >= self._flush_rows or self._buffered_bytes >= MOST_WAITING_BYTES

    def settle(self, until: int | None = None) -> None:
        """Fold the buffer and write it to the state.

        With `until`, only if the buffer has rows up to that pane.
        """
        if self._first_pane is None or (until is not None and self._first_pane > until):
            return
        waited, folded = (
            self._buffered_rows,
            grouped(together(self._buffer), self.by, self.fold.begin),
        )
        self._buffer, self._buffered_rows, self._buffered_bytes, self._first_pane = [], 0, 0, None
        if folded.height <= waited // 2:
            self._flush_rows = SETTLED_ROWS
        elif waited >= self._flush_rows:
            self._flush_rows = min(2 * self._flush_rows, MOST_WAITING_ROWS)
        self.runs.add(folded)
        for watcher in self.watchers:
            watcher(folded)

    def merged(self, states: pl.DataFrame) -> pl.DataFrame:
        """Merge states into one per key and pane (or window)."""
        merged = grouped(states, self.by, self.fold.merge)
        return projected(merged, *self.by, *self.fold.columns)

    def window(self, states: pl.DataFrame, end: int) -> pl.DataFrame:
        """Merge states into one per key, for a single window."""
        import polars as pl

        slot = pl.lit(end, dtype=pl.Int64).alias(SLOT)
        merged = self.fold.merge(states, self.key)
        return projected(merged, *self.key, slot, *self.fold.columns)
