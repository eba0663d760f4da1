"""Live state of a subtask of a step, in memory as far as the budget allows, and on disk beyond."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.api.state import Redistribution, RunsLayout
from headrace.core.api.state_backend import StateOwnership
from headrace.core.api.state_sizes import StateSize, measure_states
from headrace.state.memory.entries import FrozenEntries, MemoryEntries
from headrace.state.memory.frame_blobs import FrameBlobs
from headrace.state.memory.step_snapshot import StateSnapshot
from headrace.state.memory.unopened_state import (
    UnopenedState,
    collect_unopened,
    strip_own_columns,
)
from headrace.state.rocks.disk_rows import DiskRows
from headrace.state.rocks.frozen_table import FrozenSpillingTable
from headrace.state.rocks.memory_budget import MemoryBudget, SnapshotGuard
from headrace.state.rocks.sorted_runs import FrozenSpillingRuns, SpillingRuns
from headrace.state.rocks.step_directory import StepDirectory
from headrace.state.rocks.step_snapshot import RocksStepSnapshot
from headrace.state.rocks.table import SpillingTable
from headrace.state.rocks.thawed_snapshot import StoredRunFiles, ThawedRocksSnapshot

if TYPE_CHECKING:
    import polars as pl


class RocksState:
    """State of one subtask of one step.

    State restored for the same key groups is taken over with its files; other restored state is
    read and put.
    """

    def __init__(
        self,
        owner: StateOwnership,
        blobs: FrameBlobs,
        budget: MemoryBudget,
        directory: StepDirectory,
        guard: SnapshotGuard,
    ) -> None:
        self.clock_us = owner.clock_us
        self.counters = owner.counters
        self.buffered_sizes: dict[str, Callable[[], StateSize]] = {}
        self._owner = owner
        self._blobs, self._budget, self._directory, self._guard = blobs, budget, directory, guard
        self._runs: dict[str, SpillingRuns] = {}
        self._tables: dict[str, SpillingTable] = {}
        self._entries: dict[str, MemoryEntries] = {}
        self._unopened_states: dict[str, UnopenedState] = {}
        self._adopted_states: dict[str, FrozenSpillingRuns | FrozenSpillingTable] = {}
        restored = tuple(each for each in owner.restored_states if owner.overlaps(each))
        if len(restored) == 1 and self._can_adopt(restored[0]):
            self._adopt(restored[0])
        else:
            self._unopened_states = collect_unopened(owner)

    def open_runs(self, name: str, layout: RunsLayout) -> SpillingRuns:
        owner = self._owner
        runs = self._runs[name] = SpillingRuns(
            layout, owner.groups, owner.key_groups, self._directory.files, self._budget
        )
        adopted = self._adopted_states.pop(name, None)
        if isinstance(adopted, FrozenSpillingRuns):
            runs.adopt(adopted)
        elif restored_state := self._unopened_states.pop(name, None):
            runs.restore(restored_state.frames)
        return runs

    def open_table(
        self, name: str, columns: Mapping[str, pl.DataType], group: tuple[str, ...] | None = None
    ) -> SpillingTable:
        adopted = self._adopted_states.pop(name, None)
        disk_rows = adopted.disk_rows if isinstance(adopted, FrozenSpillingTable) else None
        if disk_rows is None:
            disk_rows = DiskRows(
                self._directory.get_database, name, columns, self._owner.key_groups
            )
        table = SpillingTable(columns, group, disk_rows, self._budget, self._guard)
        self._tables[name] = table
        if isinstance(adopted, FrozenSpillingTable):
            table.adopt(adopted)
        elif restored_state := self._unopened_states.pop(name, None):
            if log := restored_state.log:
                table.adopt(FrozenSpillingTable(log.group, (log,), (), None))
            else:
                for rows in restored_state.tables:
                    table.restore(rows)
        return table

    def open_entries(self, name: str, spread: Redistribution) -> MemoryEntries:
        """Open entries; they are always in memory."""
        restored_state = self._unopened_states.pop(name, None)
        entries = self._entries[name] = MemoryEntries(
            spread, restored_state.rows if restored_state else None
        )
        return entries

    def get_restored_columns(self, name: str) -> Mapping[str, pl.DataType] | None:
        """Return the columns of a restored state that is not open yet."""
        restored_state = self._adopted_states.get(name) or self._unopened_states.get(name)
        return None if restored_state is None else strip_own_columns(restored_state.columns)

    def measure_sizes(self) -> Mapping[str, StateSize]:
        """Return the size of each open state."""
        return measure_states({**self._runs, **self._tables, **self._entries}, self.buffered_sizes)

    def freeze(self) -> RocksStepSnapshot:
        """Freeze the state: keep references to frames and files; the database is copied later."""
        runs = {name: runs.freeze() for name, runs in self._runs.items()}
        tables = {name: table.freeze() for name, table in self._tables.items()}
        entries = {name: entries.freeze() for name, entries in self._entries.items()}
        closed: Mapping[str, StateSnapshot] = {**self._unopened_states, **self._adopted_states}
        states = {**closed, **runs, **tables, **entries}
        self._guard.forbid_changes()
        return RocksStepSnapshot(
            self._owner.groups,
            self._owner.key_groups,
            self.clock_us,
            self.counters.copy(),
            states,
            self._blobs,
            self._directory,
            self._guard,
        )

    def close(self) -> None:
        """Close everything and remove the files."""
        for runs in self._runs.values():
            runs.close()
        for table in self._tables.values():
            table.close()
        self._runs.clear()
        self._tables.clear()
        self._entries.clear()
        self._unopened_states.clear()
        self._adopted_states.clear()
        self._directory.close()

    def _can_adopt(self, restored: object) -> bool:
        return (
            isinstance(restored, ThawedRocksSnapshot)
            and restored.groups == self._owner.groups
            and restored.key_groups == self._owner.key_groups
        )

    def _adopt(self, thawed: object) -> None:
        """Take over the files and frames of a state with the same key groups."""
        assert isinstance(thawed, ThawedRocksSnapshot)
        self._directory.restore_database(thawed.database.files, thawed.database.store)
        every = collect_unopened(self._owner)
        for name, state in thawed.states.items():
            if isinstance(state, FrozenEntries):
                continue
            if isinstance(state, FrozenSpillingRuns):
                self._adopted_states[name] = self._adopt_runs(state)
            elif state.disk_rows is None:
                self._adopted_states[name] = state
            else:
                disk_rows = state.disk_rows.with_database(self._directory.get_database)
                self._adopted_states[name] = replace(state, disk_rows=disk_rows)
        self._unopened_states = {
            name: frozen for name, frozen in every.items() if name not in self._adopted_states
        }

    def _adopt_runs(self, state: FrozenSpillingRuns) -> FrozenSpillingRuns:
        if not state.run_files:
            return state
        stored = state.file_store
        assert isinstance(stored, StoredRunFiles)
        files = self._directory.files
        spilled = tuple(
            files.restore(each, stored.get_blob(each), stored.store) for each in state.run_files
        )
        return FrozenSpillingRuns(state.memory, spilled, files)
