"""A sorted run: a frame sorted by slot, with its first rows and single other rows deleted.

The frame never changes, and deleting a row does not copy it: a deletion mask says which rows are
deleted. A frozen run shares the mask with the live one, so the next deletion copies the mask, which
is a byte per row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import SLOT
from headrace.core.types.frames import count_up_to
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.documents import FrameSegment
from headrace.state.memory.frame_blobs import FrameBlobs

if TYPE_CHECKING:
    import polars as pl

INITIAL_SCAN_ROWS = 64
"""Number of marks searched first for the next live row; then twice as many each time."""


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """Live rows of a frame: after the first `skip` rows, and not marked as deleted."""

    all_rows: pl.DataFrame
    skip: int = 0
    deletion_mask: pl.Series | None = None
    """For each row of the frame 1 if it is deleted, else 0; None: none is, except the first `skip`
    rows.
    """

    @property
    def live_rows(self) -> pl.DataFrame:
        """Frame of the live rows."""
        return _slice_live(self.all_rows, self.skip, self.all_rows.height, self.deletion_mask)

    @classmethod
    def load(cls, document: FrameSegment, store: SnapshotStore, blobs: FrameBlobs) -> RunSnapshot:
        """Read a stored run back. Raises SnapshotError."""
        rows = blobs.read(document.frame, store)
        if document.gone is None:
            return cls(rows, document.skip)
        mask = build_deletion_mask(rows, blobs.read(document.gone, store)["row"])
        return cls(rows, document.skip, mask)

    def persist(self, store: SnapshotStore, blobs: FrameBlobs) -> FrameSegment:
        """Put the frame, and the positions of its deleted rows, into the store."""
        frame = blobs.put(self.all_rows, store)
        if self.deletion_mask is None:
            return FrameSegment(frame, self.skip)
        deleted = (self.deletion_mask == 1).arg_true().to_frame("row")
        return FrameSegment(frame, self.skip, blobs.put(deleted, store))


class SortedRun:
    """A live run: rows are deleted from it until it is merged with others."""

    __slots__ = (
        "_deletion_mask",
        "_skip",
        "all_rows",
        "base_number",
        "first_slot",
        "last_slot",
        "order",
        "rows",
        "size",
    )

    def __init__(self, whole: pl.DataFrame, order: int) -> None:
        """Take a sorted, non-empty frame; runs that are added later have a higher `order`."""
        slots = whole[SLOT]
        self.all_rows = whole
        self.order = order
        self.first_slot, self.last_slot = int(slots[0]), int(slots[-1])
        """Lowest slot of a live row, and a slot that no row exceeds."""
        self.rows = whole.height
        """Number of live rows."""
        self.size = int(whole.estimated_size())
        self.base_number = -1
        """Number of the frame's first row among the rows of all runs; -1: not numbered."""
        self._skip = 0
        self._deletion_mask: pl.Series | None = None

    @property
    def bytes(self) -> int:
        """Approximate memory of the live rows and of the deleted rows between them."""
        return self.size * (self.all_rows.height - self._skip) // self.all_rows.height

    @property
    def is_mostly_deleted(self) -> bool:
        """Whether more rows are deleted than live."""
        return 2 * self.rows < self.all_rows.height

    def read_frame(self, after: int | None = None, until: int | None = None) -> pl.DataFrame:
        """Return the live rows after the first slot and up to the second."""
        end = self.all_rows.height if until is None else self._find_end(until)
        return _slice_live(self.all_rows, self._find_start(after), end, self._deletion_mask)

    def select_after(self, rows: pl.Series, after: int | None) -> pl.Series:
        """Return those of these row positions that are after the slot."""
        start = self._find_start(after)
        return rows.filter(rows >= start) if start else rows

    def list_live_positions(self) -> pl.Series:
        """Return the positions of the live rows in the frame."""
        import polars as pl

        rows = pl.int_range(self._skip, self.all_rows.height, dtype=pl.UInt32, eager=True)
        return (
            rows
            if self._deletion_mask is None
            else rows.filter(self._deletion_mask.slice(self._skip) == 0)
        )

    def drop(self, until: int) -> None:
        """Delete the rows up to that slot."""
        end = self._find_end(until)
        if end > self._skip:
            self.rows -= _slice_live(self.all_rows, self._skip, end, self._deletion_mask).height
            self._skip_to(end)

    def delete_rows(self, rows: pl.Series) -> None:
        """Delete the rows at these positions, all of which are live."""
        if self._deletion_mask is None:
            self._deletion_mask = build_deletion_mask(self.all_rows, rows)
        else:
            self._deletion_mask.scatter(rows, 1)
        self.rows -= len(rows)
        self._skip_to(self._skip)

    def freeze(self) -> RunSnapshot:
        """Return the run as it is now."""
        return RunSnapshot(
            self.all_rows,
            self._skip,
            None if self._deletion_mask is None else self._deletion_mask.clone(),
        )

    def _find_start(self, after: int | None) -> int:
        return self._skip if after is None else max(self._skip, self._find_end(after))

    def _find_end(self, until: int) -> int:
        """Return the position of the first row after that slot."""
        if self.last_slot <= until:
            return self.all_rows.height
        return count_up_to(self.all_rows[SLOT], until)

    def _skip_to(self, start: int) -> None:
        """Move `skip` to the first live row at or after that position."""
        if not self.rows:
            self._skip = self.all_rows.height
            return
        self._skip = (
            start if self._deletion_mask is None else _find_next_live(self._deletion_mask, start)
        )
        self.first_slot = int(self.all_rows[SLOT][self._skip])


def build_deletion_mask(whole: pl.DataFrame, deleted_rows: pl.Series) -> pl.Series:
    """Return, for each row of a frame, 1 if its position is among these, else 0."""
    import polars as pl

    every = pl.Series([0], dtype=pl.UInt8).new_from_index(0, whole.height)
    return every.scatter(deleted_rows, 1)


def _slice_live(
    whole: pl.DataFrame, start: int, end: int, deletion_mask: pl.Series | None
) -> pl.DataFrame:
    """Return the live rows in between."""
    frame = whole if (start, end) == (0, whole.height) else whole.slice(start, max(0, end - start))
    return (
        frame
        if deletion_mask is None
        else frame.filter(deletion_mask.slice(start, frame.height) == 0)
    )


def _find_next_live(deletion_mask: pl.Series, start: int) -> int:
    """Return the position of the first live row from there on; there must be one."""
    near = INITIAL_SCAN_ROWS
    while True:
        marks = deletion_mask.slice(start, near)
        if marks.min() == 0:
            return start + int(marks.arg_min() or 0)
        start, near = start + near, 2 * near
