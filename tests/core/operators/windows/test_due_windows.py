"""The windows that are due between two clocks, with literal times."""

from __future__ import annotations

import pytest

from headrace.core.operators.windows.due_windows import (
    DueWindows,
    FiringRows,
    find_due_windows,
    find_early_windows,
    find_late_windows,
    find_next_end,
)
from headrace.core.operators.windows.grid import Grid, SlidingGrid, build_grid
from headrace.core.plan.nodes.windows import Cumulate, Global
from headrace.core.types.elements import MAX_WATERMARK_US, MIN_WATERMARK_US

TEN = SlidingGrid(10, 10)
TEN_EVERY_FIVE = SlidingGrid(10, 5)
EVERYTHING = build_grid(Global())


@pytest.mark.parametrize(
    ("grid", "after", "first_pane", "end"),
    [
        (TEN, MIN_WATERMARK_US, 10, 10),
        (TEN, 9, 10, 10),
        (TEN, 10, 10, 20),
        (TEN, 3, 40, 40),
        (TEN_EVERY_FIVE, 0, 20, 20),
        (TEN_EVERY_FIVE, 20, 20, 25),
        (build_grid(Cumulate(6, 2)), 2, 2, 4),
        (EVERYTHING, 7, MAX_WATERMARK_US, MAX_WATERMARK_US),
    ],
)
def test_next_end_is_after_the_clock_and_not_before_the_rows(
    grid: Grid, after: int, first_pane: int, end: int
) -> None:
    assert find_next_end(grid, after, first_pane) == end


def due(
    grid: Grid, first_pane: int, before_us: int, now_us: int, *, fires: bool = False
) -> list[DueWindows]:
    return find_due_windows(grid, first_pane, before_us, now_us, fires=fires, keeps_rows=True)


def test_a_window_is_due_when_the_clock_reaches_its_end() -> None:
    assert due(TEN, 10, 0, 9) == []
    assert due(TEN, 10, 9, 10) == [DueWindows(9, 10, FiringRows.ALL)]
    assert due(TEN, 10, 10, 19) == []


def test_windows_before_the_first_rows_are_not_due() -> None:
    assert due(TEN, 40, 0, 39) == []
    assert due(TEN, 40, 0, 40) == [DueWindows(0, 40, FiringRows.ALL)]


def test_windows_without_bounds_are_due_at_the_end() -> None:
    assert due(EVERYTHING, MAX_WATERMARK_US, 0, 1000) == []
    assert due(EVERYTHING, MAX_WATERMARK_US, 1000, MAX_WATERMARK_US) == [
        DueWindows(1000, MAX_WATERMARK_US, FiringRows.ALL)
    ]


def test_ended_windows_are_due_before_early_ones() -> None:
    assert due(TEN, 10, 8, 12, fires=True) == [
        DueWindows(8, 12, FiringRows.ALL),
        DueWindows(12, MAX_WATERMARK_US, FiringRows.CHANGED),
    ]
    assert due(TEN, 10, 2, 4, fires=True) == [find_early_windows(4, keeps_rows=True)]


def test_windows_that_discard_rows_fire_with_the_new_ones() -> None:
    early = find_early_windows(4, keeps_rows=False)
    assert early == DueWindows(4, MAX_WATERMARK_US, FiringRows.NEW)
    late = find_late_windows(TEN, 10, 7, 12, keeps_rows=False)
    assert late == DueWindows(7, 12, FiringRows.NEW)


@pytest.mark.parametrize(
    ("grid", "first_pane", "closed", "now", "is_late"),
    [
        (TEN, 20, 7, 12, False),  # the window ends at 20
        (TEN, 10, 7, 12, True),
        (TEN, 10, 9, 10, True),
        (TEN_EVERY_FIVE, 15, 12, 17, True),  # of 15 and 20, one has ended
        (TEN_EVERY_FIVE, 15, 17, 17, False),  # without lateness, ended windows take no rows
        (TEN, 10, MIN_WATERMARK_US, MIN_WATERMARK_US, False),
    ],
)
def test_rows_change_ended_windows_that_are_not_closed(
    grid: Grid, first_pane: int, closed: int, now: int, is_late: bool
) -> None:
    found = find_late_windows(grid, first_pane, closed, now, keeps_rows=True)
    assert found == (DueWindows(closed, now, FiringRows.CHANGED) if is_late else None)
