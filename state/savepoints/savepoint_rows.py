"""Rows of a state in a savepoint, read from its files when requested."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.api.snapshots import DamagedSnapshot, SnapshotStore
from headrace.core.api.state import EXPIRY, NO_CLOCK_US, StateDescriptor
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.documents import (
    RUNS,
    TABLE,
    FrameSegment,
    FrameStateDocument,
    RunsDocument,
    TableDocument,
)
from headrace.state.memory.entries import FrozenEntries
from headrace.state.memory.frame_blobs import FrameBlobs
from headrace.state.savepoints.document import FileDocument, StateDocument
from headrace.state.savepoints.parquet_frames import GROUP_COLUMN, decode_parquet
from headrace.state.storage.disk import Disk
from headrace.state.storage.disk_errors import translate_os_errors

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class SavepointState:
    """One state of a step in a savepoint. A file is verified whenever it is read."""

    disk: Disk
    folder: str
    document: StateDocument

    @property
    def descriptor(self) -> StateDescriptor:
        """Shape of the state."""
        return self.document.descriptor

    def read_chunks(self, groups: range | None, key_groups: int) -> Iterator[pl.DataFrame]:
        """Yield the frames, a file at a time, restricted to those key groups; None: all."""
        for file in self.document.files:
            for frame in self._read_frames(file):
                if (rows := _filter_stored_groups(frame, groups)).height:
                    yield rows

    def persist(self, store: SnapshotStore, blobs: FrameBlobs) -> FrameStateDocument:
        """Put the state into the store as the memory backend does. Raises SnapshotError."""
        import polars as pl

        chunks, spread = self.read_chunks(None, 1), self.document.spread
        if spread is not None:
            parts = list(chunks)
            return FrozenEntries(spread, pl.concat(parts) if parts else None).persist(store, blobs)
        pieces = [FrameSegment(blobs.put(frame, store), 0) for frame in chunks]
        if self.document.shape == RUNS:
            return RunsDocument(self.document.key or (), pieces)
        return TableDocument(self.document.key, NO_CLOCK_US, pieces, None)

    def verify(self) -> None:
        """Read and verify all files. Raises DamagedSnapshot."""
        for file in self.document.files:
            self._read_file(file)

    def _read_frames(self, file: FileDocument) -> Iterator[pl.DataFrame]:
        path = os.path.join(self.folder, file.file)
        rows = decode_parquet(self._read_file(file))
        if rows.height != file.rows or sum(file.frames) != file.rows:
            raise build_damage_error(path, f"wanted {file.rows} rows, got {rows.height}")
        if self.document.shape == TABLE and not self.document.timed:
            rows = rows.drop(EXPIRY)
        start = 0
        for height in file.frames:
            yield rows if height == rows.height else rows.slice(start, height)
            start += height

    def _read_file(self, file: FileDocument) -> bytes:
        path = os.path.join(self.folder, file.file)
        with translate_os_errors(f"read {path}"):
            if self.disk.get_size(path) is None:
                raise build_damage_error(path, "it is missing")
            data = self.disk.read(path)
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise build_damage_error(path, f"its {len(data)} bytes are not those that were written")
        return data


COPY_HINT = "a savepoint is only good as a whole: take it from another copy"


def build_damage_error(path: str, why: str) -> DamagedSnapshot:
    """Build the error for a file of a savepoint that is not as it was written."""
    return DamagedSnapshot(f"{path} is damaged: {why}", COPY_HINT, file=path)


def _filter_stored_groups(frame: pl.DataFrame, groups: range | None) -> pl.DataFrame:
    """Return the rows of those key groups (None: all), without the key group column."""
    if GROUP_COLUMN not in frame.columns:
        return frame
    if groups is not None:
        frame = frame.filter(
            frame[GROUP_COLUMN].is_between(groups.start, groups.stop, closed="left")
        )
    return frame.drop(GROUP_COLUMN)
