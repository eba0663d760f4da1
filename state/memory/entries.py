"""Operator state that has no key: rows, and their redistribution at a restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import FrozenState, Redistribution, StateDescriptor
from headrace.core.api.state_backend import StateOwnership
from headrace.core.api.state_sizes import StateSize
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.documents import EntriesDocument
from headrace.state.memory.frame_blobs import FrameBlobs

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class FrozenEntries:
    """Entries as they were when the state was frozen."""

    redistribution: Redistribution
    rows: pl.DataFrame | None

    @classmethod
    def load(
        cls, document: EntriesDocument, store: SnapshotStore, blobs: FrameBlobs
    ) -> FrozenEntries:
        """Read stored entries back. Raises SnapshotError."""
        rows = None if document.rows is None else blobs.read(document.rows, store)
        return cls(document.spread, rows)

    @property
    def descriptor(self) -> StateDescriptor:
        return StateDescriptor(is_table=False, key=None, redistribution=self.redistribution)

    @property
    def columns(self) -> None:
        """None: operators know the columns of their entries."""

    def read_chunks(self, groups: range | None, key_groups: int) -> Iterator[pl.DataFrame]:
        """Yield all rows: they have no key group."""
        if self.rows is not None:
            yield self.rows

    def persist(self, store: SnapshotStore, blobs: FrameBlobs) -> EntriesDocument:
        """Put the rows into the store."""
        rows = None if self.rows is None else blobs.put(self.rows, store)
        return EntriesDocument(self.redistribution, rows)


@dataclass(slots=True)
class MemoryEntries:
    """Live entries."""

    redistribution: Redistribution
    rows: pl.DataFrame | None = None

    @property
    def size(self) -> StateSize:
        rows = self.rows
        return StateSize() if rows is None else StateSize(rows.height, int(rows.estimated_size()))

    def freeze(self) -> FrozenEntries:
        return FrozenEntries(self.redistribution, self.rows)


def redistribute_entries(
    name: str, restored: Sequence[FrozenState], owner: StateOwnership
) -> pl.DataFrame | None:
    """Return the rows that an owner starts with, of the entries of all subtasks."""
    import polars as pl

    ordered = sorted((each for each in restored if name in each.names), key=_get_first_group)
    spread = ordered[0].describe_state(name).redistribution
    if spread is Redistribution.GROUPS:
        # A finished subtask stores nothing: its key groups take their neighbour's entries.
        before = [each for each in ordered if each.groups.start <= owner.groups.start]
        return (before[-1] if before else ordered[0]).read_entries(name)
    frames = [
        rows for each in ordered if (rows := each.read_entries(name)) is not None and rows.height
    ]
    if not frames:
        return None
    if spread is Redistribution.BROADCAST:
        return frames[0]
    rows = pl.concat(frames) if len(frames) > 1 else frames[0]
    if spread is Redistribution.LIST:
        # Row i of n counts as being in key group i * groups // n, whatever the parallelism.
        groups = pl.int_range(rows.height, eager=True) * owner.key_groups // rows.height
        rows = rows.filter(groups.is_between(owner.groups.start, owner.groups.stop, closed="left"))
    return rows if rows.height else None


def _get_first_group(frozen: FrozenState) -> int:
    return frozen.groups.start
