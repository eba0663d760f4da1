"""Where windows of time stand: panes, into which rows are filed, and windows, made of panes.

A pane is a stretch of time that no window cuts, so that a row is filed once however many windows it
is in. Panes and windows are named by their ends (microseconds); both stand in a grid from the epoch
moved by the offset. The same arithmetic is done on numbers and on columns. Times reach from year 1
to 9999, lengths to a million days: nothing overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Protocol, TypeVar

from headrace.core.elements import FOREVER_US
from headrace.core.plan.windows import Cumulate, Shape, Slide, Tumble

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T", int, "pl.Expr")


class Grid(Protocol):
    """The panes and windows of a shape."""

    @property
    def every_us(self) -> int:
        """How far apart the ends of windows are."""
        ...

    @property
    def one_to_one(self) -> bool:
        """Whether a window is one pane, and a pane in one window."""
        ...

    @property
    def gaps(self) -> bool:
        """Whether there are panes that are in no window: their `last` is before their end."""
        ...

    def pane(self, time: T) -> T:
        """The end of the pane that a time is in."""
        ...

    def first(self, time: T) -> T:
        """The end of the first window that ends at this time or later.

        Of a pane, the first window that it is in; the next ones end every `every_us`.
        """
        ...

    def last(self, pane: T) -> T:
        """The end of the last window that a pane is in."""
        ...

    def start(self, end: T) -> T:
        """The start of a window: the end of the last pane before it."""
        ...


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of a size, one beginning every so often: beside each other, overlapping or apart."""

    size_us: int
    every_us: int
    offset_us: int = 0

    @property
    def pane_us(self) -> int:
        """The length of a pane."""
        return gcd(self.size_us, self.every_us)

    @property
    def one_to_one(self) -> bool:
        """Whether windows neither overlap nor have more than one pane."""
        return self.size_us == self.every_us

    @property
    def gaps(self) -> bool:
        """Whether there is time between windows."""
        return self.every_us > self.size_us

    def pane(self, time: T) -> T:
        """The end of the pane that a time is in."""
        return _behind(time, self.pane_us, self.offset_us)

    def first(self, time: T) -> T:
        """The end of the first window that ends at this time or later."""
        return _behind(time - 1, self.every_us, self.offset_us + self.size_us)

    def last(self, pane: T) -> T:
        """The end of the last window that a pane is in."""
        next_start = _behind(pane - self.pane_us, self.every_us, self.offset_us)
        return next_start + (self.size_us - self.every_us)

    def start(self, end: T) -> T:
        """The start of a window."""
        return end - self.size_us


@dataclass(frozen=True, slots=True)
class Cumulating:
    """Windows that begin together, each a pane longer than the one before, up to the size."""

    size_us: int
    every_us: int
    offset_us: int = 0

    one_to_one = False
    gaps = False

    def pane(self, time: T) -> T:
        """The end of the pane that a time is in."""
        return _behind(time, self.every_us, self.offset_us)

    def first(self, time: T) -> T:
        """The end of the first window that ends at this time or later."""
        return _behind(time - 1, self.every_us, self.offset_us)

    def last(self, pane: T) -> T:
        """The end of the longest window that a pane is in."""
        return _behind(pane - self.every_us, self.size_us, self.offset_us)

    def start(self, end: T) -> T:
        """The start of a window."""
        return self.last(end) - self.size_us


@dataclass(frozen=True, slots=True)
class Everything:
    """One window, and one pane, for all time."""

    every_us = FOREVER_US
    one_to_one = True
    gaps = False

    def pane(self, time: T) -> T:
        """All there is."""
        return time * 0 + FOREVER_US

    def first(self, time: T) -> T:
        """All there is."""
        return time * 0 + FOREVER_US

    def last(self, pane: T) -> T:
        """All there is."""
        return pane

    def start(self, end: T) -> T:
        """Nothing is before it."""
        return end * 0 - FOREVER_US


@dataclass(frozen=True, slots=True)
class Apart:
    """The windows of another grid, each of which has its rows for itself: it is its own pane."""

    windows: Grid

    one_to_one = True
    gaps = False

    @property
    def every_us(self) -> int:
        """How far apart the ends of windows are."""
        return self.windows.every_us

    def pane(self, time: T) -> T:
        """A time is in many."""
        raise NotImplementedError

    def first(self, time: T) -> T:
        """The end of the first window that ends at this time or later."""
        return self.windows.first(time)

    def last(self, pane: T) -> T:
        """It is its own pane."""
        return pane

    def start(self, end: T) -> T:
        """The end of the window before."""
        return end - self.every_us


def grid_of(shape: Shape) -> Grid:
    """The panes and windows of a shape of time."""
    match shape:
        case Tumble(size_us, offset_us):
            return Sliding(size_us, size_us, offset_us)
        case Slide(size_us, every_us, offset_us):
            return Sliding(size_us, every_us, offset_us)
        case Cumulate(size_us, every_us, offset_us):
            return Cumulating(size_us, every_us, offset_us)
    return Everything()


def _behind(time: T, length_us: int, offset_us: int) -> T:
    """The end of the stretch of that length that a time is in; `%` has the sign of the length."""
    return time - (time - offset_us % length_us) % length_us + length_us
