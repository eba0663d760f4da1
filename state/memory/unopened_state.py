"""Restored states that are not open yet, and how they are read, opened or stored again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import EXPIRY, KEY, NO_CLOCK_US, SLOT, StateDescriptor
from headrace.core.api.state_backend import StateOwnership, intersect_ranges
from headrace.state.memory.documents import FrameStateDocument
from headrace.state.memory.entries import FrozenEntries, redistribute_entries
from headrace.state.memory.frame_blobs import FrameBlobs
from headrace.state.memory.sorted_run import RunSnapshot
from headrace.state.memory.sorted_runs import FrozenRuns
from headrace.state.memory.step_snapshot import FrozenMemoryState, StepSnapshot
from headrace.state.memory.table_log import FrozenTable, concat_logs

if TYPE_CHECKING:
    import polars as pl


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
            if not isinstance(each, StepSnapshot):
                return None
            table = get_memory_state(each.states[self._name])
            if not isinstance(table, FrozenTable):
                return None
            logs.append(table.clip_to_groups(each.clip_groups(self._groups), each.key_groups))
        return concat_logs(logs) if logs else None

    @property
    def columns(self) -> Mapping[str, pl.DataType] | None:
        """Columns of the rows; None without rows."""
        return self.frozen_state.columns

    @property
    def rows(self) -> pl.DataFrame | None:
        """Entries that fall to this owner."""
        return redistribute_entries(self._name, self._all_restored, self._owner)

    @property
    def descriptor(self) -> StateDescriptor:
        """Shape of the state."""
        return self._all_restored[0].describe_state(self._name)

    @cached_property
    def frozen_state(self) -> FrozenMemoryState:
        """Frozen form of the state, as if it had been opened and frozen."""
        shape = self.descriptor
        if shape.redistribution is not None:
            return FrozenEntries(shape.redistribution, self.rows)
        if not shape.is_table:
            return FrozenRuns(shape.key or (), tuple(map(RunSnapshot, self.frames)))
        return self.log or FrozenTable(_unify_columns(self.tables), (), NO_CLOCK_US, shape.key)

    def read_chunks(self, groups: range | None, key_groups: int) -> Iterator[pl.DataFrame]:
        """Yield the rows of those key groups."""
        return self.frozen_state.read_chunks(groups, key_groups)

    def persist(self, store: SnapshotStore, blobs: FrameBlobs) -> FrameStateDocument:
        """Put the frames into the store."""
        return self.frozen_state.persist(store, blobs)


def collect_unopened(owner: StateOwnership) -> dict[str, UnopenedState]:
    """Collect all restored states by name: entries for every owner, others by key group."""
    names = {
        name
        for each in owner.restored_states
        for name in each.names
        if owner.overlaps(each) or each.describe_state(name).redistribution is not None
    }
    return {name: UnopenedState(name, owner) for name in sorted(names)}


def get_memory_state(state: object) -> FrozenMemoryState | None:
    """Return a state that is all in memory, the frozen form of an unopened one; None for others."""
    if isinstance(state, UnopenedState):
        return state.frozen_state
    return state if isinstance(state, FrozenRuns | FrozenTable | FrozenEntries) else None


def strip_own_columns(
    columns: Mapping[str, pl.DataType] | None,
) -> Mapping[str, pl.DataType] | None:
    """Return the columns that the operator gave a state; None if it has no rows."""
    own = (SLOT, KEY, EXPIRY)
    return columns and {name: type for name, type in columns.items() if name not in own}


def _unify_columns(frames: list[pl.DataFrame]) -> tuple[pl.DataFrame, ...]:
    """Give all frames the same columns."""
    import polars as pl

    return (pl.concat(frames, how="diagonal"),) if len(frames) > 1 else tuple(frames)
