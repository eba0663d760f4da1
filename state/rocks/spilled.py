"""Run files: sorted runs on disk, immutable, each file with the frame of one key partition.

They are plain files, not entries of RocksDB: a run is written once, read once or twice, and deleted
as a whole, so there is nothing to look up and nothing to compact; and a file can be linked into a
checkpoint as it is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from headrace.core.snapshots import Blob, SnapshotStore
from headrace.core.state import SLOT
from headrace.state.framing import decoded, encoded
from headrace.state.rocks.budget import Gate
from headrace.state.storage.telling import telling

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Spilled:
    """A file with a frame sorted by slot; its first `skip` rows may have been taken."""

    file: str
    """File name."""
    part: int
    """Key partition of the rows."""
    level: int
    """Number of times the rows were merged: runs of a level are of about the same size."""
    lot: int
    """Number of the sorted run: files written by the same spill or merge share it."""
    first: int
    last: int
    rows: int
    """Number of rows left."""
    skip: int = 0
    """Number of rows taken."""
    bytes: int = 0
    """File size."""


class Files(Protocol):
    """Location of run files."""

    def read(self, spilled: Spilled) -> pl.DataFrame:
        """Return the rows left in a file."""
        ...

    def stored(self, spilled: Spilled, store: SnapshotStore) -> Blob:
        """Put a file into the store. Raises SnapshotError."""
        ...


class RunFiles:
    """Folder of the run files of a step."""

    def __init__(self, folder: str, gate: Gate) -> None:
        self._folder = folder
        self._gate = gate
        self._count = 0
        self._blobs: dict[str, Blob] = {}
        self._over: list[str] = []

    def lot(self) -> int:
        """Return a new number, for a run or a file."""
        self._count += 1
        return self._count

    def write(self, frame: pl.DataFrame, part: int, level: int, lot: int) -> Spilled:
        """Write a frame, not empty, to a new file. Raises SnapshotError."""
        name = f"{self.lot()}.run"
        with telling(f"write {self._path(name)}"):
            os.makedirs(self._folder, exist_ok=True)
            with open(self._path(name), "wb", buffering=0) as file:
                data = encoded(frame)
                size = len(data)
                while len(data):
                    data = data[file.write(data) :]
        slots = frame[SLOT]
        first, last = int(slots[0]), int(slots[-1])
        return Spilled(name, part, level, lot, first, last, frame.height, bytes=size)

    def read(self, spilled: Spilled) -> pl.DataFrame:
        """Return the rows left in a file."""
        with open(self._path(spilled.file), "rb") as file:
            return decoded(file.read()).slice(spilled.skip)

    def discard(self, spilled: Spilled) -> None:
        """Remove the file, as soon as no frozen state needs it."""
        self._over.append(spilled.file)
        if self._gate.may_discard:
            for name in self._over:
                self._blobs.pop(name, None)
                os.remove(self._path(name))
            self._over.clear()

    def adopt(self, spilled: Spilled, blob: Blob, store: SnapshotStore) -> Spilled:
        """Fetch a stored file under a new name. Raises SnapshotError."""
        name = f"{self.lot()}.run"
        os.makedirs(self._folder, exist_ok=True)
        store.fetch(blob, self._path(name), link=True)
        self._blobs[name] = blob
        return replace(spilled, file=name)

    def stored(self, spilled: Spilled, store: SnapshotStore) -> Blob:
        """Put the file into the store. Raises SnapshotError."""
        known = self._blobs.get(spilled.file)
        if known is None or not store.has(known):
            known = self._blobs[spilled.file] = store.put_file(self._path(spilled.file))
        return known

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)
