"""Thawed state that was partly on disk: read when it is requested."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from headrace.core.api.snapshots import Blob, SnapshotStore
from headrace.core.api.state import EXPIRY, Document, StateDescriptor, StepCounters
from headrace.state.memory.documents import (
    BlobName,
    EntriesDocument,
    load_frozen_state,
    to_blobs,
    to_typed,
)
from headrace.state.memory.entries import FrozenEntries
from headrace.state.memory.frame_blobs import FrameBlobs, decode_frame
from headrace.state.memory.sorted_runs import FrozenRuns
from headrace.state.memory.table_log import FrozenTable
from headrace.state.rocks.database import RocksDatabase
from headrace.state.rocks.disk_rows import DiskRows
from headrace.state.rocks.documents import (
    RocksDocument,
    SpillingRunsDocument,
    SpillingTableDocument,
)
from headrace.state.rocks.frozen_state import FrozenSpillingState, FrozenSpillingStates
from headrace.state.rocks.frozen_table import FrozenSpillingTable
from headrace.state.rocks.run_files import RunFile
from headrace.state.rocks.sorted_runs import FrozenSpillingRuns
from headrace.state.rocks.step_directory import StepDirectory

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


class RocksThawedState:
    """Frozen state read back from a store; its database is opened when rows are read from it."""

    def __init__(
        self, document: Document, store: SnapshotStore, blobs: FrameBlobs, shelf: StepDirectory
    ) -> None:
        whole = to_typed(document, RocksDocument)
        self._document = document
        self._directory = shelf
        self._database_lock = threading.Lock()
        weakref.finalize(self, shelf.close)
        self.store = store
        self.files = {name: _to_blob(blob) for name, blob in whole.database.items()}
        self.groups, self.key_groups = range(*whole.groups), whole.key_groups
        self.clock_us, self.counters = whole.clock_us, StepCounters(whole.late, whole.unfilled)
        self.states: dict[str, FrozenSpillingState] = {
            name: self._load_state(name, state, blobs) for name, state in whole.states.items()
        }
        self._states_reader = FrozenSpillingStates(self.groups, self.key_groups, self.states)

    @property
    def names(self) -> frozenset[str]:
        """Names of all states."""
        return frozenset(self.states)

    def describe_state(self, name: str) -> StateDescriptor:
        """Return the shape of a state."""
        return self._states_reader.describe_state(name)

    def read_runs(self, name: str, groups: range) -> list[pl.DataFrame]:
        """Return the frames of a state of runs, restricted to those key groups."""
        return self._states_reader.read_runs(name, groups)

    def read_table(self, name: str, groups: range) -> pl.DataFrame | None:
        """Return the rows of a table, restricted to those key groups."""
        return self._states_reader.read_table(name, groups)

    def read_entries(self, name: str) -> pl.DataFrame | None:
        """Return the entries of that name."""
        return self._states_reader.read_entries(name)

    def persist(self, store: SnapshotStore) -> Document:
        """Return the document: the state is in the store already."""
        return self._document

    def release(self) -> None:
        """Do nothing: nothing waits for a stored state."""

    def _open_database(self) -> RocksDatabase:
        with self._database_lock:
            if not self._directory.has_database:
                self._directory.restore_database(self.files, self.store)
            return self._directory.get_database()

    def _load_state(
        self,
        name: str,
        document: SpillingRunsDocument | SpillingTableDocument | EntriesDocument,
        blobs: FrameBlobs,
    ) -> FrozenSpillingState:
        if isinstance(document, SpillingRunsDocument):
            return _load_runs(document, self.store, blobs)
        if isinstance(document, SpillingTableDocument):
            return self._load_table(name, document, blobs)
        entries = load_frozen_state(document, self.store, blobs)
        assert isinstance(entries, FrozenEntries)
        return entries

    def _load_table(
        self, name: str, document: SpillingTableDocument, blobs: FrameBlobs
    ) -> FrozenSpillingTable:
        generations = []
        for each in document.generations:
            generation = load_frozen_state(each, self.store, blobs)
            assert isinstance(generation, FrozenTable)
            generations.append(generation)
        gone: tuple[pl.Series, ...] = ()
        if document.gone is not None:
            gone = (blobs.read(to_blobs(document.gone), self.store).to_series(),)
        cold = None
        if document.columns is not None:
            columns = dict(blobs.read(to_blobs(document.columns), self.store).schema)
            columns.pop(EXPIRY)
            cold = DiskRows(self._open_database, name, columns, self.key_groups, are_there=True)
        return FrozenSpillingTable(document.group, tuple(generations), gone, cold)


def _load_runs(
    document: SpillingRunsDocument, store: SnapshotStore, blobs: FrameBlobs
) -> FrozenSpillingRuns:
    memory = load_frozen_state(document.memory, store, blobs)
    assert isinstance(memory, FrozenRuns)
    spilled = tuple(
        RunFile(s.file.blob, s.part, s.level, s.lot, s.first, s.last, s.rows, s.skip, s.file.bytes)
        for s in document.spilled
    )
    files = StoredRunFiles(store, {s.file.blob: _to_blob(s.file) for s in document.spilled})
    return FrozenSpillingRuns(memory, spilled, files)


def _to_blob(name: BlobName) -> Blob:
    return Blob(name.blob, name.bytes)
