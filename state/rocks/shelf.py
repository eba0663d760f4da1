"""Directory of a step on disk while it runs: a database, run files, and copies for checkpoints.

The directory is created with its first file and removed with the state. SST files of the database
never change and keep their names, so each is hashed once and its blob recorded by its name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping

from headrace.core.snapshots import Blob, SnapshotStore
from headrace.state.rocks.budget import Gate
from headrace.state.rocks.database import Caches, Database
from headrace.state.rocks.spilled import RunFiles

TABLE = ".sst"
LOG = ".log"


class Shelf:
    """Directory of a step. One thread uses it, while another one calls `persist_database`."""

    def __init__(self, folder: str, caches: Callable[[], Caches], gate: Gate) -> None:
        self._folder = folder
        self._caches = caches
        self._gate = gate
        self.files = RunFiles(os.path.join(folder, "runs"), gate)
        self._database: Database | None = None
        self._tables: dict[str, Blob] = {}
        self._cuts = 0

    @property
    def has_database(self) -> bool:
        """Whether the database was created."""
        return self._database is not None

    def database(self) -> Database:
        """Return the database, created at the first call."""
        if self._database is None:
            self._database = Database(self._path, self._caches())
        return self._database

    def adopt(self, files: Mapping[str, Blob], store: SnapshotStore) -> None:
        """Fetch a stored database from the store, before one is created. Raises SnapshotError."""
        os.makedirs(self._path, exist_ok=True)
        for name, blob in files.items():
            is_table = name.endswith(TABLE)
            # RocksDB writes to its other files, so those must be copies.
            store.fetch(blob, os.path.join(self._path, name), link=is_table)
            if is_table:
                self._tables[name] = blob

    def stored(self, store: SnapshotStore) -> dict[str, Blob]:
        """Put the database into the store, if there is one. Raises SnapshotError."""
        if self._database is None:
            self._gate.cut()
            return {}
        self._cuts += 1
        cut = os.path.join(self._folder, f"cut-{self._cuts}")
        self._database.cut(cut)
        self._gate.cut()
        try:
            names = [name for name in sorted(os.listdir(cut)) if not name.endswith(LOG)]
            blobs = {name: self._blob(cut, name, store) for name in names}
        finally:
            shutil.rmtree(cut, ignore_errors=True)
        self._tables = {name: blob for name, blob in blobs.items() if name.endswith(TABLE)}
        return blobs

    def close(self) -> None:
        """Close everything and remove the directory."""
        if self._database is not None:
            self._database.close()
            self._database = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _blob(self, cut: str, name: str, store: SnapshotStore) -> Blob:
        known = self._tables.get(name)
        if known is not None and store.has(known):
            return known
        return store.put_file(os.path.join(cut, name))

    @property
    def _path(self) -> str:
        return os.path.join(self._folder, "db")
