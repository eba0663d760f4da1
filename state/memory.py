"""State in memory: the model that other backends are held to, and `state: {backend: memory}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.core.state import Counts, Owner, RunsLayout
from headrace.state.runs import FrozenRuns, MemoryRuns
from headrace.state.table import FrozenTable, MemoryTable

if TYPE_CHECKING:
    import polars as pl


class MemoryBackend:
    """Opens states in this process's memory."""

    def open(self, owner: Owner) -> MemoryState:
        """The state of a subtask of a step, with what it is restored from."""
        return MemoryState(owner, owner.clock_us, owner.counts)


@dataclass(slots=True)
class MemoryState:
    """The state of one subtask of one step."""

    owner: Owner
    clock_us: int
    counts: Counts
    _runs: dict[str, MemoryRuns] = field(default_factory=dict)
    _tables: dict[str, MemoryTable] = field(default_factory=dict)

    def runs(self, name: str, layout: RunsLayout) -> MemoryRuns:
        """Open a state of runs."""
        assert name not in self._runs, f"{name} is open"
        runs = self._runs[name] = MemoryRuns(layout)
        for frozen in self.owner.restored:
            if self.owner.holds(frozen):
                runs.restore(frozen.runs(name, self.owner.groups))
        return runs

    def table(
        self, name: str, columns: Mapping[str, pl.DataType], group: tuple[str, ...] | None = None
    ) -> MemoryTable:
        """Open a table."""
        assert name not in self._tables, f"{name} is open"
        table = self._tables[name] = MemoryTable(columns, group)
        for frozen in self.owner.restored:
            if self.owner.holds(frozen):
                rows = frozen.table(name, self.owner.groups)
                if rows is not None:
                    table.put(rows)
        return table

    def freeze(self) -> MemoryFrozen:
        """What is kept now: references to frames that nobody changes."""
        return MemoryFrozen(
            self.owner,
            self.clock_us,
            replace(self.counts),
            {name: runs.freeze() for name, runs in self._runs.items()},
            {name: table.freeze() for name, table in self._tables.items()},
        )

    def close(self) -> None:
        """Let go of everything."""
        self._runs.clear()
        self._tables.clear()


@dataclass(frozen=True, slots=True)
class MemoryFrozen:
    """A state as it was."""

    owner: Owner
    clock_us: int
    counts: Counts
    _runs: Mapping[str, FrozenRuns]
    _tables: Mapping[str, FrozenTable]

    @property
    def groups(self) -> range:
        """The key groups of who owned it."""
        return self.owner.groups

    def runs(self, name: str, groups: range) -> list[pl.DataFrame]:
        """The frames of that state, of those key groups."""
        runs = self._runs.get(name)
        return [] if runs is None else runs.of_groups(groups, self.owner.key_groups)

    def table(self, name: str, groups: range) -> pl.DataFrame | None:
        """The rows of that state, of those key groups."""
        table = self._tables.get(name)
        return None if table is None else table.of_groups(groups, self.owner.key_groups)
