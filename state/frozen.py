"""Frozen state in memory: immutable frames, and restored states that are not open yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.owner import Owner, shared
from headrace.core.snapshots import SnapshotStore
from headrace.core.state import KEY, NO_CLOCK_US, SLOT, UNTIL, Counts, Document, Shape
from headrace.state.documents import plain, typed
from headrace.state.entries import FrozenEntries, dealt
from headrace.state.framing import FrameBlobs
from headrace.state.log import FrozenTable, joined
from headrace.state.run import Part
from headrace.state.runs import FrozenRuns
from headrace.state.stored import StepDocument, document_of, frozen_of

if TYPE_CHECKING:
    import polars as pl


Known: TypeAlias = FrozenRuns | FrozenTable | FrozenEntries


class Unopened:
    """A restored state that has not been opened yet.

    Its frames are read once. An operator may open it only when its first rows come, after looking
    at its columns; by then the checkpoint that it was restored from may be gone.
    """

    def __init__(self, name: str, owner: Owner) -> None:
        self._name = name
        self._owner = owner
        self._groups = owner.groups
        self._all = tuple(each for each in owner.restored if name in each.names)
        self._restored = tuple(each for each in self._all if owner.holds(each))

    @cached_property
    def frames(self) -> list[pl.DataFrame]:
        """Frames of a state of runs."""
        return [
            frame
            for each in self._restored
            for frame in each.runs(self._name, shared(self._groups, each.groups))
        ]

    @cached_property
    def tables(self) -> list[pl.DataFrame]:
        """Rows of a table, one frame per restored state; only some frames may have EXPIRY."""
        parts = (
            each.table(self._name, shared(self._groups, each.groups)) for each in self._restored
        )
        return [part for part in parts if part is not None]

    @property
    def log(self) -> FrozenTable | None:
        """Concatenated log of a table, if all of it is in logs in memory."""
        logs = []
        for each in self._restored:
            if not isinstance(each, MemoryFrozen):
                return None
            if log := each.log(self._name, self._groups):
                logs.append(log)
        return joined(logs) if logs else None

    @property
    def columns(self) -> Mapping[str, pl.DataType] | None:
        """Columns that the operator gave the state; None without rows."""
        own = (SLOT, KEY, UNTIL)
        frames = () if isinstance(self.kept, FrozenEntries) else self.kept.frames
        schemas = (frame.schema for frame in frames)
        return next(({n: t for n, t in each.items() if n not in own} for each in schemas), None)

    @property
    def rows(self) -> pl.DataFrame | None:
        """Entries that fall to this owner."""
        return dealt(self._name, self._all, self._owner)

    @cached_property
    def kept(self) -> Known:
        """Frozen form of the state, as if it had been opened and frozen."""
        shape = self._all[0].shape(self._name)
        if shape.spread is not None:
            return FrozenEntries(shape.spread, self.rows)
        if not shape.is_table:
            return FrozenRuns(shape.key or (), tuple(map(Part, self.frames)))
        return self.log or FrozenTable(_alike(self.tables), (), NO_CLOCK_US, shape.key)


def unopened(owner: Owner) -> dict[str, Unopened]:
    """Collect all restored states by name: entries for every owner, others by key group."""
    names = {
        name
        for each in owner.restored
        for name in each.names
        if owner.holds(each) or each.shape(name).spread is not None
    }
    return {name: Unopened(name, owner) for name in sorted(names)}


Kept: TypeAlias = Known | Unopened


@dataclass(frozen=True, slots=True)
class MemoryFrozen:
    """Frozen state of a step, all of it in memory."""

    groups: range
    key_groups: int
    clock_us: int
    counts: Counts
    states: Mapping[str, Kept]
    _blobs: FrameBlobs

    @property
    def names(self) -> frozenset[str]:
        """Names of all states."""
        return frozenset(self.states)

    def shape(self, name: str) -> Shape:
        """Return the shape of a state."""
        kept = _kept(self.states[name])
        if isinstance(kept, FrozenRuns):
            return Shape(is_table=False, key=kept.key)
        if isinstance(kept, FrozenEntries):
            return Shape(is_table=False, key=None, spread=kept.spread)
        return Shape(is_table=True, key=kept.group)

    def runs(self, name: str, groups: range) -> list[pl.DataFrame]:
        """Return the frames of a state of runs, restricted to those key groups."""
        kept = _kept(self.states[name]) if name in self.states else None
        if not isinstance(kept, FrozenRuns):
            return []
        return kept.of_groups(self._part(groups), self.key_groups)

    def table(self, name: str, groups: range) -> pl.DataFrame | None:
        """Return the rows of a table, restricted to those key groups."""
        kept = _kept(self.states[name]) if name in self.states else None
        if not isinstance(kept, FrozenTable):
            return None
        return kept.of_groups(self._part(groups), self.key_groups)

    def entries(self, name: str) -> pl.DataFrame | None:
        """Return the entries of that name."""
        kept = _kept(self.states[name]) if name in self.states else None
        return kept.rows if isinstance(kept, FrozenEntries) else None

    def log(self, name: str, groups: range) -> FrozenTable | None:
        """Return the log of a table, restricted to those key groups; None for other states."""
        kept, part = _kept(self.states[name]), self._part(groups)
        if not isinstance(kept, FrozenTable) or part is None:
            return kept if isinstance(kept, FrozenTable) else None
        return kept.clipped(part, self.key_groups)

    def stored(self, store: SnapshotStore) -> Document:
        """Put the frames into the store."""
        states = {
            name: document_of(_kept(state), store, self._blobs)
            for name, state in self.states.items()
        }
        groups, counts = (self.groups.start, self.groups.stop), self.counts
        return plain(
            StepDocument(
                groups, self.key_groups, self.clock_us, counts.late, counts.unfilled, states
            )
        )

    def release(self) -> None:
        """Do nothing: nothing waits for a state in memory."""

    def _part(self, groups: range) -> range | None:
        """Return the key groups to filter by; None if they include all groups of this state."""
        return None if shared(groups, self.groups) == self.groups else groups


def thawed(document: Document, store: SnapshotStore, blobs: FrameBlobs) -> MemoryFrozen:
    """Read back a state that was stored. Raises DamagedSnapshot."""
    whole = typed(document, StepDocument)
    return MemoryFrozen(
        range(*whole.groups),
        whole.key_groups,
        whole.clock_us,
        Counts(whole.late, whole.unfilled),
        {name: frozen_of(state, store, blobs) for name, state in whole.states.items()},
        blobs,
    )


def _kept(state: Kept) -> Known:
    return state.kept if isinstance(state, Unopened) else state


def _alike(frames: list[pl.DataFrame]) -> tuple[pl.DataFrame, ...]:
    """Give all frames the same columns."""
    import polars as pl

    return (pl.concat(frames, how="diagonal"),) if len(frames) > 1 else tuple(frames)
