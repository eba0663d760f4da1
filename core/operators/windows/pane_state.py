"""The state of windows by key and pane, with a buffer of rows that are not folded yet.

Key and pane are packed into one number, because Polars groups by one integer column at half the
cost of two. That is done for many rows whose key is one integer column without nulls, if all pairs
fit into the number: the pane's distance from the first one times the span of the keys, plus the
key's distance from the smallest key.

Folding a few rows costs as much as folding thousands, so rows are buffered until a window fires or
many have gathered. Where folding hardly reduces rows, because nearly each has its own key, the
buffer grows, so that rows are folded once. Buffered rows belong to the state: `flush` writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.state import SLOT, RunsLayout, StepState
from headrace.core.api.state_sizes import StateSize
from headrace.core.operators.folds import Fold
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.types.frames import concat_chunks, select_columns

if TYPE_CHECKING:
    import polars as pl


FrameGrouping: TypeAlias = "Callable[[pl.DataFrame, Sequence[str]], pl.DataFrame]"
"""A function that groups rows by columns."""


PACKED_KEY = "__packed"


MIN_PACKED_ROWS = 32_768
"""The number of rows from which packing pays."""


MAX_PACKED = 1 << 62


def group_packed(frame: pl.DataFrame, by: Sequence[str], step: FrameGrouping) -> pl.DataFrame:
    """Apply a function to the rows grouped by key and pane; `by` is the key followed by SLOT."""
    import polars as pl

    if frame.height < MIN_PACKED_ROWS or len(by) != 2 or not frame.schema[by[0]].is_integer():
        return step(frame, by)
    key, type = pl.col(by[0]).cast(pl.Int64), frame.schema[by[0]]
    low, high, first, last, nulls = frame.select(
        key.min().alias("low"),
        key.max().alias("high"),
        pl.col(SLOT).min(),
        pl.col(SLOT).max().alias("last"),
        key.null_count().alias("nulls"),
    ).row(0)
    if nulls or (high - low + 1) * (last - first + 1) >= MAX_PACKED:
        return step(frame, by)
    span = high - low + 1
    number = (key - low) if first == last else (pl.col(SLOT) - first) * span + (key - low)
    states = step(frame.with_columns(number.alias(PACKED_KEY)), (PACKED_KEY,))
    packed = pl.col(PACKED_KEY)
    if first == last:
        restored = (packed + low, pl.lit(first, dtype=pl.Int64))
    else:
        restored = (packed % span + low, packed // span + first)
    columns = states.columns[1:]
    return states.select(restored[0].cast(type).alias(by[0]), restored[1].alias(SLOT), *columns)


WINDOWS_STATE = "windows"
"""The name of the runs in the state."""


FLUSH_ROWS = 131_072
"""The number of buffered rows that are folded at once."""


MAX_BUFFERED_ROWS = 1_048_576
"""The same where folding hardly reduces rows."""


MAX_BUFFERED_BYTES = 64 << 20
"""The memory of buffered rows from which they are folded, however many they are."""


class PaneState:
    """The state of each key and pane, stored under the pane's end."""

    def __init__(self, state: StepState, grouping: GroupingKey, fold: Fold) -> None:
        self.key = grouping.internal_names
        self.group_columns = (*grouping.internal_names, SLOT)
        self.fold = fold
        layout = RunsLayout(
            {**grouping.types, **fold.state_columns}, grouping.internal_names, self.merge_panes
        )
        self.runs = state.open_runs(WINDOWS_STATE, layout)
        self.listeners: list[Callable[[pl.DataFrame], None]] = []
        """Called with each frame of folded rows."""
        self._buffer: list[pl.DataFrame] = []
        self._buffered_rows = self._buffered_bytes = 0
        state.buffered_sizes[WINDOWS_STATE] = lambda: StateSize(
            self._buffered_rows, self._buffered_bytes
        )
        self._flush_rows = FLUSH_ROWS
        """Adapted to the rows; not part of the state."""
        self._first_pane: int | None = None

    @property
    def row_count(self) -> int:
        """The approximate number of stored and buffered rows."""
        return self._buffered_rows + self.runs.rows

    def find_first_pane(self) -> int | None:
        """Return the first pane that has rows."""
        first_slot = self.runs.get_first_slot()
        if first_slot is None or self._first_pane is None:
            return self._first_pane if first_slot is None else first_slot
        return min(first_slot, self._first_pane)

    def add(self, rows: pl.DataFrame, least: int) -> None:
        """Buffer these rows, which have the `group_columns` and those that the fold reads."""
        if self._is_overfull:
            self.flush()
        self._buffer.append(rows)
        self._buffered_rows += rows.height
        self._buffered_bytes += int(rows.estimated_size())
        self._first_pane = least if self._first_pane is None else min(self._first_pane, least)

    def count_deferred_rows(self, *, for_lookup: bool) -> int:
        """Return on how many earlier rows `add` works, or, `for_lookup`, `flush` and a lookup."""
        rows = self._buffered_rows if for_lookup or self._is_overfull else 0
        return (
            rows + self.runs.estimate_deferred_rows(for_lookup=for_lookup)
            if rows or for_lookup
            else 0
        )

    @property
    def _is_overfull(self) -> bool:
        """Whether the buffer is folded before the next rows are added."""
        return (
            self._buffered_rows >= 2 * self._flush_rows
            or self._buffered_bytes >= 2 * MAX_BUFFERED_BYTES
        )

    @property
    def should_flush(self) -> bool:
        """Whether the buffer should be folded, preferably when time advances.

        That work is offloaded, however small the last batch was.
        """
        return self._buffered_rows >= self._flush_rows or self._buffered_bytes >= MAX_BUFFERED_BYTES

    def flush(self, until: int | None = None) -> None:
        """Fold the buffer and write it to the state.

        With `until`, only if the buffer has rows up to that pane.
        """
        if self._first_pane is None or (until is not None and self._first_pane > until):
            return
        waited, folded = (
            self._buffered_rows,
            group_packed(concat_chunks(self._buffer), self.group_columns, self.fold.begin),
        )
        self._buffer, self._buffered_rows, self._buffered_bytes, self._first_pane = [], 0, 0, None
        if folded.height <= waited // 2:
            self._flush_rows = FLUSH_ROWS
        elif waited >= self._flush_rows:
            self._flush_rows = min(2 * self._flush_rows, MAX_BUFFERED_ROWS)
        self.runs.add(folded)
        for watcher in self.listeners:
            watcher(folded)

    def merge_panes(self, states: pl.DataFrame) -> pl.DataFrame:
        """Merge states into one per key and pane (or window)."""
        merged = group_packed(states, self.group_columns, self.fold.merge)
        return select_columns(merged, *self.group_columns, *self.fold.state_columns)

    def merge_window(self, states: pl.DataFrame, end: int) -> pl.DataFrame:
        """Merge states into one per key, for a single window."""
        import polars as pl

        slot = pl.lit(end, dtype=pl.Int64).alias(SLOT)
        merged = self.fold.merge(states, self.key)
        return select_columns(merged, *self.key, slot, *self.fold.state_columns)
