"""What one step has on disk while it runs: a database, files of runs, and copies for checkpoints.

The folder is made with the first thing in it, and goes with the state. Large files of the database
never change and keep their names, so each is hashed once, and its blob remembered by its name.
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
    """The folder of a step. One thread uses it, and another one calls `stored`."""

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
        """Whether there is one yet."""
        return self._database is not None

    def database(self) -> Database:
        """The database, made when it is asked for."""
        if self._database is None:
            self._database = Database(self._path, self._caches())
        return self._database

    def adopt(self, files: Mapping[str, Blob], store: SnapshotStore) -> None:
        """Have the database that was stored, before there is one. Raises SnapshotError."""
        os.makedirs(self._path, exist_ok=True)
        for name, blob in files.items():
            is_table = name.endswith(TABLE)
            # Other files are written to: they have to be copies.
            store.fetch(blob, os.path.join(self._path, name), link=is_table)
            if is_table:
                self._tables[name] = blob

    def stored(self, store: SnapshotStore) -> dict[str, Blob]:
        """Have the database in the store, if there is one. Raises SnapshotError."""
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
        """Let go of everything, and remove it."""
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
