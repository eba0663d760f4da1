"""The grid of time windows: panes, by which rows are stored, and windows, made of panes.

A pane is a stretch of time that no window boundary cuts, so a row is stored once however many
windows contain it. Panes and windows are named by their ends (microseconds); both lie in a grid
from the epoch moved by the offset. The same arithmetic works on numbers and on columns. Times range
from year 1 to 9999, lengths up to a million days: nothing overflows.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Protocol, TypeVar

from headrace.core.plan.nodes.windows import Cumulate, Slide, Tumble, WindowShape
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T", int, "pl.Expr")


class Grid(Protocol):
    """The panes and windows of a window shape."""

    @property
    def every_us(self) -> int:
        """The distance between the ends of consecutive windows."""
        ...

    @property
    def is_one_to_one(self) -> bool:
        """Whether each window is one pane, and each pane is in one window."""
        ...

    @property
    def has_gaps(self) -> bool:
        """Whether some panes are in no window: their `last_window_end` is before their end."""
        ...

    def pane_end(self, time: T) -> T:
        """Return the end of the pane that contains a time."""
        ...

    def first_window_end(self, time: T) -> T:
        """Return the end of the first window that ends at this time or later.

        For a pane, that is the first window containing it; the next ones end every `every_us`.
        """
        ...

    def last_window_end(self, pane: T) -> T:
        """Return the end of the last window that contains a pane."""
        ...

    def window_start(self, end: T) -> T:
        """Return the start of a window: the end of the last pane before it."""
        ...


@dataclass(frozen=True, slots=True)
class SlidingGrid:
    """Windows of one size at a fixed distance: adjacent, overlapping or with gaps."""

    size_us: int
    every_us: int
    offset_us: int = 0

    @property
    def pane_us(self) -> int:
        """The length of a pane."""
        return gcd(self.size_us, self.every_us)

    @property
    def is_one_to_one(self) -> bool:
        """Whether windows neither overlap nor have more than one pane."""
        return self.size_us == self.every_us

    @property
    def has_gaps(self) -> bool:
        """Whether there is time between windows."""
        return self.every_us > self.size_us

    def pane_end(self, time: T) -> T:
        """Return the end of the pane that contains a time."""
        return _align_up(time, self.pane_us, self.offset_us)

    def first_window_end(self, time: T) -> T:
        """Return the end of the first window that ends at this time or later."""
        return _align_up(time - 1, self.every_us, self.offset_us + self.size_us)

    def last_window_end(self, pane: T) -> T:
        """Return the end of the last window that contains a pane."""
        next_start = _align_up(pane - self.pane_us, self.every_us, self.offset_us)
        return next_start + (self.size_us - self.every_us)

    def window_start(self, end: T) -> T:
        """Return the start of a window."""
        return end - self.size_us


@dataclass(frozen=True, slots=True)
class CumulatingGrid:
    """Windows with a common start, each a pane longer than the one before, up to the size."""

    size_us: int
    every_us: int
    offset_us: int = 0

    is_one_to_one = False
    has_gaps = False

    def pane_end(self, time: T) -> T:
        """Return the end of the pane that contains a time."""
        return _align_up(time, self.every_us, self.offset_us)

    def first_window_end(self, time: T) -> T:
        """Return the end of the first window that ends at this time or later."""
        return _align_up(time - 1, self.every_us, self.offset_us)

    def last_window_end(self, pane: T) -> T:
        """Return the end of the longest window that contains a pane."""
        return _align_up(pane - self.every_us, self.size_us, self.offset_us)

    def window_start(self, end: T) -> T:
        """Return the start of a window."""
        return self.last_window_end(end) - self.size_us


@dataclass(frozen=True, slots=True)
class GlobalGrid:
    """One window, and one pane, for all time."""

    every_us = MAX_WATERMARK_US
    is_one_to_one = True
    has_gaps = False

    def pane_end(self, time: T) -> T:
        """Return the end of time."""
        return time * 0 + MAX_WATERMARK_US

    def first_window_end(self, time: T) -> T:
        """Return the end of time."""
        return time * 0 + MAX_WATERMARK_US

    def last_window_end(self, pane: T) -> T:
        """Return the pane, which is the window."""
        return pane

    def window_start(self, end: T) -> T:
        """Return the start of time."""
        return end * 0 - MAX_WATERMARK_US


@dataclass(frozen=True, slots=True)
class SeparateGrid:
    """The windows of another grid, each with its own copy of its rows: it is its own pane."""

    grid: Grid

    is_one_to_one = True
    has_gaps = False

    @property
    def every_us(self) -> int:
        """The distance between the ends of consecutive windows."""
        return self.grid.every_us

    def pane_end(self, time: T) -> T:
        """Fail: a time is in many panes."""
        raise NotImplementedError

    def first_window_end(self, time: T) -> T:
        """Return the end of the first window that ends at this time or later."""
        return self.grid.first_window_end(time)

    def last_window_end(self, pane: T) -> T:
        """Return the pane, which is the window."""
        return pane

    def window_start(self, end: T) -> T:
        """Return the end of the window before."""
        return end - self.every_us


def build_grid(shape: WindowShape) -> Grid:
    """Build the grid of a shape of time windows."""
    match shape:
        case Tumble(size_us, offset_us):
            return SlidingGrid(size_us, size_us, offset_us)
        case Slide(size_us, every_us, offset_us):
            return SlidingGrid(size_us, every_us, offset_us)
        case Cumulate(size_us, every_us, offset_us):
            return CumulatingGrid(size_us, every_us, offset_us)
    return GlobalGrid()


def _align_up(time: T, length_us: int, offset_us: int) -> T:
    """Return the end of the stretch of this length that contains a time.

    `%` has the sign of the length.
    """
    return time - (time - offset_us % length_us) % length_us + length_us
