"""One run: a frame sorted by slot, of which the first rows, and others here and there, are gone.

The frame is never changed, nor copied because a row is taken out of it: marks beside it say which
rows are gone. Whoever keeps a run as it was shares the marks, and then the next row that goes costs
copying them, which is a byte a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.frames import up_to
from headrace.core.state import SLOT

if TYPE_CHECKING:
    import polars as pl

NEAR_ROWS = 64
"""So many marks are looked through for the next row that is there, and then more and more."""


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a frame that are there: behind the first ones, and not marked as gone."""

    whole: pl.DataFrame
    skip: int = 0
    gone: pl.Series | None = None
    """Of each row of the frame 1 if it is gone, else 0; None: none is, but for the first ones."""

    @property
    def frame(self) -> pl.DataFrame:
        """Those rows."""
        return _rows(self.whole, self.skip, self.whole.height, self.gone)


class Run:
    """A run that lives: rows are taken out of it until it is merged with others."""

    __slots__ = ("_gone", "_skip", "base", "first", "last", "order", "rows", "size", "whole")

    def __init__(self, whole: pl.DataFrame, order: int) -> None:
        """A frame that is sorted and not empty; those that come later have a higher `order`."""
        slots = whole[SLOT]
        self.whole = whole
        self.order = order
        self.first, self.last = int(slots[0]), int(slots[-1])
        """The least slot of a row that is there, and a slot that is not passed by any."""
        self.rows = whole.height
        """How many rows are there."""
        self.size = int(whole.estimated_size())
        self.base = -1
        """The number of the frame's first row among those of all runs; before 0, it has none."""
        self._skip = 0
        self._gone: pl.Series | None = None

    @property
    def bytes(self) -> int:
        """About how much memory the rows take that are there, and those gone between them."""
        return self.size * (self.whole.height - self._skip) // self.whole.height

    @property
    def is_waste(self) -> bool:
        """Whether more rows are gone than are there."""
        return 2 * self.rows < self.whole.height

    def frame(self, after: int | None = None, until: int | None = None) -> pl.DataFrame:
        """The rows that are there, behind the first slot and up to the second."""
        end = self.whole.height if until is None else self._end(until)
        return _rows(self.whole, self._start(after), end, self._gone)

    def behind(self, rows: pl.Series, after: int | None) -> pl.Series:
        """Which of these rows, given by where they are in the frame, are behind the slot."""
        start = self._start(after)
        return rows.filter(rows >= start) if start else rows

    def there(self) -> pl.Series:
        """Where the rows that are there are in the frame."""
        import polars as pl

        rows = pl.int_range(self._skip, self.whole.height, dtype=pl.UInt32, eager=True)
        return rows if self._gone is None else rows.filter(self._gone.slice(self._skip) == 0)

    def drop(self, until: int) -> None:
        """The rows up to that slot are gone."""
        end = self._end(until)
        if end > self._skip:
            self.rows -= _rows(self.whole, self._skip, end, self._gone).height
            self._begin(end)

    def take(self, rows: pl.Series) -> None:
        """These rows, given by where they are in the frame, are gone; they were there."""
        if self._gone is None:
            self._gone = marks(self.whole, rows)
        else:
            self._gone.scatter(rows, 1)
        self.rows -= len(rows)
        self._begin(self._skip)

    def frozen(self) -> Part:
        """The run as it is now."""
        return Part(self.whole, self._skip, None if self._gone is None else self._gone.clone())

    def _start(self, after: int | None) -> int:
        return self._skip if after is None else max(self._skip, self._end(after))

    def _end(self, until: int) -> int:
        """Where the rows behind that slot begin."""
        if self.last <= until:
            return self.whole.height
        return up_to(self.whole[SLOT], until)

    def _begin(self, start: int) -> None:
        """The first row that is there is not before that one."""
        if not self.rows:
            self._skip = self.whole.height
            return
        self._skip = start if self._gone is None else _next(self._gone, start)
        self.first = int(self.whole[SLOT][self._skip])


def marks(whole: pl.DataFrame, gone: pl.Series) -> pl.Series:
    """Of each row of a frame 1 if it is one of these, else 0."""
    import polars as pl

    every = pl.Series([0], dtype=pl.UInt8).new_from_index(0, whole.height)
    return every.scatter(gone, 1)


def _rows(whole: pl.DataFrame, start: int, end: int, gone: pl.Series | None) -> pl.DataFrame:
    """The rows in between that are not marked as gone."""
    frame = whole if (start, end) == (0, whole.height) else whole.slice(start, max(0, end - start))
    return frame if gone is None else frame.filter(gone.slice(start, frame.height) == 0)


def _next(gone: pl.Series, start: int) -> int:
    """The first row from there on that is not marked as gone; there is one."""
    near = NEAR_ROWS
    while True:
        marks = gone.slice(start, near)
        if marks.min() == 0:
            return start + int(marks.arg_min() or 0)
        start, near = start + near, 2 * near
