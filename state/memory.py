"""State in memory: the model that other backends are held to, and `state: {backend: memory}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.core.state import Counts, Frozen, Owner, RunsLayout, shared
from headrace.state.runs import FrozenRuns, MemoryRuns
from headrace.state.table import FrozenTable, MemoryTable

if TYPE_CHECKING:
    import polars as pl


class MemoryBackend:
    """Opens states in this process's memory."""

    def open(self, owner: Owner) -> MemoryState:
        """The state of a subtask of a step, with what it is restored from."""
        return MemoryState(owner)


class MemoryState:
    """The state of one subtask of one step."""

    def __init__(self, owner: Owner) -> None:
        self.clock_us = owner.clock_us
        self.counts = owner.counts
        self._owner = owner
        self._restored = tuple(each for each in owner.restored if owner.holds(each))
        self._unopened = frozenset[str]().union(*(each.names for each in self._restored))
        self._runs: dict[str, MemoryRuns] = {}
        self._tables: dict[str, MemoryTable] = {}

    def runs(self, name: str, layout: RunsLayout) -> MemoryRuns:
        """Open a state of runs."""
        runs = self._runs[name] = MemoryRuns(layout)
        for frozen in self._opened(name):
            runs.restore(frozen.runs(name, self._owner.groups))
        return runs

    def table(
        self, name: str, columns: Mapping[str, pl.DataType], group: tuple[str, ...] | None = None
    ) -> MemoryTable:
        """Open a table."""
        table = self._tables[name] = MemoryTable(columns, group)
        for frozen in self._opened(name):
            rows = frozen.table(name, self._owner.groups)
            if rows is not None:
                table.put(rows)
        return table

    def freeze(self) -> MemoryFrozen:
        """What is kept now: references to frames that nobody changes."""
        return MemoryFrozen(
            self._owner.groups,
            self._owner.key_groups,
            self.clock_us,
            replace(self.counts),
            {name: runs.freeze() for name, runs in self._runs.items()},
            {name: table.freeze() for name, table in self._tables.items()},
            self._unopened,
            self._restored,
        )

    def close(self) -> None:
        """Let go of everything."""
        self._runs.clear()
        self._tables.clear()
        self._restored = ()

    def _opened(self, name: str) -> tuple[Frozen, ...]:
        """What a state begins with; when all have begun, nothing of before is needed any more."""
        restored, self._unopened = self._restored, self._unopened - {name}
        if not self._unopened:
            self._restored = ()
        return restored


@dataclass(frozen=True, slots=True)
class MemoryFrozen:
    """A state as it was."""

    groups: range
    key_groups: int
    clock_us: int
    counts: Counts
    _runs: Mapping[str, FrozenRuns]
    _tables: Mapping[str, FrozenTable]
    _unopened: frozenset[str]
    _restored: tuple[Frozen, ...]
    """Where the states still are that were not opened since."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all states."""
        return self._unopened.union(self._runs, self._tables)

    def runs(self, name: str, groups: range) -> list[pl.DataFrame]:
        """The frames of that state, of those key groups."""
        if name in self._unopened:
            within = shared(groups, self.groups)
            return [frame for each in self._restored for frame in each.runs(name, within)]
        runs = self._runs.get(name)
        return [] if runs is None else runs.of_groups(groups, self.key_groups)

    def table(self, name: str, groups: range) -> pl.DataFrame | None:
        """The rows of that state, of those key groups."""
        if name in self._unopened:
            within = shared(groups, self.groups)
            parts = (each.table(name, within) for each in self._restored)
            rows = [part for part in parts if part is not None]
            return _aligned(rows) if rows else None
        table = self._tables.get(name)
        return None if table is None else table.of_groups(groups, self.key_groups)


def _aligned(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """All rows: those of some have UNTIL, those of others need not."""
    import polars as pl

    return pl.concat(frames, how="diagonal")
