"""Frozen state of a step, partly on disk; its files do not change until it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.snapshots import Blob, SnapshotStore
from headrace.core.api.state import Document, StateDescriptor, StepCounters
from headrace.core.api.state_backend import intersect_ranges
from headrace.core.types.key_groups import compute_row_groups
from headrace.state.memory.documents import (
    BlobName,
    EntriesDocument,
    RunsDocument,
    TableDocument,
    persist_frozen_state,
    to_blob_names,
    to_plain,
)
from headrace.state.memory.entries import FrozenEntries
from headrace.state.memory.frame_blobs import FrameBlobs
from headrace.state.memory.frozen_state import FrozenOrUnopened, MemoryFrozenState, UnopenedState
from headrace.state.memory.sorted_runs import FrozenRuns
from headrace.state.rocks.documents import (
    RocksDocument,
    SpilledDocument,
    SpillingRunsDocument,
    SpillingTableDocument,
)
from headrace.state.rocks.frozen_table import FrozenSpillingTable
from headrace.state.rocks.memory_budget import SnapshotGuard
from headrace.state.rocks.sorted_runs import FrozenSpillingRuns
from headrace.state.rocks.step_directory import StepDirectory

if TYPE_CHECKING:
    import polars as pl

FrozenSpillingState: TypeAlias = FrozenSpillingRuns | FrozenSpillingTable | FrozenEntries
FreezableState: TypeAlias = FrozenOrUnopened | FrozenSpillingState


@dataclass(frozen=True, slots=True)
class FrozenSpillingStates:
    """States of a step by name, and reads of them."""

    groups: range
    key_groups: int
    states: Mapping[str, FreezableState]

    def describe_state(self, name: str) -> StateDescriptor:
        """Return the shape of a state."""
        state = to_spilling_state(self.states[name])
        if isinstance(state, FrozenSpillingTable):
            return StateDescriptor(is_table=True, key=state.group)
        if isinstance(state, FrozenEntries):
            return StateDescriptor(is_table=False, key=None, redistribution=state.redistribution)
        return StateDescriptor(is_table=False, key=state.memory.key)

    def read_runs(self, name: str, groups: range) -> list[pl.DataFrame]:
        """Return the frames of a state of runs, restricted to those key groups."""
        state = to_spilling_state(self.states[name]) if name in self.states else None
        if not isinstance(state, FrozenSpillingRuns):
            return []
        part = self._clip_groups(groups)
        found = list(state.memory.read_groups(part, self.key_groups))
        for spilled in state.run_files:
            frame = state.read_file(spilled)
            if part is not None:
                of = compute_row_groups(frame, state.memory.key, self.key_groups)
                frame = frame.filter(of.is_between(part.start, part.stop, closed="left"))
            if frame.height:
                found.append(frame)
        return found

    def read_table(self, name: str, groups: range) -> pl.DataFrame | None:
        """Return the rows of a table, restricted to those key groups."""
        state = to_spilling_state(self.states[name]) if name in self.states else None
        if not isinstance(state, FrozenSpillingTable):
            return None
        return state.read_groups(self._clip_groups(groups), self.key_groups)

    def read_entries(self, name: str) -> pl.DataFrame | None:
        """Return the entries of that name."""
        state = to_spilling_state(self.states[name]) if name in self.states else None
        return state.rows if isinstance(state, FrozenEntries) else None

    def _clip_groups(self, groups: range) -> range | None:
        """Return the key groups to filter by; None if they include all groups of this state."""
        return None if intersect_ranges(groups, self.groups) == self.groups else groups


def to_spilling_state(state: FreezableState) -> FrozenSpillingState:
    """Return a state in memory as a spilling state with nothing on disk; others as they are."""
    if isinstance(state, FrozenSpillingRuns | FrozenSpillingTable | FrozenEntries):
        return state
    kept = state.frozen_state if isinstance(state, UnopenedState) else state
    if isinstance(kept, FrozenEntries):
        return kept
    if isinstance(kept, FrozenRuns):
        return FrozenSpillingRuns(kept, (), None)
    return FrozenSpillingTable(kept.group, (kept,), (), None)


class RocksFrozenState:
    """Frozen state of a `RocksState`; its files do not change until it is stored or released."""

    def __init__(
        self,
        states: FrozenSpillingStates,
        clock_us: int,
        counts: StepCounters,
        blobs: FrameBlobs,
        shelf: StepDirectory,
        gate: SnapshotGuard,
    ) -> None:
        self._states = states
        self.groups, self.clock_us, self.counters = states.groups, clock_us, counts
        self._blobs, self._directory, self._guard = blobs, shelf, gate

    @property
    def names(self) -> frozenset[str]:
        """Names of all states."""
        return frozenset(self._states.states)

    def describe_state(self, name: str) -> StateDescriptor:
        """Return the shape of a state."""
        return self._states.describe_state(name)

    def read_runs(self, name: str, groups: range) -> list[pl.DataFrame]:
        """Return the frames of a state of runs, restricted to those key groups."""
        return self._states.read_runs(name, groups)

    def read_table(self, name: str, groups: range) -> pl.DataFrame | None:
        """Return the rows of a table, restricted to those key groups."""
        return self._states.read_table(name, groups)

    def read_entries(self, name: str) -> pl.DataFrame | None:
        """Return the entries of that name."""
        return self._states.read_entries(name)

    def persist(self, store: SnapshotStore) -> Document:
        """Put database, run files and frames into the store; only then may they change."""
        try:
            database = self._directory.persist_database(store)
            states = {name: to_spilling_state(state) for name, state in self._states.states.items()}
            if not database and all(map(_is_in_memory, states.values())):
                return self._to_memory_state(states).persist(store)
            return to_plain(self._build_document(states, database, store))
        finally:
            self._guard.allow_changes()

    def release(self) -> None:
        """Allow the files to change."""
        self._guard.allow_changes()

    def _to_memory_state(self, states: Mapping[str, FrozenSpillingState]) -> MemoryFrozenState:
        """Return the same state as of the memory backend, which can then resume from it."""
        kept: dict[str, FrozenOrUnopened] = {
            name: _get_memory_state(state) for name, state in states.items()
        }
        key_groups = self._states.key_groups
        return MemoryFrozenState(
            self.groups, key_groups, self.clock_us, self.counters, kept, self._blobs
        )

    def _build_document(
        self,
        states: Mapping[str, FrozenSpillingState],
        database: Mapping[str, Blob],
        store: SnapshotStore,
    ) -> RocksDocument:
        return RocksDocument(
            (self.groups.start, self.groups.stop),
            self._states.key_groups,
            self.clock_us,
            self.counters.late,
            self.counters.unfilled,
            {name: _persist_state(state, store, self._blobs) for name, state in states.items()},
            {name: _to_blob_name(blob) for name, blob in database.items()},
        )


def _is_in_memory(state: FrozenSpillingState) -> bool:
    if isinstance(state, FrozenEntries):
        return True
    if isinstance(state, FrozenSpillingRuns):
        return not state.run_files
    return state.disk_rows is None and len(state.memtables) == 1


def _get_memory_state(state: FrozenSpillingState) -> FrozenOrUnopened:
    """Return the part of a state that is in memory, which is all of it."""
    if isinstance(state, FrozenEntries):
        return state
    return state.memory if isinstance(state, FrozenSpillingRuns) else state.memtables[0]


def _persist_state(
    state: FrozenSpillingState, store: SnapshotStore, blobs: FrameBlobs
) -> SpillingRunsDocument | SpillingTableDocument | EntriesDocument:
    if isinstance(state, FrozenSpillingRuns):
        return _persist_runs(state, store, blobs)
    if isinstance(state, FrozenSpillingTable):
        return _persist_table(state, store, blobs)
    document = persist_frozen_state(state, store, blobs)
    assert isinstance(document, EntriesDocument)
    return document


def _persist_runs(
    state: FrozenSpillingRuns, store: SnapshotStore, blobs: FrameBlobs
) -> SpillingRunsDocument:
    memory = persist_frozen_state(state.memory, store, blobs)
    assert isinstance(memory, RunsDocument)
    spilled = [
        SpilledDocument(
            _to_blob_name(state.persist_file(s, store)),
            *(s.partition, s.level, s.run_number, s.first_slot, s.last_slot, s.rows, s.skip),
        )
        for s in state.run_files
    ]
    return SpillingRunsDocument(memory, spilled)


def _persist_table(
    state: FrozenSpillingTable, store: SnapshotStore, blobs: FrameBlobs
) -> SpillingTableDocument:
    import polars as pl

    generations = []
    for generation in state.memtables:
        document = persist_frozen_state(generation, store, blobs)
        assert isinstance(document, TableDocument)
        generations.append(document)
    gone = columns = None
    if state.tombstones:
        gone = to_blob_names(blobs.put(pl.concat(state.tombstones).to_frame(), store))
    if state.disk_rows is not None:
        columns = to_blob_names(blobs.put(pl.DataFrame(schema=state.disk_rows.columns), store))
    return SpillingTableDocument(state.group, generations, gone, columns)


def _to_blob_name(blob: Blob) -> BlobName:
    return BlobName(blob.hash, blob.bytes)
