"""Snapshots of a step: its clock and counters, and a snapshot of each of its states.

Reads of a step's state by name and by key groups are the same everywhere. What differs is where the
rows of a state are (`StateSnapshot`), and how the step is stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import UnsetType

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import Document, StateDescriptor, StepCounters
from headrace.core.api.state_backend import intersect_ranges
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.documents import (
    ENTRIES,
    RUNS,
    TABLE,
    EntriesDocument,
    FrameStateDocument,
    MetricsDocument,
    RunsDocument,
    StepDocument,
    TableDocument,
    build_metrics_document,
    get_shape_name,
    to_plain,
    to_typed,
)
from headrace.state.memory.entries import FrozenEntries
from headrace.state.memory.frame_blobs import FrameBlobs
from headrace.state.memory.sorted_runs import FrozenRuns
from headrace.state.memory.table_log import FrozenTable

if TYPE_CHECKING:
    import polars as pl


class StateSnapshot(Protocol):
    """The rows of one state at one instant."""

    @property
    def descriptor(self) -> StateDescriptor:
        """Shape of the state."""
        ...

    def read_chunks(self, groups: range | None, key_groups: int) -> Iterator[pl.DataFrame]:
        """Yield the rows of those key groups; None: all rows. Entries are always yielded whole.

        A chunk of runs is a frame, sorted by SLOT. Raises SnapshotError.
        """
        ...


class FrameStateSnapshot(StateSnapshot, Protocol):
    """The rows of one state, to be stored as frames."""

    def persist(self, store: SnapshotStore, blobs: FrameBlobs) -> FrameStateDocument:
        """Put the frames into the store. Raises SnapshotError."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class StepSnapshot(ABC):
    """Snapshot of a step: the `FrozenState` of this package."""

    groups: range
    key_groups: int
    clock_us: int
    counters: StepCounters
    states: Mapping[str, StateSnapshot]

    @property
    def names(self) -> frozenset[str]:
        """Names of all states."""
        return frozenset(self.states)

    def describe_state(self, name: str) -> StateDescriptor:
        """Return the shape of a state."""
        return self.states[name].descriptor

    @property
    def header(self) -> tuple[tuple[int, int], int, int, int, int]:
        """First fields of a document of the step (`StepHeader`)."""
        groups, counts = (self.groups.start, self.groups.stop), self.counters
        return groups, self.key_groups, self.clock_us, counts.late, counts.unfilled

    @property
    def metrics(self) -> MetricsDocument | UnsetType:
        """The document of the metrics of user code, which a header may have."""
        return build_metrics_document(self.counters.metrics)

    def read_runs(self, name: str, groups: range) -> list[pl.DataFrame]:
        """Return the frames of a state of runs, restricted to those key groups."""
        return list(self._read_chunks(name, RUNS, groups))

    def read_table(self, name: str, groups: range) -> pl.DataFrame | None:
        """Return the rows of a table, restricted to those key groups."""
        return _concat_chunks(self._read_chunks(name, TABLE, groups))

    def read_entries(self, name: str) -> pl.DataFrame | None:
        """Return the entries of that name."""
        return _concat_chunks(self._read_chunks(name, ENTRIES, self.groups))

    @abstractmethod
    def persist(self, store: SnapshotStore) -> Document:
        """Put the state into the store, and return its document. Raises SnapshotError."""

    def release(self) -> None:  # noqa: B027 - most snapshots hold nothing
        """Give the state up without storing it."""

    def clip_groups(self, groups: range) -> range | None:
        """Return the key groups to filter by; None if they include all groups of this state."""
        return None if intersect_ranges(groups, self.groups) == self.groups else groups

    def _read_chunks(self, name: str, shape: str, groups: range) -> Iterator[pl.DataFrame]:
        """Yield the rows of a state, if there is one of that name and shape."""
        state = self.states.get(name)
        if state is not None and get_shape_name(state.descriptor) == shape:
            yield from state.read_chunks(self.clip_groups(groups), self.key_groups)


@dataclass(frozen=True, slots=True, eq=False)
class FrameStepSnapshot(StepSnapshot):
    """Snapshot of a step that is stored as frames: of state in memory, or in a savepoint."""

    states: Mapping[str, FrameStateSnapshot]
    blobs: FrameBlobs

    def persist(self, store: SnapshotStore) -> Document:
        """Put the frames into the store."""
        states = {name: state.persist(store, self.blobs) for name, state in self.states.items()}
        return to_plain(StepDocument(*self.header, states, metrics=self.metrics))


FrozenMemoryState: TypeAlias = FrozenRuns | FrozenTable | FrozenEntries


def thaw_frames(document: Document, store: SnapshotStore, blobs: FrameBlobs) -> FrameStepSnapshot:
    """Read back a snapshot that was stored as frames. Raises SnapshotError."""
    whole = to_typed(document, StepDocument)
    states = {name: _load_state(state, store, blobs) for name, state in whole.states.items()}
    return FrameStepSnapshot(*whole.snapshot_fields, states, blobs)


def _load_state(
    document: FrameStateDocument, store: SnapshotStore, blobs: FrameBlobs
) -> FrozenMemoryState:
    match document:
        case RunsDocument():
            return FrozenRuns.load(document, store, blobs)
        case TableDocument():
            return FrozenTable.load(document, store, blobs)
        case EntriesDocument():
            return FrozenEntries.load(document, store, blobs)


def _concat_chunks(chunks: Iterator[pl.DataFrame]) -> pl.DataFrame | None:
    import polars as pl

    parts = list(chunks)
    return pl.concat(parts, how="diagonal") if parts else None
