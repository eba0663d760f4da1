"""Run files: sorted runs on disk, immutable, each file with the frame of one key partition.

They are plain files, not entries of RocksDB: a run is written once, read once or twice, and deleted
as a whole, so there is nothing to look up and nothing to compact; and a file can be linked into a
checkpoint as it is.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from headrace.core.api.snapshots import Blob, SnapshotStore
from headrace.core.api.state import SLOT
from headrace.core.errors.full_disks import name_file
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.frame_blobs import decode_frame, encode_frame
from headrace.state.rocks.memory_budget import SnapshotGuard
from headrace.state.storage.access import PRIVATE_FILE, make_folders
from headrace.state.storage.disk_errors import translate_os_errors

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file with a frame sorted by slot; its first `skip` rows may have been taken."""

    file: str
    """File name."""
    partition: int
    """Key partition of the rows."""
    level: int
    """Number of times the rows were merged: runs of a level are of about the same size."""
    run_number: int
    """Number of the sorted run: files written by the same spill or merge share it."""
    first_slot: int
    last_slot: int
    rows: int
    """Number of rows left."""
    skip: int = 0
    """Number of rows taken."""
    bytes: int = 0
    """File size."""


class RunFileStore(Protocol):
    """Location of run files."""

    def read(self, spilled: RunFile) -> pl.DataFrame:
        """Return the rows left in a file."""
        ...

    def persist(self, spilled: RunFile, store: SnapshotStore) -> Blob:
        """Put a file into the store. Raises SnapshotError."""
        ...


class RunFileFolder:
    """Folder of the run files of a step."""

    def __init__(self, folder: str, guard: SnapshotGuard) -> None:
        self._folder = folder
        self._guard = guard
        self._count = 0
        self._blobs: dict[str, Blob] = {}
        self._discarded_files: list[str] = []

    def next_number(self) -> int:
        """Return a new number, for a run or a file."""
        self._count += 1
        return self._count

    def write(self, frame: pl.DataFrame, part: int, level: int, lot: int) -> RunFile:
        """Write a frame, not empty, to a new file. Raises SnapshotError."""
        name = f"{self.next_number()}.run"
        with translate_os_errors(f"write {self._get_path(name)}"):
            make_folders(self._folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            descriptor = os.open(self._get_path(name), flags, PRIVATE_FILE)
            with name_file(self._get_path(name)), open(descriptor, "wb", buffering=0) as file:
                data = encode_frame(frame)
                size = len(data)
                while len(data):
                    data = data[file.write(data) :]
        slots = frame[SLOT]
        first, last = int(slots[0]), int(slots[-1])
        return RunFile(name, part, level, lot, first, last, frame.height, bytes=size)

    def read(self, spilled: RunFile) -> pl.DataFrame:
        """Return the rows left in a file."""
        path = self._get_path(spilled.file)
        with translate_os_errors(f"read {path}"), open(path, "rb") as file:
            return decode_frame(file.read()).slice(spilled.skip)

    def discard(self, spilled: RunFile) -> None:
        """Remove the file, as soon as no frozen state needs it."""
        self._discarded_files.append(spilled.file)
        if self._guard.may_discard:
            for name in self._discarded_files:
                self._blobs.pop(name, None)
                with translate_os_errors(f"remove {self._get_path(name)}"):
                    os.remove(self._get_path(name))
            self._discarded_files.clear()

    def restore(self, spilled: RunFile, blob: Blob, store: SnapshotStore) -> RunFile:
        """Fetch a stored file under a new name. Raises SnapshotError."""
        name = f"{self.next_number()}.run"
        with translate_os_errors(f"make {self._folder}"):
            make_folders(self._folder)
        store.fetch(blob, self._get_path(name), link=True)
        self._blobs[name] = blob
        return replace(spilled, file=name)

    def persist(self, spilled: RunFile, store: SnapshotStore) -> Blob:
        """Put the file into the store. Raises SnapshotError."""
        known = self._blobs.get(spilled.file)
        if known is None or not store.has(known):
            known = self._blobs[spilled.file] = store.put_file(self._get_path(spilled.file))
        return known

    def _get_path(self, name: str) -> str:
        return os.path.join(self._folder, name)
