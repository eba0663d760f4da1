"""The windows that have ended, and their states: of windows that are panes, and of shared panes.

Where a pane is in many windows there are two ways. Expanding copies each state into each of its
windows: good where windows hold few rows, however many windows there are. Trailing keeps merged
states from window to window: good where windows hold many rows of few keys. The sizes of the last
windows decide between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from headrace.core.operators.windows.filing import PaneState
from headrace.core.operators.windows.grid import Grid
from headrace.core.operators.windows.spread import MergeCost, PaneExpander
from headrace.core.operators.windows.trailing import TwoStackMerger
from headrace.core.state import SLOT

if TYPE_CHECKING:
    import polars as pl


class EndedWindows(Protocol):
    """The windows that end as time advances."""

    def find_ended(self, after: int, until: int) -> Iterator[pl.DataFrame]:
        """Return the states of the windows that end after the first time and up to the second."""
        ...

    def clear(self) -> None:
        """Forget merged states: the pane state was cleared."""
        ...


class SinglePaneWindows:
    """Windows of one pane each; `keep` retains ended windows for late rows."""

    def __init__(self, filed: PaneState, *, keep: bool) -> None:
        self._pane_state = filed
        self._keeps_ended = keep

    def find_ended(self, after: int, until: int) -> Iterator[pl.DataFrame]:
        """Return the states of the windows that end."""
        self._pane_state.flush(until)
        runs = self._pane_state.runs
        due = runs.read(after, until) if self._keeps_ended else runs.take(until)
        if due is not None:
            yield due

    def clear(self) -> None:
        """Do nothing: only the pane state is kept."""


class SharedPaneWindows:
    """Windows of several panes, which they share.

    The attributes are not state: merged states are rebuilt from the pane state, and the cost
    decides about speed, not about results.
    """

    def __init__(self, grid: Grid, filed: PaneState, spread: PaneExpander) -> None:
        self._grid = grid
        self._pane_state = filed
        self._expander = spread
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
        """Forget the states that were merged from window to window."""
        if self._merger is not None:
            self._merger.close()
        self._merger = None

    def _expand_panes(self, after: int, until: int) -> Iterator[pl.DataFrame]:
        self.clear()
        first = self._pane_state.runs.get_first_slot()
        if first is None:
            return
        begin = max(self._grid.first_window_end(after + 1), self._grid.first_window_end(first))
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
