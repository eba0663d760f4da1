"""A table in memory to look up in, which takes its time and fails as it is told: for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.core.contracts import FOUND_AT, ConnectorError
from headrace.core.plan import nodes

if TYPE_CHECKING:
    import polars as pl

Key = tuple[object, ...]


@dataclass(slots=True)
class Shelf:
    """Rows, and what happens to calls: each is told by its number, from 0, and its keys."""

    rows: pl.DataFrame
    seconds: Callable[[int, Sequence[Key]], float] = lambda number, keys: 0.0
    fails: Callable[[int, Sequence[Key]], ConnectorError | None] = lambda number, keys: None
    keys_per_call: int = 1 << 31
    calls: list[Sequence[Key]] = field(default_factory=list)
    """The keys of each call, in the order in which they began."""
    at_once: int = 0
    most_at_once: int = 0
    """How many there were at a time."""
    broken_off: int = 0
    """How many were cancelled."""
    closed: int = 0


@dataclass(frozen=True, slots=True)
class MemoryTable:
    """`Table` over a shelf."""

    lookup: nodes.Lookup
    shelf: Shelf

    @property
    def keys_per_call(self) -> int:
        """As the shelf says."""
        return self.shelf.keys_per_call

    async def check(self) -> None:
        """It is there."""

    async def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """The rows of these keys, after a while."""
        shelf, asked = self.shelf, keys.rows()
        number = len(shelf.calls)
        shelf.calls.append(asked)
        shelf.at_once += 1
        shelf.most_at_once = max(shelf.most_at_once, shelf.at_once)
        try:
            await asyncio.sleep(shelf.seconds(number, asked))
        except asyncio.CancelledError:
            shelf.broken_off += 1
            raise
        finally:
            shelf.at_once -= 1
        error = shelf.fails(number, asked)
        if error is not None:
            raise error
        return self._found(keys)

    def _found(self, keys: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        names = keys.columns
        rows = keys.with_row_index(FOUND_AT).join(self.shelf.rows, on=names, how="inner")
        added = (pl.col(found.column).alias(found.field.name) for found in self.lookup.add)
        return rows.select(FOUND_AT, *added)

    async def close(self) -> None:
        """Nothing is open."""
        self.shelf.closed += 1
