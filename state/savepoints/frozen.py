"""Frozen state of a step in a savepoint, read from its files when requested."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.owner import shared
from headrace.core.snapshots import DamagedSnapshot, SnapshotStore
from headrace.core.state import NO_CLOCK_US, UNTIL, Counts, Document, Shape
from headrace.state.documents import plain
from headrace.state.framing import FrameBlobs
from headrace.state.savepoints.columns import GROUP, unpacked
from headrace.state.savepoints.document import (
    ENTRIES,
    RUNS,
    TABLE,
    FileDocument,
    PartDocument,
    StateDocument,
    shape_of,
)
from headrace.state.storage.disk import Disk
from headrace.state.storage.telling import telling
from headrace.state.stored import (
    EntriesDocument,
    Piece,
    RunsDocument,
    StepDocument,
    TableDocument,
    named,
)

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class SavedFrozen:
    """One part of a step's state in a savepoint. A file is verified whenever it is read."""

    disk: Disk
    folder: str
    part: PartDocument

    @property
    def groups(self) -> range:
        """Key groups of this part."""
        return range(*self.part.groups)

    @property
    def key_groups(self) -> int:
        """Number of key groups of the step."""
        return self.part.key_groups

    @property
    def names(self) -> frozenset[str]:
        """Names of all states."""
        return frozenset(self.part.states)

    @property
    def clock_us(self) -> int:
        """Clock of the step for these key groups."""
        return self.part.clock_us

    @property
    def counts(self) -> Counts:
        return Counts(self.part.late, self.part.unfilled)

    def shape(self, name: str) -> Shape:
        """Return the shape of a state."""
        return shape_of(self.part.states[name])

    def runs(self, name: str, groups: range) -> list[pl.DataFrame]:
        """Return the frames of a state of runs, restricted to those key groups."""
        return list(self.pieces(name, RUNS, groups))

    def table(self, name: str, groups: range) -> pl.DataFrame | None:
        """Return the rows of a table, restricted to those key groups."""
        return _whole(self.pieces(name, TABLE, groups))

    def entries(self, name: str) -> pl.DataFrame | None:
        """Return the entries of that name."""
        return _whole(self.pieces(name, ENTRIES, self.groups))

    def pieces(self, name: str, shape: str, groups: range) -> Iterator[pl.DataFrame]:
        """Yield the frames of the state, a file at a time, if the state has that shape."""
        state = self.part.states.get(name)
        if state is None or state.shape != shape:
            return
        part = None if shared(groups, self.groups) == self.groups else groups
        for file in state.files:
            for frame in self._frames(state, file):
                if (rows := _within(frame, part)).height:
                    yield rows

    def stored(self, store: SnapshotStore) -> Document:
        """Put the state into the store as the memory backend does. Raises SnapshotError."""
        blobs = FrameBlobs()
        states = {
            name: self._stored(name, state, store, blobs)
            for name, state in self.part.states.items()
        }
        part = self.part
        return plain(
            StepDocument(
                part.groups, part.key_groups, part.clock_us, part.late, part.unfilled, states
            )
        )

    def release(self) -> None:
        """Do nothing: the files of a savepoint never change."""

    def verify(self) -> None:
        """Read and verify all files. Raises DamagedSnapshot."""
        for state in self.part.states.values():
            for file in state.files:
                self._read(file)

    def _stored(
        self, name: str, state: StateDocument, store: SnapshotStore, blobs: FrameBlobs
    ) -> RunsDocument | TableDocument | EntriesDocument:
        if state.shape == ENTRIES:
            rows = self.entries(name)
            spread = shape_of(state).spread
            assert spread is not None
            return EntriesDocument(spread, None if rows is None else named(blobs.put(rows, store)))
        pieces = [
            Piece(named(blobs.put(frame, store)), 0)
            for frame in self.pieces(name, state.shape, self.groups)
        ]
        if state.shape == RUNS:
            return RunsDocument(state.key or (), pieces)
        return TableDocument(state.key, NO_CLOCK_US, pieces, None)

    def _frames(self, state: StateDocument, file: FileDocument) -> Iterator[pl.DataFrame]:
        path = os.path.join(self.folder, file.file)
        rows = unpacked(self._read(file))
        if rows.height != file.rows or sum(file.frames) != file.rows:
            raise damaged(path, f"wanted {file.rows} rows, got {rows.height}")
        if state.shape == TABLE and not state.timed:
            rows = rows.drop(UNTIL)
        start = 0
        for height in file.frames:
            yield rows if height == rows.height else rows.slice(start, height)
            start += height

    def _read(self, file: FileDocument) -> bytes:
        path = os.path.join(self.folder, file.file)
        with telling(f"read {path}"):
            if self.disk.size(path) is None:
                raise damaged(path, "it is missing")
            data = self.disk.read(path)
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise damaged(path, f"its {len(data)} bytes are not those that were written")
        return data


def damaged(path: str, why: str) -> DamagedSnapshot:
    """Build the error for a file of a savepoint that is not as it was written."""
    copy = "a savepoint is only good as a whole: take it from another copy"
    return DamagedSnapshot(f"{path} is damaged: {why}", copy, file=path)


def _within(frame: pl.DataFrame, groups: range | None) -> pl.DataFrame:
    """Return the rows of those key groups (None: all), without the key group column."""
    if GROUP not in frame.columns:
        return frame
    if groups is not None:
        frame = frame.filter(frame[GROUP].is_between(groups.start, groups.stop, closed="left"))
    return frame.drop(GROUP)


def _whole(frames: Iterator[pl.DataFrame]) -> pl.DataFrame | None:
    import polars as pl

    parts = list(frames)
    return pl.concat(parts) if parts else None
