"""Windows that share panes, merged from window to window instead of each from all its panes.

Two stacks make a queue, as is known from sliding minima. The panes of a window are an older and a
newer part. The newer part is one merged state per key, to which panes are added as they come. For
the older part there is the merged state from each pane to its end, so that the oldest pane is
dropped by taking the next of these. When the older part is used up, the newer one takes its place.
So a window costs a few merges of one row per key, however many panes it has.

The states of the older part would take as much memory as panes times keys, so they are built for
stretches of panes, and pane by pane only for the stretch that contains the oldest pane.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import isqrt
from typing import TYPE_CHECKING

from headrace.core.frames import concat_chunks, count_up_to, select_columns, sort_by_column
from headrace.core.operators.windows.filing import PaneState
from headrace.core.operators.windows.grid import Grid
from headrace.core.state import SLOT

if TYPE_CHECKING:
    import polars as pl

MAX_LATE_FRAMES = 16
"""The number of frames of late rows that are kept unmerged."""


class TwoStackMerger:
    """The windows of a grid, one after the other."""

    def __init__(self, grid: Grid, filed: PaneState) -> None:
        self._grid = grid
        self._pane_state = filed
        self._older: _SuffixMerges | None = None
        self._newer: pl.DataFrame | None = None
        self._reached = 0
        """The last pane that is in either part."""
        self._late: list[pl.DataFrame] = []
        """Rows that were folded since under panes merged before."""
        filed.listeners.append(self._collect_late)

    def close(self) -> None:
        """Stop listening to the pane state."""
        self._pane_state.listeners.remove(self._collect_late)

    def _collect_late(self, folded: pl.DataFrame) -> None:
        import polars as pl

        if self._older is None:
            return
        late = folded.filter(pl.col(SLOT) <= self._reached)
        if late.height:
            self._late.append(late)
        if len(self._late) > MAX_LATE_FRAMES:
            self._late = [self._pane_state.merge_panes(concat_chunks(self._late))]

    def merge_window(self, end: int) -> pl.DataFrame | None:
        """Return the states of a window that ends after the one before; None without rows."""
        import polars as pl

        start = self._grid.window_start(end)
        if self._older is None or start >= self._older.last_pane:
            panes = self._pane_state.runs.read(start, end)
            if panes is None:
                return None
            self._older = _SuffixMerges(self._pane_state, panes, end)
            self._newer, self._late = None, []
        elif (panes := self._pane_state.runs.read(self._reached, end)) is not None:
            self._newer = _merge_states(self._pane_state, [panes, self._newer])
        self._reached = end
        late = (each.filter(pl.col(SLOT) > start) for each in self._late)
        states = _merge_states(
            self._pane_state, [*self._older.merge_after(start), self._newer, *late]
        )
        if states is None:
            return None
        slot = pl.lit(end, dtype=pl.Int64).alias(SLOT)
        return select_columns(
            states, *self._pane_state.key, slot, *self._pane_state.fold.state_columns
        )


class _SuffixMerges:
    """The merged states from each pane to the last one."""

    def __init__(self, filed: PaneState, panes: pl.DataFrame, last: int) -> None:
        self.last_pane = last
        self._pane_state = filed
        self._panes = sort_by_column(panes, SLOT)
        self._slots: list[int] = panes[SLOT].unique().sort().to_list()
        self._stretch = isqrt(len(self._slots)) + 1
        self._stretches: dict[int, pl.DataFrame | None] = {}
        """From the first pane of each stretch."""
        self._single: dict[int, pl.DataFrame | None] = {}
        """From each pane of the oldest stretch to the end of the stretch."""
        firsts = range(0, len(self._slots), self._stretch)
        suffix: pl.DataFrame | None = None
        for at in reversed(firsts[1:]):
            suffix = _merge_states(filed, [self._slice_rows(at, at + self._stretch), suffix])
            self._stretches[at] = suffix

    def merge_after(self, start: int) -> tuple[pl.DataFrame | None, ...]:
        """Return parts that together are the states of the panes after an increasing time."""
        at = bisect_right(self._slots, start)
        if at == len(self._slots):
            return ()
        begin = at - at % self._stretch
        following = begin + self._stretch
        if at not in self._single:
            self._stretches.pop(begin, None)
            self._single = {}
            suffix: pl.DataFrame | None = None
            for pane in reversed(range(at, min(following, len(self._slots)))):
                suffix = _merge_states(self._pane_state, [self._slice_rows(pane, pane + 1), suffix])
                self._single[pane] = suffix
        return self._single[at], self._stretches.get(following)

    def _slice_rows(self, first: int, end: int) -> pl.DataFrame:
        slots, panes = self._slots, self._panes[SLOT]
        begin = count_up_to(panes, slots[first - 1]) if first else 0
        until = count_up_to(panes, slots[min(end, len(slots)) - 1])
        return self._panes.slice(begin, until - begin)


def _merge_states(filed: PaneState, parts: Sequence[pl.DataFrame | None]) -> pl.DataFrame | None:
    """Merge states into one per key."""
    columns = (*filed.key, *filed.fold.state_columns)
    there = [part.select(columns) for part in parts if part is not None and part.height]
    if not there:
        return None
    return select_columns(filed.fold.merge(concat_chunks(there), filed.key), *columns)
