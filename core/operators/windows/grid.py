"""Where windows of time stand: panes, into which rows are filed, and windows, made of panes.

A pane is a stretch of time that no window cuts, so that a row is filed once however many windows it
is in. Panes and windows are named by their ends (microseconds); both stand in a grid from the epoch
moved by the offset. Times reach from year 1 to 9999, lengths a million days: nothing overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Protocol

from headrace.core.elements import FOREVER_US
from headrace.core.plan.windows import Cumulate, Shape, Slide, Tumble

if TYPE_CHECKING:
    import polars as pl


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

    def pane(self, time: pl.Expr) -> pl.Expr:
        """The end of the pane that a time is in."""
        ...

    def first(self, pane: pl.Expr) -> pl.Expr:
        """The end of the first window that a pane is in; then one ends every `every_us`."""
        ...

    def last(self, pane: pl.Expr) -> pl.Expr:
        """The end of the last window that a pane is in."""
        ...

    def start(self, end: pl.Expr) -> pl.Expr:
        """The start of a window."""
        ...

    def next_end(self, now_us: int) -> int:
        """The end of the first window that ends later than this."""
        ...

    def before(self, end_us: int) -> int:
        """The last pane before a window: its start."""
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

    def pane(self, time: pl.Expr) -> pl.Expr:
        """The end of the pane that a time is in."""
        return _next(time, self.pane_us, self.offset_us)

    def first(self, pane: pl.Expr) -> pl.Expr:
        """The end of the first window that a pane is in."""
        return _next(pane - 1, self.every_us, self.offset_us + self.size_us)

    def last(self, pane: pl.Expr) -> pl.Expr:
        """The end of the last window that a pane is in."""
        begins = _next(pane - self.pane_us, self.every_us, self.offset_us)
        return begins + (self.size_us - self.every_us)

    def start(self, end: pl.Expr) -> pl.Expr:
        """The start of a window."""
        return end - self.size_us

    def next_end(self, now_us: int) -> int:
        """The end of the first window that ends later than this."""
        return now_us + self.every_us - (now_us - self.offset_us - self.size_us) % self.every_us

    def before(self, end_us: int) -> int:
        """The start of a window."""
        return end_us - self.size_us


@dataclass(frozen=True, slots=True)
class Cumulating:
    """Windows that begin together, each a pane longer than the one before, up to the size."""

    size_us: int
    every_us: int
    offset_us: int = 0

    one_to_one = False
    gaps = False

    def pane(self, time: pl.Expr) -> pl.Expr:
        """The end of the pane that a time is in."""
        return _next(time, self.every_us, self.offset_us)

    def first(self, pane: pl.Expr) -> pl.Expr:
        """A pane is the last one of its first window."""
        return pane

    def last(self, pane: pl.Expr) -> pl.Expr:
        """The end of the longest window that a pane is in."""
        return _next(pane - self.every_us, self.size_us, self.offset_us)

    def start(self, end: pl.Expr) -> pl.Expr:
        """The start of a window."""
        return self.last(end) - self.size_us

    def next_end(self, now_us: int) -> int:
        """The end of the first window that ends later than this."""
        return now_us + self.every_us - (now_us - self.offset_us) % self.every_us

    def before(self, end_us: int) -> int:
        """The start of a window."""
        inside = end_us - self.every_us
        return inside - (inside - self.offset_us) % self.size_us


@dataclass(frozen=True, slots=True)
class Everything:
    """One window, and one pane, for all time."""

    every_us = FOREVER_US
    one_to_one = True
    gaps = False

    def pane(self, time: pl.Expr) -> pl.Expr:
        """All there is."""
        return time * 0 + FOREVER_US

    def first(self, pane: pl.Expr) -> pl.Expr:
        """All there is."""
        return pane

    def last(self, pane: pl.Expr) -> pl.Expr:
        """All there is."""
        return pane

    def start(self, end: pl.Expr) -> pl.Expr:
        """It has none."""
        return end

    def next_end(self, now_us: int) -> int:
        """Behind everything."""
        return FOREVER_US

    def before(self, end_us: int) -> int:
        """Nothing is before it."""
        return -FOREVER_US


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


def _next(time: pl.Expr, length_us: int, offset_us: int) -> pl.Expr:
    """The first end of a stretch of that length behind a time; `%` has the divisor's sign."""
    offset_us %= length_us
    return time - (time - offset_us) % length_us + length_us
