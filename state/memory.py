"""The backend `state: {backend: memory}`, also the model that other backends are tested against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.owner import Owner
from headrace.core.sizes import Size, sizes_of
from headrace.core.snapshots import RefusedSnapshot, SnapshotStore
from headrace.core.state import Document, RunsLayout, Spread
from headrace.state.entries import MemoryEntries
from headrace.state.framing import FrameBlobs
from headrace.state.frozen import Kept, MemoryFrozen, thawed, unopened
from headrace.state.runs import MemoryRuns
from headrace.state.table import MemoryTable

if TYPE_CHECKING:
    import polars as pl

SPILLED = "rocksdb"
"""Format of the documents of state that is partly on disk."""


class MemoryBackend:
    """Opens states in the memory of this process."""

    def __init__(self) -> None:
        self._blobs = FrameBlobs()

    def open(self, owner: Owner) -> MemoryState:
        """Open the state of a subtask of a step, including restored state."""
        return MemoryState(owner, self._blobs)

    def thawed(self, document: Document, store: SnapshotStore) -> MemoryFrozen:
        """Read back a stored state at once. Raises SnapshotError."""
        if document.get("format") == SPILLED:
            raise RefusedSnapshot(
                "wanted state that is all in memory, got state that is partly on disk",
                "it was written with `state: {backend: rocksdb}`, which can read it",
            )
        return thawed(document, store, self._blobs)


class MemoryState:
    """State of one subtask of one step."""

    def __init__(self, owner: Owner, blobs: FrameBlobs) -> None:
        self.clock_us = owner.clock_us
        self.counts = owner.counts
        self.beside: dict[str, Callable[[], Size]] = {}
        self._owner = owner
        self._blobs = blobs
        self._unopened = unopened(owner)
        self._entries: dict[str, MemoryEntries] = {}
        self._runs: dict[str, MemoryRuns] = {}
        self._tables: dict[str, MemoryTable] = {}

    def runs(self, name: str, layout: RunsLayout) -> MemoryRuns:
        runs = self._runs[name] = MemoryRuns(layout)
        if kept := self._unopened.pop(name, None):
            runs.restore(kept.frames)
        return runs

    def table(
        self, name: str, columns: Mapping[str, pl.DataType], group: tuple[str, ...] | None = None
    ) -> MemoryTable:
        table = self._tables[name] = MemoryTable(columns, group)
        if kept := self._unopened.pop(name, None):
            if log := kept.log:
                table.adopt(log)
            else:
                for rows in kept.tables:
                    table.put(rows)
        return table

    def entries(self, name: str, spread: Spread) -> MemoryEntries:
        kept = self._unopened.pop(name, None)
        entries = MemoryEntries(spread, kept.rows if kept else None)
        self._entries[name] = entries
        return entries

    def columns(self, name: str) -> Mapping[str, pl.DataType] | None:
        """Return the columns of a restored state that is not open yet."""
        kept = self._unopened.get(name)
        return None if kept is None else kept.columns

    def sizes(self) -> Mapping[str, Size]:
        """Return the size of each open state."""
        return sizes_of({**self._runs, **self._tables, **self._entries}, self.beside)

    def freeze(self) -> MemoryFrozen:
        """Freeze the state: keep references to frames, which never change."""
        runs = {name: runs.freeze() for name, runs in self._runs.items()}
        tables = {name: table.freeze() for name, table in self._tables.items()}
        entries = {name: entries.freeze() for name, entries in self._entries.items()}
        states: Mapping[str, Kept] = {**self._unopened, **runs, **tables, **entries}
        groups, key_groups = self._owner.groups, self._owner.key_groups
        counts = replace(self.counts)
        return MemoryFrozen(groups, key_groups, self.clock_us, counts, states, self._blobs)

    def close(self) -> None:
        """Drop all references to the state."""
        self._runs.clear()
        self._tables.clear()
        self._entries.clear()
        self._unopened.clear()
