"""Directory of a step on disk while it runs: a database, run files, and copies for checkpoints.

The directory is created with its first file and removed with the state. SST files of the database
never change and keep their names, so each is hashed once and its blob recorded by its name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping

from headrace.core.api.snapshots import Blob, SnapshotStore
from headrace.state.rocks.database import RocksDatabase, SharedCaches
from headrace.state.rocks.memory_budget import SnapshotGuard
from headrace.state.rocks.run_files import RunFileFolder
from headrace.state.storage.access import make_folders, restrict_new_files
from headrace.state.storage.disk_errors import translate_os_errors

TABLE_SUFFIX = ".sst"
LOG_SUFFIX = ".log"


class StepDirectory:
    """Directory of a step. One thread uses it, while another one calls `persist_database`."""

    def __init__(
        self, folder: str, caches: Callable[[], SharedCaches], guard: SnapshotGuard
    ) -> None:
        self._folder = folder
        self._caches = caches
        self._guard = guard
        self.before_removal: Callable[[str], None] = lambda folder: None
        """Called with the directory before it is removed."""
        self.files = RunFileFolder(os.path.join(folder, "runs"), guard)
        self._database: RocksDatabase | None = None
        self._table_blobs: dict[str, Blob] = {}
        self._copy_count = 0

    @property
    def has_database(self) -> bool:
        """Whether the database was created."""
        return self._database is not None

    def get_database(self) -> RocksDatabase:
        """Return the database, created at the first call."""
        if self._database is None:
            self._database = RocksDatabase(self._database_path, self._caches())
        return self._database

    def restore_database(self, files: Mapping[str, Blob], store: SnapshotStore) -> None:
        """Fetch a stored database from the store, before one is created. Raises SnapshotError.

        It is opened at once: the next checkpoint contains it, also if no row is read until then.
        """
        with translate_os_errors(f"make {self._database_path}"):
            make_folders(self._database_path)
            restrict_new_files(self._database_path)
        for name, blob in files.items():
            is_table = name.endswith(TABLE_SUFFIX)
            # RocksDB writes to its other files, so those must be copies.
            store.fetch(blob, os.path.join(self._database_path, name), link=is_table)
            if is_table:
                self._table_blobs[name] = blob
        if files:
            self.get_database()

    def persist_database(self, store: SnapshotStore) -> dict[str, Blob]:
        """Put the database into the store, if there is one. Raises SnapshotError."""
        if self._database is None:
            self._guard.allow_writes()
            return {}
        self._copy_count += 1
        cut = os.path.join(self._folder, f"cut-{self._copy_count}")
        self._database.copy_to(cut)
        self._guard.allow_writes()
        try:
            names = [name for name in sorted(os.listdir(cut)) if not name.endswith(LOG_SUFFIX)]
            blobs = {name: self._persist_file(cut, name, store) for name in names}
        finally:
            shutil.rmtree(cut, ignore_errors=True)
        self._table_blobs = {
            name: blob for name, blob in blobs.items() if name.endswith(TABLE_SUFFIX)
        }
        return blobs

    def close(self) -> None:
        """Close everything and remove the directory."""
        if self._database is not None:
            self._database.close()
            self._database = None
        self.before_removal(self._folder)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _persist_file(self, cut: str, name: str, store: SnapshotStore) -> Blob:
        known = self._table_blobs.get(name)
        if known is not None and store.has(known):
            return known
        return store.put_file(os.path.join(cut, name))

    @property
    def _database_path(self) -> str:
        return os.path.join(self._folder, "db")
