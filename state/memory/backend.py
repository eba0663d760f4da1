"""The backend `state: {backend: memory}`, also the model that other backends are tested against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headrace.core.api.snapshots import RefusedSnapshot, SnapshotStore
from headrace.core.api.state import Document, Redistribution, RunsLayout
from headrace.core.api.state_backend import StateOwnership
from headrace.core.api.state_sizes import StateSize, measure_states
from headrace.state.memory.entries import MemoryEntries
from headrace.state.memory.frame_blobs import FrameBlobs
from headrace.state.memory.sorted_runs import MemoryRuns
from headrace.state.memory.step_snapshot import (
    FrameStateSnapshot,
    FrameStepSnapshot,
    thaw_frames,
)
from headrace.state.memory.table import MemoryKeyedTable
from headrace.state.memory.unopened_state import collect_unopened, strip_own_columns

if TYPE_CHECKING:
    import polars as pl

SPILLED_FORMAT = "rocksdb"
"""Format of the documents of state that is partly on disk."""


class MemoryBackend:
    """Opens states in the memory of this process."""

    def __init__(self) -> None:
        self._blobs = FrameBlobs()

    def open_state(self, owner: StateOwnership) -> MemoryState:
        """Open the state of a subtask of a step, including restored state."""
        return MemoryState(owner, self._blobs)

    def thaw(self, document: Document, store: SnapshotStore) -> FrameStepSnapshot:
        """Read back a stored state at once. Raises SnapshotError."""
        if document.get("format") == SPILLED_FORMAT:
            raise RefusedSnapshot(
                "wanted state that is all in memory, got state that is partly on disk",
                "it was written with `state: {backend: rocksdb}`, which can read it",
            )
        return thaw_frames(document, store, self._blobs)


class MemoryState:
    """State of one subtask of one step."""

    def __init__(self, owner: StateOwnership, blobs: FrameBlobs) -> None:
        self.clock_us = owner.clock_us
        self.counters = owner.counters
        self.buffered_sizes: dict[str, Callable[[], StateSize]] = {}
        self._owner = owner
        self._blobs = blobs
        self._unopened_states = collect_unopened(owner)
        self._entries: dict[str, MemoryEntries] = {}
        self._runs: dict[str, MemoryRuns] = {}
        self._tables: dict[str, MemoryKeyedTable] = {}

    def open_runs(self, name: str, layout: RunsLayout) -> MemoryRuns:
        runs = self._runs[name] = MemoryRuns(layout)
        if restored_state := self._unopened_states.pop(name, None):
            runs.restore(restored_state.frames)
        return runs

    def open_table(
        self, name: str, columns: Mapping[str, pl.DataType], group: tuple[str, ...] | None = None
    ) -> MemoryKeyedTable:
        table = self._tables[name] = MemoryKeyedTable(columns, group)
        if restored_state := self._unopened_states.pop(name, None):
            if log := restored_state.log:
                table.adopt(log)
            else:
                for rows in restored_state.tables:
                    table.put(rows)
        return table

    def open_entries(self, name: str, spread: Redistribution) -> MemoryEntries:
        restored_state = self._unopened_states.pop(name, None)
        entries = MemoryEntries(spread, restored_state.rows if restored_state else None)
        self._entries[name] = entries
        return entries

    def get_restored_columns(self, name: str) -> Mapping[str, pl.DataType] | None:
        """Return the columns of a restored state that is not open yet."""
        restored_state = self._unopened_states.get(name)
        return None if restored_state is None else strip_own_columns(restored_state.columns)

    def measure_sizes(self) -> Mapping[str, StateSize]:
        """Return the size of each open state."""
        return measure_states({**self._runs, **self._tables, **self._entries}, self.buffered_sizes)

    def freeze(self) -> FrameStepSnapshot:
        """Freeze the state: keep references to frames, which never change."""
        runs = {name: runs.freeze() for name, runs in self._runs.items()}
        tables = {name: table.freeze() for name, table in self._tables.items()}
        entries = {name: entries.freeze() for name, entries in self._entries.items()}
        states: Mapping[str, FrameStateSnapshot] = {
            **self._unopened_states,
            **runs,
            **tables,
            **entries,
        }
        groups, key_groups = self._owner.groups, self._owner.key_groups
        counts = self.counters.copy()
        return FrameStepSnapshot(groups, key_groups, self.clock_us, counts, states, self._blobs)

    def close(self) -> None:
        """Drop all references to the state."""
        self._runs.clear()
        self._tables.clear()
        self._entries.clear()
        self._unopened_states.clear()
