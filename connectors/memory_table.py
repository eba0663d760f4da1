"""A lookup table in memory with configurable delays and failures: for tests."""

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
    """Rows of a table, and the delay or failure of each call, by its number from 0 and its keys."""

    rows: pl.DataFrame
    seconds: Callable[[int, Sequence[Key]], float] = lambda number, keys: 0.0
    fails: Callable[[int, Sequence[Key]], ConnectorError | None] = lambda number, keys: None
    keys_per_call: int = 1 << 31
    calls: list[Sequence[Key]] = field(default_factory=list)
    """The keys of each call, in the order in which the calls began."""
    at_once: int = 0
    most_at_once: int = 0
    """The highest number of concurrent calls."""
    broken_off: int = 0
    """The number of cancelled calls."""
    closed: int = 0


@dataclass(frozen=True, slots=True)
class MemoryTable:
    """A `LookupTable` over rows in memory."""

    lookup: nodes.Lookup
    shelf: Shelf

    @property
    def keys_per_call(self) -> int:
        return self.shelf.keys_per_call

    async def check(self) -> None:
        """Do nothing: the table always exists."""

    async def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of these keys after the configured delay, or raise its error."""
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
        """Count the call."""
        self.shelf.closed += 1
