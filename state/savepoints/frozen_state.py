"""Frozen state of a step in a savepoint, read from its files when requested."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.api.snapshots import DamagedSnapshot, SnapshotStore
from headrace.core.api.state import EXPIRY, NO_CLOCK_US, Document, StateDescriptor, StepCounters
from headrace.core.api.state_backend import intersect_ranges
from headrace.state.memory.documents import (
    EntriesDocument,
    FrameSegment,
    RunsDocument,
    StepDocument,
    TableDocument,
    to_blob_names,
    to_plain,
)
from headrace.state.memory.frame_blobs import FrameBlobs
from headrace.state.savepoints.document import (
    ENTRIES,
    RUNS,
    TABLE,
    FileDocument,
    StateDocument,
    StepStateDocument,
    build_descriptor,
)
from headrace.state.savepoints.parquet_frames import GROUP_COLUMN, decode_parquet
from headrace.state.storage.disk import Disk
from headrace.state.storage.disk_errors import translate_os_errors

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class SavepointFrozenState:
    """One part of a step's state in a savepoint. A file is verified whenever it is read."""

    disk: Disk
    folder: str
    document: StepStateDocument

    @property
    def groups(self) -> range:
        """Key groups of this part."""
        return range(*self.document.groups)

    @property
    def key_groups(self) -> int:
        """Number of key groups of the step."""
        return self.document.key_groups

    @property
    def names(self) -> frozenset[str]:
        """Names of all states."""
        return frozenset(self.document.states)

    @property
    def clock_us(self) -> int:
        """Clock of the step for these key groups."""
        return self.document.clock_us

    @property
    def counters(self) -> StepCounters:
        return StepCounters(self.document.late, self.document.unfilled)

    def describe_state(self, name: str) -> StateDescriptor:
        """Return the shape of a state."""
        return build_descriptor(self.document.states[name])

    def read_runs(self, name: str, groups: range) -> list[pl.DataFrame]:
        """Return the frames of a state of runs, restricted to those key groups."""
        return list(self.read_chunks(name, RUNS, groups))

    def read_table(self, name: str, groups: range) -> pl.DataFrame | None:
        """Return the rows of a table, restricted to those key groups."""
        return _concat_frames(self.read_chunks(name, TABLE, groups))

    def read_entries(self, name: str) -> pl.DataFrame | None:
        """Return the entries of that name."""
        return _concat_frames(self.read_chunks(name, ENTRIES, self.groups))

    def read_chunks(self, name: str, shape: str, groups: range) -> Iterator[pl.DataFrame]:
        """Yield the frames of the state, a file at a time, if the state has that shape."""
        state = self.document.states.get(name)
        if state is None or state.shape != shape:
            return
        part = None if intersect_ranges(groups, self.groups) == self.groups else groups
        for file in state.files:
            for frame in self._read_frames(state, file):
                if (rows := _filter_groups(frame, part)).height:
                    yield rows

    def persist(self, store: SnapshotStore) -> Document:
        """Put the state into the store as the memory backend does. Raises SnapshotError."""
        blobs = FrameBlobs()
        states = {
            name: self._persist_state(name, state, store, blobs)
            for name, state in self.document.states.items()
        }
        part = self.document
        return to_plain(
            StepDocument(
                part.groups, part.key_groups, part.clock_us, part.late, part.unfilled, states
            )
        )

    def release(self) -> None:
        """Do nothing: the files of a savepoint never change."""

    def verify(self) -> None:
        """Read and verify all files. Raises DamagedSnapshot."""
        for state in self.document.states.values():
            for file in state.files:
                self._read_file(file)

    def _persist_state(
        self, name: str, state: StateDocument, store: SnapshotStore, blobs: FrameBlobs
    ) -> RunsDocument | TableDocument | EntriesDocument:
        if state.shape == ENTRIES:
            rows = self.read_entries(name)
            spread = build_descriptor(state).redistribution
            assert spread is not None
            return EntriesDocument(
                spread, None if rows is None else to_blob_names(blobs.put(rows, store))
            )
        pieces = [
            FrameSegment(to_blob_names(blobs.put(frame, store)), 0)
            for frame in self.read_chunks(name, state.shape, self.groups)
        ]
        if state.shape == RUNS:
            return RunsDocument(state.key or (), pieces)
        return TableDocument(state.key, NO_CLOCK_US, pieces, None)

    def _read_frames(self, state: StateDocument, file: FileDocument) -> Iterator[pl.DataFrame]:
        path = os.path.join(self.folder, file.file)
        rows = decode_parquet(self._read_file(file))
        if rows.height != file.rows or sum(file.frames) != file.rows:
            raise build_damage_error(path, f"wanted {file.rows} rows, got {rows.height}")
        if state.shape == TABLE and not state.timed:
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


def build_damage_error(path: str, why: str) -> DamagedSnapshot:
    """Build the error for a file of a savepoint that is not as it was written."""
    copy = "a savepoint is only good as a whole: take it from another copy"
    return DamagedSnapshot(f"{path} is damaged: {why}", copy, file=path)


def _filter_groups(frame: pl.DataFrame, groups: range | None) -> pl.DataFrame:
    """Return the rows of those key groups (None: all), without the key group column."""
    if GROUP_COLUMN not in frame.columns:
        return frame
    if groups is not None:
        frame = frame.filter(
            frame[GROUP_COLUMN].is_between(groups.start, groups.stop, closed="left")
        )
    return frame.drop(GROUP_COLUMN)


def _concat_frames(frames: Iterator[pl.DataFrame]) -> pl.DataFrame | None:
    import polars as pl

    parts = list(frames)
    return pl.concat(parts) if parts else None
