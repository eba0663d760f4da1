"""A lookup table in memory with configurable delays and failures: for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from headrace.core.api.failures import ConnectorError
from headrace.core.api.lookup_tables import LOOKUP_KEY_INDEX
from headrace.core.plan import nodes
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

Key = tuple[object, ...]


@dataclass(slots=True)
class LookupTableData:
    """Rows of a table, and the delay or failure of each call, by its number from 0 and its keys."""

    rows: pl.DataFrame
    delay_s: Callable[[int, Sequence[Key]], float] = lambda number, keys: 0.0
    find_failure: Callable[[int, Sequence[Key]], ConnectorError | None] = lambda number, keys: None
    keys_per_call: int = 1 << 31
    calls: list[Sequence[Key]] = field(default_factory=list)
    """The keys of each call, in the order in which the calls began."""
    concurrent_calls: int = 0
    max_concurrent_calls: int = 0
    """The highest number of concurrent calls."""
    cancelled_calls: int = 0
    """The number of cancelled calls."""
    close_count: int = 0


@dataclass(frozen=True, slots=True)
class MemoryLookupTable:
    """A `LookupTable` over rows in memory."""

    lookup: nodes.Lookup
    data: LookupTableData

    @property
    def max_keys_per_call(self) -> int:
        return self.data.keys_per_call

    async def check(self) -> None:
        """Do nothing: the table always exists."""

    async def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of these keys after the configured delay, or raise its error."""
        rows, key_rows = self.data, keys.rows()
        number = len(rows.calls)
        rows.calls.append(key_rows)
        rows.concurrent_calls += 1
        rows.max_concurrent_calls = max(rows.max_concurrent_calls, rows.concurrent_calls)
        try:
            await asyncio.sleep(rows.delay_s(number, key_rows))
        except asyncio.CancelledError:
            rows.cancelled_calls += 1
            raise
        finally:
            rows.concurrent_calls -= 1
        error = rows.find_failure(number, key_rows)
        if error is not None:
            raise error
        return self._join_rows(keys)

    def _join_rows(self, keys: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        names = keys.columns
        rows = keys.with_row_index(LOOKUP_KEY_INDEX).join(self.data.rows, on=names, how="inner")
        added = (pl.col(found.column).alias(found.field.name) for found in self.lookup.columns)
        return rows.select(LOOKUP_KEY_INDEX, *added)

    async def close(self) -> None:
        """Count the call."""
        self.data.close_count += 1
