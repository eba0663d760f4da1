"""Rows on their way into state: kept as they came until there are many, then folded and filed.

Folding a few rows costs as much as folding thousands, so rows wait until a window fires or many
have gathered. Where folding leaves most rows as they are, because nearly each has a key of its own,
the next ones wait for longer: they had better be folded once. What waits belongs to the state like
what is filed: `settle` files it.
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
"""What the runs are called in the state."""

SETTLED_ROWS = 131_072
"""So many waiting rows are folded at once,"""
MOST_WAITING_ROWS = 1_048_576
"""or so many where that hardly makes them fewer,"""
MOST_WAITING_BYTES = 64 << 20
"""unless they take that much room."""


class Filed:
    """What is kept of the rows of each key and pane, filed under the pane's end."""

    def __init__(self, state: StepState, grouping: Grouping, fold: Fold) -> None:
        self.key = grouping.inside
        self.by = (*grouping.inside, SLOT)
        self.fold = fold
        layout = RunsLayout({**grouping.types, **fold.columns}, grouping.inside, self.merged)
        self.runs = state.runs(WINDOWS, layout)
        self.watchers: list[Callable[[pl.DataFrame], None]] = []
        """Called with what is filed."""
        self._waiting: list[pl.DataFrame] = []
        self._waits = self._bytes = 0
        state.beside[WINDOWS] = lambda: Size(self._waits, self._bytes)
        self._enough = SETTLED_ROWS
        """Learnt of the rows, and after a restart again."""
        self._least: int | None = None

    @property
    def rows(self) -> int:
        """About how many rows are kept."""
        return self._waits + self.runs.rows

    def first(self) -> int | None:
        """The first pane of which something is kept."""
        filed = self.runs.first()
        if filed is None or self._least is None:
            return self._least if filed is None else filed
        return min(filed, self._least)

    def add(self, rows: pl.DataFrame, least: int) -> None:
        """Keep these rows, which have the columns `by` and those that the fold reads."""
        if self._overdue:
            self.settle()
        self._waiting.append(rows)
        self._waits += rows.height
        self._bytes += int(rows.estimated_size())
        self._least = least if self._least is None else min(self._least, least)

    def owed(self, *, asking: bool) -> int:
        """On how many rows `add` works that had come before, or `settle` and asking for keys."""
        rows = self._waits if asking or self._overdue else 0
        return rows + self.runs.owed(asking=asking) if rows or asking else 0

    @property
    def _overdue(self) -> bool:
        """Whether the next rows do not wait with these."""
        return self._waits >= 2 * self._enough or self._bytes >= 2 * MOST_WAITING_BYTES

    @property
    def many(self) -> bool:
        """Whether so much waits that it should be folded, at best when time goes on.

        That is done in a thread, however few rows have come last.
        """
        return self._waits >= self._enough or self._bytes >= MOST_WAITING_BYTES

    def settle(self, until: int | None = None) -> None:
        """Fold and file what waits; with `until`, if something up to that pane waits."""
        if self._least is None or (until is not None and self._least > until):
            return
        waited, folded = self._waits, grouped(together(self._waiting), self.by, self.fold.begin)
        self._waiting, self._waits, self._bytes, self._least = [], 0, 0, None
        if folded.height <= waited // 2:
            self._enough = SETTLED_ROWS
        elif waited >= self._enough:
            self._enough = min(2 * self._enough, MOST_WAITING_ROWS)
        self.runs.add(folded)
        for watcher in self.watchers:
            watcher(folded)

    def merged(self, states: pl.DataFrame) -> pl.DataFrame:
        """One state a key and pane (or window)."""
        merged = grouped(states, self.by, self.fold.merge)
        return projected(merged, *self.by, *self.fold.columns)

    def window(self, states: pl.DataFrame, end: int) -> pl.DataFrame:
        """One state a key, of a single window."""
        import polars as pl

        slot = pl.lit(end, dtype=pl.Int64).alias(SLOT)
        merged = self.fold.merge(states, self.key)
        return projected(merged, *self.key, slot, *self.fold.columns)
