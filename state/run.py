"""A sorted run: a frame sorted by slot, with its first rows and single other rows deleted.

The frame never changes, and deleting a row does not copy it: a deletion mask says which rows are
deleted. A frozen run shares the mask with the live one, so the next deletion copies the mask, which
is a byte per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.frames import up_to
from headrace.core.state import SLOT

if TYPE_CHECKING:
    import polars as pl

NEAR_ROWS = 64
"""Number of marks searched first for the next live row; then twice as many each time."""


@dataclass(frozen=True, slots=True)
class Part:
    """Live rows of a frame: after the first `skip` rows, and not marked as deleted."""

    whole: pl.DataFrame
    skip: int = 0
    gone: pl.Series | None = None
    """For each row of the frame 1 if it is deleted, else 0; None: none is, except the first `skip`
    rows.
    """

    @property
    def frame(self) -> pl.DataFrame:
        """Frame of the live rows."""
        return _rows(self.whole, self.skip, self.whole.height, self.gone)


class Run:
    """A live run: rows are deleted from it until it is merged with others."""

    __slots__ = ("_gone", "_skip", "base", "first", "last", "order", "rows", "size", "whole")

    def __init__(self, whole: pl.DataFrame, order: int) -> None:
        """Take a sorted, non-empty frame; runs that are added later have a higher `order`."""
        slots = whole[SLOT]
        self.whole = whole
        self.order = order
        self.first, self.last = int(slots[0]), int(slots[-1])
        """Lowest slot of a live row, and a slot that no row exceeds."""
        self.rows = whole.height
        """Number of live rows."""
        self.size = int(whole.estimated_size())
        self.base = -1
        """Number of the frame's first row among the rows of all runs; -1: not numbered."""
        self._skip = 0
        self._gone: pl.Series | None = None

    @property
    def bytes(self) -> int:
        """Approximate memory of the live rows and of the deleted rows between them."""
        return self.size * (self.whole.height - self._skip) // self.whole.height

    @property
    def is_waste(self) -> bool:
        """Whether more rows are deleted than live."""
        return 2 * self.rows < self.whole.height

    def frame(self, after: int | None = None, until: int | None = None) -> pl.DataFrame:
        """Return the live rows after the first slot and up to the second."""
        end = self.whole.height if until is None else self._end(until)
        return _rows(self.whole, self._start(after), end, self._gone)

    def behind(self, rows: pl.Series, after: int | None) -> pl.Series:
        """Return those of these row positions that are after the slot."""
        start = self._start(after)
        return rows.filter(rows >= start) if start else rows

    def there(self) -> pl.Series:
        """Return the positions of the live rows in the frame."""
        import polars as pl

        rows = pl.int_range(self._skip, self.whole.height, dtype=pl.UInt32, eager=True)
        return rows if self._gone is None else rows.filter(self._gone.slice(self._skip) == 0)

    def drop(self, until: int) -> None:
        """Delete the rows up to that slot."""
        end = self._end(until)
        if end > self._skip:
            self.rows -= _rows(self.whole, self._skip, end, self._gone).height
            self._begin(end)

    def take(self, rows: pl.Series) -> None:
        """Delete the rows at these positions, all of which are live."""
        if self._gone is None:
            self._gone = marks(self.whole, rows)
        else:
            self._gone.scatter(rows, 1)
        self.rows -= len(rows)
        self._begin(self._skip)

    def frozen(self) -> Part:
        """Return the run as it is now."""
        return Part(self.whole, self._skip, None if self._gone is None else self._gone.clone())

    def _start(self, after: int | None) -> int:
        return self._skip if after is None else max(self._skip, self._end(after))

    def _end(self, until: int) -> int:
        """Return the position of the first row after that slot."""
        if self.last <= until:
            return self.whole.height
        return up_to(self.whole[SLOT], until)

    def _begin(self, start: int) -> None:
        """Move `skip` to the first live row at or after that position."""
        if not self.rows:
            self._skip = self.whole.height
            return
        self._skip = start if self._gone is None else _next(self._gone, start)
        self.first = int(self.whole[SLOT][self._skip])


def marks(whole: pl.DataFrame, gone: pl.Series) -> pl.Series:
    """Return, for each row of a frame, 1 if its position is among these, else 0."""
    import polars as pl

    every = pl.Series([0], dtype=pl.UInt8).new_from_index(0, whole.height)
    return every.scatter(gone, 1)


def _rows(whole: pl.DataFrame, start: int, end: int, gone: pl.Series | None) -> pl.DataFrame:
    """Return the live rows in between."""
    frame = whole if (start, end) == (0, whole.height) else whole.slice(start, max(0, end - start))
    return frame if gone is None else frame.filter(gone.slice(start, frame.height) == 0)


def _next(gone: pl.Series, start: int) -> int:
    """Return the position of the first live row from there on; there must be one."""
    near = NEAR_ROWS
    while True:
        marks = gone.slice(start, near)
        if marks.min() == 0:
            return start + int(marks.arg_min() or 0)
        start, near = start + near, 2 * near
