"""Frozen state in memory: immutable frames, and restored states that are not open yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import (
    EXPIRY,
    KEY,
    NO_CLOCK_US,
    SLOT,
    Document,
    StateDescriptor,
    StepCounters,
)
from headrace.core.api.state_backend import StateOwnership, intersect_ranges
from headrace.state.memory.documents import (
    StepDocument,
    load_frozen_state,
    persist_frozen_state,
    to_plain,
    to_typed,
)
from headrace.state.memory.entries import FrozenEntries, redistribute_entries
from headrace.state.memory.frame_blobs import FrameBlobs
from headrace.state.memory.sorted_run import RunSnapshot
from headrace.state.memory.sorted_runs import FrozenRuns
from headrace.state.memory.table_log import FrozenTable, concat_logs

if TYPE_CHECKING:
    import polars as pl


FrozenNamedState: TypeAlias = FrozenRuns | FrozenTable | FrozenEntries


class UnopenedState:
    """A restored state that has not been opened yet.

    Its frames are read once. An operator may open it only when its first rows come, after looking
    at its columns; by then the checkpoint that it was restored from may be gone.
    """

    def __init__(self, name: str, owner: StateOwnership) -> None:
        self._name = name
        self._owner = owner
        self._groups = owner.groups
        self._all_restored = tuple(each for each in owner.restored_states if name in each.names)
        self._owned_restored = tuple(each for each in self._all_restored if owner.overlaps(each))

    @cached_property
    def frames(self) -> list[pl.DataFrame]:
        """Frames of a state of runs."""
        return [
            frame
            for each in self._owned_restored
            for frame in each.read_runs(self._name, intersect_ranges(self._groups, each.groups))
        ]

    @cached_property
    def tables(self) -> list[pl.DataFrame]:
        """Rows of a table, one frame per restored state; only some frames may have EXPIRY."""
        parts = (
            each.read_table(self._name, intersect_ranges(self._groups, each.groups))
            for each in self._owned_restored
        )
        return [part for part in parts if part is not None]

    @property
    def log(self) -> FrozenTable | None:
        """Concatenated log of a table, if all of it is in logs in memory."""
        logs = []
        for each in self._owned_restored:
            if not isinstance(each, MemoryFrozenState):
                return None
            if log := each.get_table_log(self._name, self._groups):
                logs.append(log)
        return concat_logs(logs) if logs else None

    @property
    def columns(self) -> Mapping[str, pl.DataType] | None:
        """Columns that the operator gave the state; None without rows."""
        own = (SLOT, KEY, EXPIRY)
        frames = () if isinstance(self.frozen_state, FrozenEntries) else self.frozen_state.frames
        schemas = (frame.schema for frame in frames)
        return next(({n: t for n, t in each.items() if n not in own} for each in schemas), None)

    @property
    def rows(self) -> pl.DataFrame | None:
        """Entries that fall to this owner."""
        return redistribute_entries(self._name, self._all_restored, self._owner)

    @cached_property
    def frozen_state(self) -> FrozenNamedState:
        """Frozen form of the state, as if it had been opened and frozen."""
        shape = self._all_restored[0].describe_state(self._name)
        if shape.redistribution is not None:
            return FrozenEntries(shape.redistribution, self.rows)
        if not shape.is_table:
            return FrozenRuns(shape.key or (), tuple(map(RunSnapshot, self.frames)))
        return self.log or FrozenTable(_unify_columns(self.tables), (), NO_CLOCK_US, shape.key)


def collect_unopened(owner: StateOwnership) -> dict[str, UnopenedState]:
    """Collect all restored states by name: entries for every owner, others by key group."""
    names = {
        name
        for each in owner.restored_states
        for name in each.names
        if owner.overlaps(each) or each.describe_state(name).redistribution is not None
    }
    return {name: UnopenedState(name, owner) for name in sorted(names)}


FrozenOrUnopened: TypeAlias = FrozenNamedState | UnopenedState


@dataclass(frozen=True, slots=True)
class MemoryFrozenState:
    """Frozen state of a step, all of it in memory."""

    groups: range
    key_groups: int
    clock_us: int
    counters: StepCounters
    states: Mapping[str, FrozenOrUnopened]
    _blobs: FrameBlobs

    @property
    def names(self) -> frozenset[str]:
        """Names of all states."""
        return frozenset(self.states)

    def describe_state(self, name: str) -> StateDescriptor:
        """Return the shape of a state."""
        kept = _resolve(self.states[name])
        if isinstance(kept, FrozenRuns):
            return StateDescriptor(is_table=False, key=kept.key)
        if isinstance(kept, FrozenEntries):
            return StateDescriptor(is_table=False, key=None, redistribution=kept.redistribution)
        return StateDescriptor(is_table=True, key=kept.group)

    def read_runs(self, name: str, groups: range) -> list[pl.DataFrame]:
        """Return the frames of a state of runs, restricted to those key groups."""
        kept = _resolve(self.states[name]) if name in self.states else None
        if not isinstance(kept, FrozenRuns):
            return []
        return kept.read_groups(self._clip_groups(groups), self.key_groups)

    def read_table(self, name: str, groups: range) -> pl.DataFrame | None:
        """Return the rows of a table, restricted to those key groups."""
        kept = _resolve(self.states[name]) if name in self.states else None
        if not isinstance(kept, FrozenTable):
            return None
        return kept.read_groups(self._clip_groups(groups), self.key_groups)

    def read_entries(self, name: str) -> pl.DataFrame | None:
        """Return the entries of that name."""
        kept = _resolve(self.states[name]) if name in self.states else None
        return kept.rows if isinstance(kept, FrozenEntries) else None

    def get_table_log(self, name: str, groups: range) -> FrozenTable | None:
        """Return the log of a table, restricted to those key groups; None for other states."""
        kept, part = _resolve(self.states[name]), self._clip_groups(groups)
        if not isinstance(kept, FrozenTable) or part is None:
            return kept if isinstance(kept, FrozenTable) else None
        return kept.clip_to_groups(part, self.key_groups)

    def persist(self, store: SnapshotStore) -> Document:
        """Put the frames into the store."""
        states = {
            name: persist_frozen_state(_resolve(state), store, self._blobs)
            for name, state in self.states.items()
        }
        groups, counts = (self.groups.start, self.groups.stop), self.counters
        return to_plain(
            StepDocument(
                groups, self.key_groups, self.clock_us, counts.late, counts.unfilled, states
            )
        )

    def release(self) -> None:
        """Do nothing: nothing waits for a state in memory."""

    def _clip_groups(self, groups: range) -> range | None:
        """Return the key groups to filter by; None if they include all groups of this state."""
        return None if intersect_ranges(groups, self.groups) == self.groups else groups


def thaw_memory_state(
    document: Document, store: SnapshotStore, blobs: FrameBlobs
) -> MemoryFrozenState:
    """Read back a state that was stored. Raises DamagedSnapshot."""
    whole = to_typed(document, StepDocument)
    return MemoryFrozenState(
        range(*whole.groups),
        whole.key_groups,
        whole.clock_us,
        StepCounters(whole.late, whole.unfilled),
        {name: load_frozen_state(state, store, blobs) for name, state in whole.states.items()},
        blobs,
    )


def _resolve(state: FrozenOrUnopened) -> FrozenNamedState:
    return state.frozen_state if isinstance(state, UnopenedState) else state


def _unify_columns(frames: list[pl.DataFrame]) -> tuple[pl.DataFrame, ...]:
    """Give all frames the same columns."""
    import polars as pl

    return (pl.concat(frames, how="diagonal"),) if len(frames) > 1 else tuple(frames)
