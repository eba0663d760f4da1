"""Snapshot of a step that may be partly on disk; its files do not change until it is stored."""

from __future__ import annotations

from typing import TypeAlias

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import Document
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.documents import to_plain
from headrace.state.memory.entries import FrozenEntries
from headrace.state.memory.frame_blobs import BlobName, FrameBlobs
from headrace.state.memory.sorted_runs import FrozenRuns
from headrace.state.memory.step_snapshot import FrameStepSnapshot, FrozenMemoryState, StepSnapshot
from headrace.state.memory.unopened_state import get_memory_state
from headrace.state.rocks.documents import RocksDocument
from headrace.state.rocks.frozen_table import FrozenSpillingTable
from headrace.state.rocks.memory_budget import SnapshotGuard
from headrace.state.rocks.sorted_runs import FrozenSpillingRuns
from headrace.state.rocks.step_directory import StepDirectory

FrozenSpillingState: TypeAlias = FrozenSpillingRuns | FrozenSpillingTable | FrozenEntries


@dataclass(frozen=True, slots=True, eq=False)
class RocksStepSnapshot(StepSnapshot):
    """Snapshot of a `RocksState`; its files do not change until it is stored or released."""

    blobs: FrameBlobs
    directory: StepDirectory
    guard: SnapshotGuard

    def persist(self, store: SnapshotStore) -> Document:
        """Put database, run files and frames into the store; only then may they change.

        A state that is all in memory is stored as by the memory backend, which can then resume
        from it.
        """
        try:
            database = self.directory.persist_database(store)
            memory_states = {name: _to_memory_state(state) for name, state in self.states.items()}
            in_memory = {name: state for name, state in memory_states.items() if state is not None}
            if not database and len(in_memory) == len(memory_states):
                fields = self.groups, self.key_groups, self.clock_us, self.counters
                return FrameStepSnapshot(*fields, in_memory, self.blobs).persist(store)
            states = {
                name: _to_spilling_state(state).persist(store, self.blobs)
                for name, state in self.states.items()
            }
            files = {name: BlobName.from_blob(blob) for name, blob in database.items()}
            return to_plain(RocksDocument(*self.header, states, files, metrics=self.metrics))
        finally:
            self.guard.allow_changes()

    def release(self) -> None:
        """Allow the files to change."""
        self.guard.allow_changes()


def _to_memory_state(state: object) -> FrozenMemoryState | None:
    """Return the state as one in memory; None if it is partly on disk."""
    if isinstance(state, FrozenSpillingRuns | FrozenSpillingTable):
        return state.memory_state
    return get_memory_state(state)


def _to_spilling_state(state: object) -> FrozenSpillingState:
    """Return a state in memory as a spilling state with nothing on disk; others as they are."""
    if isinstance(state, FrozenSpillingRuns | FrozenSpillingTable | FrozenEntries):
        return state
    memory_state = get_memory_state(state)
    assert memory_state is not None
    if isinstance(memory_state, FrozenEntries):
        return memory_state
    if isinstance(memory_state, FrozenRuns):
        return FrozenSpillingRuns(memory_state, (), None)
    return FrozenSpillingTable(memory_state.group, (memory_state,), (), None)
