"""Operator state that has no key: rows, and their redistribution at a restart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.owner import Owner
from headrace.core.sizes import Size
from headrace.core.state import Frozen, Spread

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class FrozenEntries:
    """Entries as they were when the state was frozen."""

    spread: Spread
    rows: pl.DataFrame | None


@dataclass(slots=True)
class MemoryEntries:
    """Live entries."""

    spread: Spread
    rows: pl.DataFrame | None = None

    @property
    def size(self) -> Size:
        rows = self.rows
        return Size() if rows is None else Size(rows.height, int(rows.estimated_size()))

    def freeze(self) -> FrozenEntries:
        return FrozenEntries(self.spread, self.rows)


def dealt(name: str, restored: Sequence[Frozen], owner: Owner) -> pl.DataFrame | None:
    """Return the rows that an owner starts with, of the entries of all subtasks."""
    import polars as pl

    ordered = sorted((each for each in restored if name in each.names), key=_first)
    spread = ordered[0].shape(name).spread
    if spread is Spread.GROUPS:
        # A finished subtask stores nothing: its key groups take their neighbour's entries.
        before = [each for each in ordered if each.groups.start <= owner.groups.start]
        return (before[-1] if before else ordered[0]).entries(name)
    kept = [rows for each in ordered if (rows := each.entries(name)) is not None and rows.height]
    if not kept:
        return None
    if spread is Spread.BROADCAST:
        return kept[0]
    rows = pl.concat(kept) if len(kept) > 1 else kept[0]
    if spread is Spread.LIST:
        # Row i of n counts as being in key group i * groups // n, whatever the parallelism.
        groups = pl.int_range(rows.height, eager=True) * owner.key_groups // rows.height
        rows = rows.filter(groups.is_between(owner.groups.start, owner.groups.stop, closed="left"))
    return rows if rows.height else None


def _first(frozen: Frozen) -> int:
    return frozen.groups.start
