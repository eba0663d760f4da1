"""The states of the windows that have ended, computed from the states of their panes.

`SinglePaneWindows` is for windows that are panes. `SharedPaneWindows` is for panes that are in
several windows, and computes windows in one of two ways:

- Expanding copies the state of each pane into each of its windows. This is fast where windows hold
  few rows, however many windows there are.
- Merging from window to window (`TwoStackMerger`) is fast where windows hold many rows of few keys.

The sizes of the last windows decide between them.

`TwoStackMerger` is a queue made of two stacks, as is known from sliding minima. The panes of a
window are an older and a newer part. The newer part is one merged state per key, to which panes are
added. For the older part there is the merged state from each pane to the part's end, so that
dropping the oldest pane only means to take the next of these. When the older part is used up, the
newer part takes its place. So a window costs a few merges of one row per key, however many panes it
has. The states of the older part would take as much memory as panes times keys, so they are built
for stretches of panes, and pane by pane only for the stretch with the oldest pane.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from math import isqrt
from typing import TYPE_CHECKING, Protocol

from headrace.core.api.state import SLOT
from headrace.core.operators.windows.due_windows import find_next_end
from headrace.core.operators.windows.grid import Grid
from headrace.core.operators.windows.pane_expander import MergeCost, PaneExpander
from headrace.core.operators.windows.pane_state import PaneState
from headrace.core.types.frames import concat_chunks, count_up_to, select_columns, sort_by_column

if TYPE_CHECKING:
    import polars as pl


MAX_LATE_FRAMES = 16
"""The number of frames of late rows above which these frames are merged."""


class TwoStackMerger:
    """Merges the panes of consecutive windows, reusing the merged states of the window before."""

    def __init__(self, grid: Grid, pane_state: PaneState) -> None:
        self._grid = grid
        self._pane_state = pane_state
        self._older: _SuffixMerges | None = None
        self._newer: pl.DataFrame | None = None
        self._reached = 0
        """The last pane that is in either part."""
        self._late: list[pl.DataFrame] = []
        """States of late rows, for panes that are merged already."""
        pane_state.listeners.append(self._collect_late)

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
        """Return the states of a window, one per key; None if it has no rows.

        Each call must be for a later window than the call before.
        """
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
    """The merged states from each pane of the older part to its last one, which is `last_pane`."""

    def __init__(self, pane_state: PaneState, panes: pl.DataFrame, last: int) -> None:
        self.last_pane = last
        self._pane_state = pane_state
        self._panes = sort_by_column(panes, SLOT)
        self._slots: list[int] = panes[SLOT].unique().sort().to_list()
        self._stretch = isqrt(len(self._slots)) + 1
        self._stretches: dict[int, pl.DataFrame | None] = {}
        """The merged states from each stretch to the last pane, by the index of its first pane."""
        self._single: dict[int, pl.DataFrame | None] = {}
        """The merged states from each pane of the oldest stretch to the end of that stretch."""
        firsts = range(0, len(self._slots), self._stretch)
        suffix: pl.DataFrame | None = None
        for at in reversed(firsts[1:]):
            suffix = _merge_states(pane_state, [self._slice_rows(at, at + self._stretch), suffix])
            self._stretches[at] = suffix

    def merge_after(self, start: int) -> tuple[pl.DataFrame | None, ...]:
        """Return partial states that together cover the panes after a time.

        The time must not decrease from call to call.
        """
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


def _merge_states(
    pane_state: PaneState, parts: Sequence[pl.DataFrame | None]
) -> pl.DataFrame | None:
    """Merge states into one per key; None if there are none."""
    columns = (*pane_state.key, *pane_state.fold.state_columns)
    there = [part.select(columns) for part in parts if part is not None and part.height]
    if not there:
        return None
    return select_columns(pane_state.fold.merge(concat_chunks(there), pane_state.key), *columns)


class EndedWindows(Protocol):
    """The windows that end as time advances."""

    def find_ended(self, after: int, until: int) -> Iterator[pl.DataFrame]:
        """Return the states of the windows that end after the first time and up to the second."""
        ...

    def clear(self) -> None:
        """Discard merged states, because the pane state was cleared."""
        ...


class SinglePaneWindows:
    """Windows of one pane each; `keep` retains ended windows for late rows."""

    def __init__(self, pane_state: PaneState, *, keep: bool) -> None:
        self._pane_state = pane_state
        self._keeps_ended = keep

    def find_ended(self, after: int, until: int) -> Iterator[pl.DataFrame]:
        """Return the states of the windows that end."""
        self._pane_state.flush(until)
        runs = self._pane_state.runs
        due = runs.read(after, until) if self._keeps_ended else runs.take(until)
        if due is not None:
            yield due

    def clear(self) -> None:
        """Do nothing: there are no merged states."""


class SharedPaneWindows:
    """Windows of several panes, which they share.

    Nothing here is part of a checkpoint: merged states are rebuilt from the pane state, and the
    cost affects speed, not results.
    """

    def __init__(self, grid: Grid, pane_state: PaneState, expander: PaneExpander) -> None:
        self._grid = grid
        self._pane_state = pane_state
        self._expander = expander
        self._merger: TwoStackMerger | None = None
        self._cost = MergeCost()

    def find_ended(self, after: int, until: int) -> Iterator[pl.DataFrame]:
        """Return the states of the windows that end, oldest first."""
        self._pane_state.flush(until)
        while True:
            dense = self._cost.is_dense
            found = self._merge_trailing if dense else self._expand_panes
            for states in found(after, until):
                yield states
                after = int(states[SLOT].max())  # type: ignore[arg-type]
                if self._cost.is_dense != dense:
                    break
            if self._cost.is_dense == dense:
                return

    def clear(self) -> None:
        """Discard the merged states."""
        if self._merger is not None:
            self._merger.close()
        self._merger = None

    def _expand_panes(self, after: int, until: int) -> Iterator[pl.DataFrame]:
        self.clear()
        first = self._pane_state.runs.get_first_slot()
        if first is None:
            return
        begin = find_next_end(self._grid, after, first)
        if begin > until:
            return
        alone = begin + self._grid.every_us > until
        panes = self._pane_state.runs.read(
            self._grid.window_start(begin), begin if alone else until
        )
        if panes is not None and alone:
            states = self._pane_state.merge_window(panes, begin)
            self._cost.record(1, panes.height, states.height)
            yield states
        elif panes is not None:
            yield from self._expander.expand_windows(panes, after, until, self._cost)

    def _merge_trailing(self, after: int, until: int) -> Iterator[pl.DataFrame]:
        self._merger = self._merger or TwoStackMerger(self._grid, self._pane_state)
        end = self._grid.first_window_end(after + 1)
        while end <= until:
            states = self._merger.merge_window(end)
            if states is None:  # time has jumped: restart without a known cost
                self._cost = MergeCost()
                return
            self._cost.record(1, self._pane_state.runs.rows, states.height)
            yield states
            end += self._grid.every_us
