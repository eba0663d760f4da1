"""The windows that are due when a clock advances, when late rows arrive, or when a trigger fires.

The functions here decide by numbers alone: the ends of windows, the end of the first pane with
rows, and the clock before and after.
"""

from __future__ import annotations

from enum import Enum

from headrace.core.operators.windows.grid import Grid
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass


class FiringRows(Enum):
    """The rows of which the results of due windows are."""

    ALL = "all"
    """Every window in the range is emitted, with its stored rows."""
    CHANGED = "changed"
    """Only windows with new rows are emitted, with all their rows."""
    NEW = "new"
    """Only windows with new rows are emitted, with these rows alone."""


@dataclass(frozen=True, slots=True)
class DueWindows:
    """The windows to emit that end after the first time and up to the second."""

    after_us: int
    until_us: int
    rows: FiringRows


def find_next_end(grid: Grid, after_us: int, first_pane: int) -> int:
    """Return the end of the first window that ends after a time and contains a pane with rows."""
    return max(grid.first_window_end(after_us + 1), grid.first_window_end(first_pane))


def find_due_windows(
    grid: Grid, first_pane: int, before_us: int, now_us: int, *, fires: bool, keeps_rows: bool
) -> list[DueWindows]:
    """Return what is due as the clock advances: windows that end, then those that fire early.

    `fires`: whether a periodic trigger fires at the new time.
    """
    due = []
    if find_next_end(grid, before_us, first_pane) <= now_us:
        due.append(DueWindows(before_us, now_us, FiringRows.ALL))
    return [*due, find_early_windows(now_us, keeps_rows=keeps_rows)] if fires else due


def find_early_windows(now_us: int, *, keeps_rows: bool) -> DueWindows:
    """Return what is due when a trigger fires: windows that have not ended."""
    return DueWindows(now_us, MAX_WATERMARK_US, _choose_rows(keeps_rows))


def find_late_windows(
    grid: Grid, first_pane: int, closed_us: int, now_us: int, *, keeps_rows: bool
) -> DueWindows | None:
    """Return what is due as rows arrive: windows that have ended, but still take rows."""
    if closed_us == now_us or grid.first_window_end(first_pane) > now_us:
        return None
    return DueWindows(closed_us, now_us, _choose_rows(keeps_rows))


def _choose_rows(keeps_rows: bool) -> FiringRows:
    return FiringRows.CHANGED if keeps_rows else FiringRows.NEW
