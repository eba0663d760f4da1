"""Runs on disk: files that never change, each with the frame of a part of the keys.

They are files and not entries of RocksDB. A run is written once, read once or twice, and forgotten
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
    """A frame on disk, sorted by slot, of whose rows the first ones may have been taken."""

    file: str
    """Its name."""
    part: int
    """Of which part of the keys it is."""
    level: int
    """How often it was merged: frames that were merged as often are of about the same size."""
    lot: int
    """What was written together has the same number."""
    first: int
    last: int
    rows: int
    """How many are left."""
    skip: int = 0
    """How many are gone."""
    bytes: int = 0
    """What the file takes."""


class Files(Protocol):
    """Where such files are."""

    def read(self, spilled: Spilled) -> pl.DataFrame:
        """The rows that are left of one."""
        ...

    def stored(self, spilled: Spilled, store: SnapshotStore) -> Blob:
        """Have one in the store. Raises SnapshotError."""
        ...


class RunFiles:
    """The files of a step's runs, in a folder of their own."""

    def __init__(self, folder: str, gate: Gate) -> None:
        self._folder = folder
        self._gate = gate
        self._count = 0
        self._blobs: dict[str, Blob] = {}
        self._over: list[str] = []

    def lot(self) -> int:
        """A number for what is written together."""
        self._count += 1
        return self._count

    def write(self, frame: pl.DataFrame, part: int, level: int, lot: int) -> Spilled:
        """A new file of a frame that is not empty. Raises SnapshotError."""
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
        """The rows that are left of it."""
        with open(self._path(spilled.file), "rb") as file:
            return decoded(file.read()).slice(spilled.skip)

    def discard(self, spilled: Spilled) -> None:
        """Nobody needs it any more, but perhaps who stores what is frozen."""
        self._over.append(spilled.file)
        if self._gate.may_discard:
            for name in self._over:
                self._blobs.pop(name, None)
                os.remove(self._path(name))
            self._over.clear()

    def adopt(self, spilled: Spilled, blob: Blob, store: SnapshotStore) -> Spilled:
        """Take over what was stored, under a name that is free. Raises SnapshotError."""
        name = f"{self.lot()}.run"
        os.makedirs(self._folder, exist_ok=True)
        store.fetch(blob, self._path(name), link=True)
        self._blobs[name] = blob
        return replace(spilled, file=name)

    def stored(self, spilled: Spilled, store: SnapshotStore) -> Blob:
        """Have the file in the store. Raises SnapshotError."""
        known = self._blobs.get(spilled.file)
        if known is None or not store.has(known):
            known = self._blobs[spilled.file] = store.put_file(self._path(spilled.file))
        return known

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)
