"""Live state of a subtask of a step, in memory as far as the budget allows, and on disk beyond."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.owner import Owner
from headrace.core.sizes import Size, sizes_of
from headrace.core.state import KEY, SLOT, UNTIL, RunsLayout, Spread
from headrace.state.entries import FrozenEntries, MemoryEntries
from headrace.state.framing import FrameBlobs
from headrace.state.frozen import Unopened, unopened
from headrace.state.rocks.budget import Budget, Gate
from headrace.state.rocks.cold import ColdRows
from headrace.state.rocks.frozen import RocksFrozen, Spillable, SpillingStates
from headrace.state.rocks.frozen_table import FrozenSpillingTable
from headrace.state.rocks.runs import FrozenSpillingRuns, SpillingRuns
from headrace.state.rocks.shelf import Shelf
from headrace.state.rocks.table import SpillingTable
from headrace.state.rocks.thawed import RocksThawed, StoredFiles

if TYPE_CHECKING:
    import polars as pl


class RocksState:
    """State of one subtask of one step.

    State restored for the same key groups is taken over with its files; other restored state is
    read and put.
    """

    def __init__(
        self, owner: Owner, blobs: FrameBlobs, budget: Budget, shelf: Shelf, gate: Gate
    ) -> None:
        self.clock_us = owner.clock_us
        self.counts = owner.counts
        self.beside: dict[str, Callable[[], Size]] = {}
        self._owner = owner
        self._blobs, self._budget, self._shelf, self._gate = blobs, budget, shelf, gate
        self._runs: dict[str, SpillingRuns] = {}
        self._tables: dict[str, SpillingTable] = {}
        self._entries: dict[str, MemoryEntries] = {}
        self._unopened: dict[str, Unopened] = {}
        self._adopted: dict[str, FrozenSpillingRuns | FrozenSpillingTable] = {}
        restored = tuple(each for each in owner.restored if owner.holds(each))
        if len(restored) == 1 and self._fits(restored[0]):
            self._adopt(restored[0])
        else:
            self._unopened = unopened(owner)

    def runs(self, name: str, layout: RunsLayout) -> SpillingRuns:
        owner = self._owner
        runs = self._runs[name] = SpillingRuns(
            layout, owner.groups, owner.key_groups, self._shelf.files, self._budget
        )
        adopted = self._adopted.pop(name, None)
        if isinstance(adopted, FrozenSpillingRuns):
            runs.adopt(adopted)
        elif kept := self._unopened.pop(name, None):
            runs.restore(kept.frames)
        return runs

    def table(
        self, name: str, columns: Mapping[str, pl.DataType], group: tuple[str, ...] | None = None
    ) -> SpillingTable:
        adopted = self._adopted.pop(name, None)
        cold = adopted.cold if isinstance(adopted, FrozenSpillingTable) else None
        if cold is None:
            cold = ColdRows(self._shelf.database, name, columns, self._owner.key_groups)
        table = SpillingTable(columns, group, cold, self._budget, self._gate)
        self._tables[name] = table
        if isinstance(adopted, FrozenSpillingTable):
            table.adopt(adopted)
        elif kept := self._unopened.pop(name, None):
            if log := kept.log:
                table.adopt(FrozenSpillingTable(log.group, (log,), (), None))
            else:
                for rows in kept.tables:
                    table.restore(rows)
        return table

    def entries(self, name: str, spread: Spread) -> MemoryEntries:
        """Open entries; they are always in memory."""
        kept = self._unopened.pop(name, None)
        entries = self._entries[name] = MemoryEntries(spread, kept.rows if kept else None)
        return entries

    def columns(self, name: str) -> Mapping[str, pl.DataType] | None:
        """Return the columns of a restored state that is not open yet."""
        adopted = self._adopted.get(name)
        if adopted is not None:
            own = (SLOT, KEY, UNTIL)
            columns = adopted.columns()
            return columns and {name: type for name, type in columns.items() if name not in own}
        kept = self._unopened.get(name)
        return None if kept is None else kept.columns

    def sizes(self) -> Mapping[str, Size]:
        """Return the size of each open state."""
        return sizes_of({**self._runs, **self._tables, **self._entries}, self.beside)

    def freeze(self) -> RocksFrozen:
        """Freeze the state: keep references to frames and files; the database is copied later."""
        runs = {name: runs.freeze() for name, runs in self._runs.items()}
        tables = {name: table.freeze() for name, table in self._tables.items()}
        entries = {name: entries.freeze() for name, entries in self._entries.items()}
        closed: Mapping[str, Spillable] = {**self._unopened, **self._adopted}
        states = {**closed, **runs, **tables, **entries}
        every = SpillingStates(self._owner.groups, self._owner.key_groups, states)
        self._gate.shut()
        counts = replace(self.counts)
        return RocksFrozen(every, self.clock_us, counts, self._blobs, self._shelf, self._gate)

    def close(self) -> None:
        """Close everything and remove the files."""
        for runs in self._runs.values():
            runs.close()
        for table in self._tables.values():
            table.close()
        self._runs.clear()
        self._tables.clear()
        self._entries.clear()
        self._unopened.clear()
        self._adopted.clear()
        self._shelf.close()

    def _fits(self, restored: object) -> bool:
        return (
            isinstance(restored, RocksThawed)
            and restored.groups == self._owner.groups
            and restored.key_groups == self._owner.key_groups
        )

    def _adopt(self, thawed: object) -> None:
        """Take over the files and frames of a state with the same key groups."""
        assert isinstance(thawed, RocksThawed)
        self._shelf.adopt(thawed.files, thawed.store)
        every = unopened(self._owner)
        for name, state in thawed.states.items():
            if isinstance(state, FrozenEntries):
                continue
            if isinstance(state, FrozenSpillingRuns):
                self._adopted[name] = self._runs_of(state)
            elif state.cold is None:
                self._adopted[name] = state
            else:
                cold = state.cold.elsewhere(self._shelf.database)
                self._adopted[name] = replace(state, cold=cold)
        self._unopened = {name: kept for name, kept in every.items() if name not in self._adopted}

    def _runs_of(self, state: FrozenSpillingRuns) -> FrozenSpillingRuns:
        if not state.spilled:
            return state
        stored = state.files
        assert isinstance(stored, StoredFiles)
        files = self._shelf.files
        spilled = tuple(
            files.adopt(each, stored.blob(each), stored.store) for each in state.spilled
        )
        return FrozenSpillingRuns(state.memory, spilled, files)
