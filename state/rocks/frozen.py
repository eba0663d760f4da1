"""Frozen state of a step, partly on disk; its files do not change until it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.keygroups import key_group
from headrace.core.owner import shared
from headrace.core.snapshots import Blob, SnapshotStore
from headrace.core.state import Counts, Document, Shape
from headrace.state.documents import plain
from headrace.state.entries import FrozenEntries
from headrace.state.framing import FrameBlobs
from headrace.state.frozen import Kept, MemoryFrozen, Unopened
from headrace.state.rocks.budget import Gate
from headrace.state.rocks.documents import (
    RocksDocument,
    SpilledDocument,
    SpillingRunsDocument,
    SpillingTableDocument,
)
from headrace.state.rocks.frozen_table import FrozenSpillingTable
from headrace.state.rocks.runs import FrozenSpillingRuns
from headrace.state.rocks.shelf import Shelf
from headrace.state.runs import FrozenRuns
from headrace.state.stored import (
    BlobName,
    EntriesDocument,
    RunsDocument,
    TableDocument,
    document_of,
    named,
)

if TYPE_CHECKING:
    import polars as pl

Spilling: TypeAlias = FrozenSpillingRuns | FrozenSpillingTable | FrozenEntries
Spillable: TypeAlias = Kept | Spilling


@dataclass(frozen=True, slots=True)
class SpillingStates:
    """States of a step by name, and reads of them."""

    groups: range
    key_groups: int
    states: Mapping[str, Spillable]

    def shape(self, name: str) -> Shape:
        """Return the shape of a state."""
        state = known(self.states[name])
        if isinstance(state, FrozenSpillingTable):
            return Shape(is_table=True, key=state.group)
        if isinstance(state, FrozenEntries):
            return Shape(is_table=False, key=None, spread=state.spread)
        return Shape(is_table=False, key=state.memory.key)

    def runs(self, name: str, groups: range) -> list[pl.DataFrame]:
        """Return the frames of a state of runs, restricted to those key groups."""
        state = known(self.states[name]) if name in self.states else None
        if not isinstance(state, FrozenSpillingRuns):
            return []
        part = self._part(groups)
        found = list(state.memory.of_groups(part, self.key_groups))
        for spilled in state.spilled:
            frame = state.read(spilled)
            if part is not None:
                of = key_group(frame, state.memory.key, self.key_groups)
                frame = frame.filter(of.is_between(part.start, part.stop, closed="left"))
            if frame.height:
                found.append(frame)
        return found

    def table(self, name: str, groups: range) -> pl.DataFrame | None:
        """Return the rows of a table, restricted to those key groups."""
        state = known(self.states[name]) if name in self.states else None
        if not isinstance(state, FrozenSpillingTable):
            return None
        return state.of_groups(self._part(groups), self.key_groups)

    def entries(self, name: str) -> pl.DataFrame | None:
        """Return the entries of that name."""
        state = known(self.states[name]) if name in self.states else None
        return state.rows if isinstance(state, FrozenEntries) else None

    def _part(self, groups: range) -> range | None:
        """Return the key groups to filter by; None if they include all groups of this state."""
        return None if shared(groups, self.groups) == self.groups else groups


def known(state: Spillable) -> Spilling:
    """Return a state in memory as a spilling state with nothing on disk; others as they are."""
    if isinstance(state, FrozenSpillingRuns | FrozenSpillingTable | FrozenEntries):
        return state
    kept = state.kept if isinstance(state, Unopened) else state
    if isinstance(kept, FrozenEntries):
        return kept
    if isinstance(kept, FrozenRuns):
        return FrozenSpillingRuns(kept, (), None)
    return FrozenSpillingTable(kept.group, (kept,), (), None)


class RocksFrozen:
    """Frozen state of a `RocksState`; its files do not change until it is stored or released."""

    def __init__(
        self,
        states: SpillingStates,
        clock_us: int,
        counts: Counts,
        blobs: FrameBlobs,
        shelf: Shelf,
        gate: Gate,
    ) -> None:
        self._states = states
        self.groups, self.clock_us, self.counts = states.groups, clock_us, counts
        self._blobs, self._shelf, self._gate = blobs, shelf, gate

    @property
    def names(self) -> frozenset[str]:
        """Names of all states."""
        return frozenset(self._states.states)

    def shape(self, name: str) -> Shape:
        """Return the shape of a state."""
        return self._states.shape(name)

    def runs(self, name: str, groups: range) -> list[pl.DataFrame]:
        """Return the frames of a state of runs, restricted to those key groups."""
        return self._states.runs(name, groups)

    def table(self, name: str, groups: range) -> pl.DataFrame | None:
        """Return the rows of a table, restricted to those key groups."""
        return self._states.table(name, groups)

    def entries(self, name: str) -> pl.DataFrame | None:
        """Return the entries of that name."""
        return self._states.entries(name)

    def stored(self, store: SnapshotStore) -> Document:
        """Put database, run files and frames into the store; only then may they change."""
        try:
            database = self._shelf.stored(store)
            states = {name: known(state) for name, state in self._states.states.items()}
            if not database and all(map(_in_memory, states.values())):
                return self._as_in_memory(states).stored(store)
            return plain(self._document(states, database, store))
        finally:
            self._gate.open()

    def release(self) -> None:
        """Allow the files to change."""
        self._gate.open()

    def _as_in_memory(self, states: Mapping[str, Spilling]) -> MemoryFrozen:
        """Return the same state as of the memory backend, which can then resume from it."""
        kept: dict[str, Kept] = {name: _memory(state) for name, state in states.items()}
        key_groups = self._states.key_groups
        return MemoryFrozen(self.groups, key_groups, self.clock_us, self.counts, kept, self._blobs)

    def _document(
        self,
        states: Mapping[str, Spilling],
        database: Mapping[str, Blob],
        store: SnapshotStore,
    ) -> RocksDocument:
        return RocksDocument(
            (self.groups.start, self.groups.stop),
            self._states.key_groups,
            self.clock_us,
            self.counts.late,
            self.counts.unfilled,
            {name: _stored(state, store, self._blobs) for name, state in states.items()},
            {name: _name(blob) for name, blob in database.items()},
        )


def _in_memory(state: Spilling) -> bool:
    if isinstance(state, FrozenEntries):
        return True
    if isinstance(state, FrozenSpillingRuns):
        return not state.spilled
    return state.cold is None and len(state.generations) == 1


def _memory(state: Spilling) -> Kept:
    """Return the part of a state that is in memory, which is all of it."""
    if isinstance(state, FrozenEntries):
        return state
    return state.memory if isinstance(state, FrozenSpillingRuns) else state.generations[0]


def _stored(
    state: Spilling, store: SnapshotStore, blobs: FrameBlobs
) -> SpillingRunsDocument | SpillingTableDocument | EntriesDocument:
    if isinstance(state, FrozenSpillingRuns):
        return _runs(state, store, blobs)
    if isinstance(state, FrozenSpillingTable):
        return _table(state, store, blobs)
    document = document_of(state, store, blobs)
    assert isinstance(document, EntriesDocument)
    return document


def _runs(
    state: FrozenSpillingRuns, store: SnapshotStore, blobs: FrameBlobs
) -> SpillingRunsDocument:
    memory = document_of(state.memory, store, blobs)
    assert isinstance(memory, RunsDocument)
    spilled = [
        SpilledDocument(
            _name(state.put(s, store)),
            *(s.part, s.level, s.lot, s.first, s.last, s.rows, s.skip),
        )
        for s in state.spilled
    ]
    return SpillingRunsDocument(memory, spilled)


def _table(
    state: FrozenSpillingTable, store: SnapshotStore, blobs: FrameBlobs
) -> SpillingTableDocument:
    import polars as pl

    generations = []
    for generation in state.generations:
        document = document_of(generation, store, blobs)
        assert isinstance(document, TableDocument)
        generations.append(document)
    gone = columns = None
    if state.gone:
        gone = named(blobs.put(pl.concat(state.gone).to_frame(), store))
    if state.cold is not None:
        columns = named(blobs.put(pl.DataFrame(schema=state.cold.columns), store))
    return SpillingTableDocument(state.group, generations, gone, columns)


def _name(blob: Blob) -> BlobName:
    return BlobName(blob.hash, blob.bytes)
