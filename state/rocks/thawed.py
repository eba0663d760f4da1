"""Thawed state that was partly on disk: read when it is requested."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from headrace.core.snapshots import Blob, SnapshotStore
from headrace.core.state import UNTIL, Counts, Document, Shape
from headrace.state.documents import typed
from headrace.state.entries import FrozenEntries
from headrace.state.framing import FrameBlobs, decoded
from headrace.state.log import FrozenTable
from headrace.state.rocks.cold import ColdRows
from headrace.state.rocks.database import Database
from headrace.state.rocks.documents import (
    RocksDocument,
    SpillingRunsDocument,
    SpillingTableDocument,
)
from headrace.state.rocks.frozen import Spilling, SpillingStates
from headrace.state.rocks.frozen_table import FrozenSpillingTable
from headrace.state.rocks.runs import FrozenSpillingRuns
from headrace.state.rocks.shelf import Shelf
from headrace.state.rocks.spilled import Spilled
from headrace.state.runs import FrozenRuns
from headrace.state.stored import BlobName, EntriesDocument, blobs_of, frozen_of

if TYPE_CHECKING:
    import polars as pl


class StoredFiles:
    """Run files in a snapshot store, named by their blobs."""

    def __init__(self, store: SnapshotStore, blobs: dict[str, Blob]) -> None:
        self.store = store
        self._blobs = blobs

    def read(self, spilled: Spilled) -> pl.DataFrame:
        """Return the rows left in a file. Raises DamagedSnapshot."""
        return decoded(self.store.read(self.blob(spilled))).slice(spilled.skip)

    def blob(self, spilled: Spilled) -> Blob:
        """Return the blob of a file."""
        return self._blobs[spilled.file]

    def stored(self, spilled: Spilled, store: SnapshotStore) -> Blob:
        """Return the blob: the file is in the store already."""
        return self.blob(spilled)


class RocksThawed:
    """Frozen state read back from a store; its database is opened when rows are read from it."""

    def __init__(
        self, document: Document, store: SnapshotStore, blobs: FrameBlobs, shelf: Shelf
    ) -> None:
        whole = typed(document, RocksDocument)
        self._document = document
        self._shelf = shelf
        self._opening = threading.Lock()
        weakref.finalize(self, shelf.close)
        self.store = store
        self.files = {name: _blob(blob) for name, blob in whole.database.items()}
        self.groups, self.key_groups = range(*whole.groups), whole.key_groups
        self.clock_us, self.counts = whole.clock_us, Counts(whole.late, whole.unfilled)
        self.states: dict[str, Spilling] = {
            name: self._state(name, state, blobs) for name, state in whole.states.items()
        }
        self._readable = SpillingStates(self.groups, self.key_groups, self.states)

    @property
    def names(self) -> frozenset[str]:
        """Names of all states."""
        return frozenset(self.states)

    def shape(self, name: str) -> Shape:
        """Return the shape of a state."""
        return self._readable.shape(name)

    def runs(self, name: str, groups: range) -> list[pl.DataFrame]:
        """Return the frames of a state of runs, restricted to those key groups."""
        return self._readable.runs(name, groups)

    def table(self, name: str, groups: range) -> pl.DataFrame | None:
        """Return the rows of a table, restricted to those key groups."""
        return self._readable.table(name, groups)

    def entries(self, name: str) -> pl.DataFrame | None:
        """Return the entries of that name."""
        return self._readable.entries(name)

    def stored(self, store: SnapshotStore) -> Document:
        """Return the document: the state is in the store already."""
        return self._document

    def release(self) -> None:
        """Do nothing: nothing waits for a stored state."""

    def _database(self) -> Database:
        with self._opening:
            if not self._shelf.has_database:
                self._shelf.adopt(self.files, self.store)
            return self._shelf.database()

    def _state(
        self,
        name: str,
        document: SpillingRunsDocument | SpillingTableDocument | EntriesDocument,
        blobs: FrameBlobs,
    ) -> Spilling:
        if isinstance(document, SpillingRunsDocument):
            return _runs(document, self.store, blobs)
        if isinstance(document, SpillingTableDocument):
            return self._table(name, document, blobs)
        entries = frozen_of(document, self.store, blobs)
        assert isinstance(entries, FrozenEntries)
        return entries

    def _table(
        self, name: str, document: SpillingTableDocument, blobs: FrameBlobs
    ) -> FrozenSpillingTable:
        generations = []
        for each in document.generations:
            generation = frozen_of(each, self.store, blobs)
            assert isinstance(generation, FrozenTable)
            generations.append(generation)
        gone: tuple[pl.Series, ...] = ()
        if document.gone is not None:
            gone = (blobs.read(blobs_of(document.gone), self.store).to_series(),)
        cold = None
        if document.columns is not None:
            columns = dict(blobs.read(blobs_of(document.columns), self.store).schema)
            columns.pop(UNTIL)
            cold = ColdRows(self._database, name, columns, self.key_groups, are_there=True)
        return FrozenSpillingTable(document.group, tuple(generations), gone, cold)


def _runs(
    document: SpillingRunsDocument, store: SnapshotStore, blobs: FrameBlobs
) -> FrozenSpillingRuns:
    memory = frozen_of(document.memory, store, blobs)
    assert isinstance(memory, FrozenRuns)
    spilled = tuple(
        Spilled(s.file.blob, s.part, s.level, s.lot, s.first, s.last, s.rows, s.skip, s.file.bytes)
        for s in document.spilled
    )
    files = StoredFiles(store, {s.file.blob: _blob(s.file) for s in document.spilled})
    return FrozenSpillingRuns(memory, spilled, files)


def _blob(name: BlobName) -> Blob:
    return Blob(name.blob, name.bytes)
