"""Frozen table: a log of rows, in which the last row of each key counts.

A log can therefore be restricted to key groups and concatenated with others without comparing keys.
The latest rows are only found when an index of the log is built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import EXPIRY, KEY, StateDescriptor
from headrace.core.types.frames import FEW_ROWS
from headrace.core.types.key_groups import hash_keys
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.documents import TableDocument
from headrace.state.memory.frame_blobs import FrameBlobs
from headrace.state.memory.row_filters import (
    add_expiry_column,
    filter_groups,
    filter_unexpired,
    mask_groups,
)
from headrace.state.memory.sorted_run import RunSnapshot

if TYPE_CHECKING:
    import polars as pl

LOG_ROW = "__row"
"""Column with the number of a row in the log."""


@dataclass(frozen=True, slots=True)
class FrozenTable:
    """Log of a table as it was, and the numbers of the rows that had been removed."""

    frames: tuple[pl.DataFrame, ...]
    removed_rows: tuple[pl.Series, ...]
    now_us: int
    group: tuple[str, ...] | None

    @classmethod
    def load(cls, document: TableDocument, store: SnapshotStore, blobs: FrameBlobs) -> FrozenTable:
        """Read a stored table back. Raises SnapshotError."""
        frames = tuple(RunSnapshot.load(each, store, blobs).live_rows for each in document.frames)
        removed: tuple[pl.Series, ...] = ()
        if document.removed is not None:
            removed = (blobs.read(document.removed, store)["row"],)
        return cls(frames, removed, document.now_us, document.group)

    @property
    def descriptor(self) -> StateDescriptor:
        return StateDescriptor(is_table=True, key=self.group)

    @property
    def columns(self) -> Mapping[str, pl.DataType] | None:
        """Columns of the rows; None without rows."""
        return self.frames[0].schema if self.frames else None

    def read_chunks(self, groups: range | None, key_groups: int) -> Iterator[pl.DataFrame]:
        """Yield the rows that count, restricted to those key groups, as one frame."""
        rows = self.read_latest_rows()
        if rows is not None:
            rows = filter_groups(
                filter_unexpired(rows, self.now_us), self.group, groups, key_groups
            )
            if rows.height:
                yield rows

    def read_latest_rows(self) -> pl.DataFrame | None:
        """Return the latest row of each key that was not removed, even if the row has expired."""
        import polars as pl

        if not self.frames:
            return None
        rows = self.find_latest_rows()[LOG_ROW]
        log = pl.concat(self.frames)
        return log if len(rows) == log.height else log[rows]

    def persist(self, store: SnapshotStore, blobs: FrameBlobs) -> TableDocument:
        """Put the log, and the numbers of the removed rows, into the store."""
        import polars as pl

        frames = [RunSnapshot(frame).persist(store, blobs) for frame in self.frames]
        removed = None
        if self.removed_rows:
            removed = blobs.put(pl.concat(self.removed_rows).to_frame("row"), store)
        return TableDocument(self.group, self.now_us, frames, removed)

    def find_latest_rows(self) -> pl.DataFrame:
        """Return key and number of the last row of each key that was not removed; the log must have
        frames.
        """
        import polars as pl

        last = pl.concat([frame[[KEY]] for frame in self.frames]).with_row_index(LOG_ROW)
        if last.height < FEW_ROWS:
            last = last.unique(KEY, keep="last", maintain_order=True)
        # Only keys whose hash occurs twice are compared as texts: the others differ by their hash.
        elif (twice := hash_keys(last[KEY]).is_duplicated()).any():
            again = last.filter(twice).unique(KEY, keep="last")
            last = pl.concat([last.filter(~twice), again]).sort(LOG_ROW)
        if not self.removed_rows:
            return last
        return last.filter(~pl.col(LOG_ROW).is_in(pl.concat(self.removed_rows).implode()))

    def clip_to_groups(self, groups: range | None, key_groups: int) -> FrozenTable:
        """Return the log restricted to the keys of those groups; None: all."""
        import polars as pl

        if groups is None or not self.frames:
            return self
        keeps = [mask_groups(frame, self.group, groups, key_groups) for frame in self.frames]
        frames = [f.filter(each) for f, each in zip(self.frames, keeps, strict=True)]
        removed = self.removed_rows
        if removed:
            # A removed row hides earlier rows of its key, so it stays, under its new number.
            which, old = pl.concat(keeps), pl.concat(self.removed_rows)
            numbers = which.cast(pl.UInt32).cum_sum() - 1
            removed = (numbers[old.filter(which[old])].cast(old.dtype),)
        return replace(self, frames=tuple(f for f in frames if f.height), removed_rows=removed)


def concat_logs(logs: Sequence[FrozenTable]) -> FrozenTable:
    """Concatenate several logs, whose keys differ."""
    if len(logs) == 1:
        return logs[0]
    now_us = max(log.now_us for log in logs)
    frames: list[pl.DataFrame] = []
    removed: list[pl.Series] = []
    for log in logs:
        height = sum(frame.height for frame in frames)
        removed += [numbers + height for numbers in log.removed_rows]
        frames += log.frames
    if any(EXPIRY in frame.columns for frame in frames):
        frames = [
            frame if EXPIRY in frame.columns else add_expiry_column(frame) for frame in frames
        ]
    return FrozenTable(tuple(frames), tuple(removed), now_us, logs[0].group)
