"""Files that closed states have left on this machine, found again by their content.

A restart of subtasks reads their state from a checkpoint. Where checkpoints are in a bucket, most
of these bytes are often still here: in the files of the states that the restart has closed, or in
those of a process that was killed. Such files never change once they are complete, so a link is
enough to have them outlive their folder. A file is taken for a blob only if its size and its hash
are those of the blob: of what a killed process has left, some is incomplete.
"""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress

from headrace.core.api.snapshots import Blob
from headrace.state.storage.access import make_folders
from headrace.state.storage.checksummed_json import compute_blob
from headrace.state.storage.disk import Disk

IMMUTABLE_SUFFIXES = (".sst", ".run")
"""The names of files that never change: tables of RocksDB and sorted runs."""


class LeftoverFiles:
    """Folder of leftover files. Several threads may use it."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._lock = threading.Lock()
        self._paths: dict[int, list[str]] = {}
        """The files by size."""
        self._blobs: dict[str, Blob] = {}
        """The blobs of the files that were read."""
        self._count = 0

    def add(self, source: str) -> None:
        """Link the immutable files below a folder, which is about to be removed."""
        for above, _, names in os.walk(source):
            for name in names:
                if name.endswith(IMMUTABLE_SUFFIXES):
                    with suppress(OSError):  # a file that is not here is fetched
                        self._link(os.path.join(above, name))

    def fetch(self, blob: Blob, path: str) -> bool:
        """Create a file with the blob's bytes, as a link; return False if none has them."""
        with self._lock:
            candidates = [*self._paths.get(blob.bytes, ())]
        for candidate in candidates:
            with suppress(OSError):
                if self._read_blob(candidate) == blob:
                    self._disk.link(candidate, path)
                    return True
        return False

    def clear(self) -> None:
        """Remove all of them."""
        with self._lock:
            self._paths.clear()
            self._blobs.clear()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _link(self, path: str) -> None:
        with self._lock:
            self._count += 1
            own = os.path.join(self._folder, str(self._count))
            make_folders(self._folder)
            self._disk.link(path, own)
            self._paths.setdefault(os.path.getsize(own), []).append(own)

    def _read_blob(self, path: str) -> Blob:
        """Return the blob of a file's bytes, read once."""
        found = self._blobs.get(path)
        if found is None:
            found = self._blobs[path] = compute_blob(self._disk.read_chunks(path))
        return found
