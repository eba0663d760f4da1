"""Snapshot of a step that was stored partly on disk: read from the store when it is requested."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core.api.snapshots import Blob, SnapshotStore
from headrace.core.api.state import EXPIRY, Document
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.documents import EntriesDocument, to_typed
from headrace.state.memory.entries import FrozenEntries
from headrace.state.memory.frame_blobs import FrameBlobs, decode_frame
from headrace.state.memory.sorted_runs import FrozenRuns
from headrace.state.memory.step_snapshot import StepSnapshot
from headrace.state.memory.table_log import FrozenTable
from headrace.state.rocks.database import RocksDatabase
from headrace.state.rocks.disk_rows import DiskRows
from headrace.state.rocks.documents import (
    RocksDocument,
    SpillingRunsDocument,
    SpillingTableDocument,
)
from headrace.state.rocks.frozen_table import FrozenSpillingTable
from headrace.state.rocks.run_files import RunFile
from headrace.state.rocks.sorted_runs import FrozenSpillingRuns
from headrace.state.rocks.step_directory import StepDirectory
from headrace.state.rocks.step_snapshot import FrozenSpillingState

if TYPE_CHECKING:
    import polars as pl


class StoredRunFiles:
    """Run files in a snapshot store, named by their blobs."""

    def __init__(self, store: SnapshotStore, blobs: dict[str, Blob]) -> None:
        self.store = store
        self._blobs = blobs

    def read(self, spilled: RunFile) -> pl.DataFrame:
        """Return the rows left in a file. Raises DamagedSnapshot."""
        return decode_frame(self.store.read(self.get_blob(spilled))).slice(spilled.skip)

    def get_blob(self, spilled: RunFile) -> Blob:
        """Return the blob of a file."""
        return self._blobs[spilled.file]

    def persist(self, spilled: RunFile, store: SnapshotStore) -> Blob:
        """Return the blob: the file is in the store already."""
        return self.get_blob(spilled)


class StoredDatabase:
    """Database in a snapshot store, opened in a directory of its own when rows are read from it.

    The directory is removed when nothing refers to the database any more.
    """

    def __init__(
        self, files: Mapping[str, Blob], store: SnapshotStore, directory: StepDirectory
    ) -> None:
        self.files = files
        self.store = store
        self._directory = directory
        self._lock = threading.Lock()
        weakref.finalize(self, directory.close)

    def open(self) -> RocksDatabase:
        """Return the database, fetched at the first call. Raises SnapshotError."""
        with self._lock:
            if not self._directory.has_database:
                self._directory.restore_database(self.files, self.store)
            return self._directory.get_database()


@dataclass(frozen=True, slots=True, eq=False)
class ThawedRocksSnapshot(StepSnapshot):
    """Snapshot read back from a store."""

    states: Mapping[str, FrozenSpillingState]
    document: Document
    database: StoredDatabase

    def persist(self, store: SnapshotStore) -> Document:
        """Return the document: the state is in the store already."""
        return self.document


def thaw_rocks_snapshot(
    document: Document, store: SnapshotStore, blobs: FrameBlobs, directory: StepDirectory
) -> ThawedRocksSnapshot:
    """Read back a stored snapshot, but not its files. Raises SnapshotError."""
    whole = to_typed(document, RocksDocument)
    files = {name: blob.to_blob() for name, blob in whole.database.items()}
    database = StoredDatabase(files, store, directory)
    states: dict[str, FrozenSpillingState] = {}
    for name, state in whole.states.items():
        match state:
            case SpillingRunsDocument():
                states[name] = _load_runs(state, store, blobs)
            case SpillingTableDocument():
                table = _load_table(name, state, database, blobs, whole.key_groups)
                states[name] = table
            case EntriesDocument():
                states[name] = FrozenEntries.load(state, store, blobs)
    return ThawedRocksSnapshot(*whole.snapshot_fields, states, document, database)


def _load_runs(
    document: SpillingRunsDocument, store: SnapshotStore, blobs: FrameBlobs
) -> FrozenSpillingRuns:
    spilled = tuple(
        RunFile(s.file.blob, s.part, s.level, s.lot, s.first, s.last, s.rows, s.skip, s.file.bytes)
        for s in document.spilled
    )
    files = StoredRunFiles(store, {s.file.blob: s.file.to_blob() for s in document.spilled})
    return FrozenSpillingRuns(FrozenRuns.load(document.memory, store, blobs), spilled, files)


def _load_table(
    name: str,
    document: SpillingTableDocument,
    database: StoredDatabase,
    blobs: FrameBlobs,
    key_groups: int,
) -> FrozenSpillingTable:
    store = database.store
    memtables = tuple(FrozenTable.load(each, store, blobs) for each in document.generations)
    tombstones: tuple[pl.Series, ...] = ()
    if document.gone is not None:
        tombstones = (blobs.read(document.gone, store).to_series(),)
    rows = None
    if document.columns is not None:
        columns = dict(blobs.read(document.columns, store).schema)
        columns.pop(EXPIRY)
        rows = DiskRows(database.open, name, columns, key_groups, are_there=True)
    return FrozenSpillingTable(document.group, memtables, tombstones, rows)
