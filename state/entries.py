"""State of an operator that is not kept by key: rows, and how they are dealt out at a restart."""

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
    """What was kept."""

    spread: Spread
    rows: pl.DataFrame | None


@dataclass(slots=True)
class MemoryEntries:
    """The live state."""

    spread: Spread
    rows: pl.DataFrame | None = None

    @property
    def size(self) -> Size:
        """How much it is."""
        rows = self.rows
        return Size() if rows is None else Size(rows.height, int(rows.estimated_size()))

    def freeze(self) -> FrozenEntries:
        """What is kept now."""
        return FrozenEntries(self.spread, self.rows)


def dealt(name: str, restored: Sequence[Frozen], owner: Owner) -> pl.DataFrame | None:
    """The rows that an owner begins with, of those that all subtasks had."""
    import polars as pl

    ordered = sorted((each for each in restored if name in each.names), key=_first)
    spread = ordered[0].shape(name).spread
    if spread is Spread.GROUPS:
        # Where a subtask had ended, nothing is kept of its groups: they go with their neighbour's.
        before = [each for each in ordered if each.groups.start <= owner.groups.start]
        return (before[-1] if before else ordered[0]).entries(name)
    kept = [rows for each in ordered if (rows := each.entries(name)) is not None and rows.height]
    if not kept:
        return None
    if spread is Spread.BROADCAST:
        return kept[0]
    rows = pl.concat(kept) if len(kept) > 1 else kept[0]
    if spread is Spread.LIST:
        # As if row i of n were of the key group i * groups // n: that needs no parallelism.
        groups = pl.int_range(rows.height, eager=True) * owner.key_groups // rows.height
        rows = rows.filter(groups.is_between(owner.groups.start, owner.groups.stop, closed="left"))
    return rows if rows.height else None


def _first(frozen: Frozen) -> int:
    return frozen.groups.start
