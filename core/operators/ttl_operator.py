"""The base of operators that store one row per key, and remove it when its `ttl` has passed.

By event time a key expires when the watermark is later than its greatest event time plus the TTL;
by the wall clock, when it has had no row for the TTL. Expiry emits nothing: the next row of the key
counts as its first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.core.api.state import EXPIRY, KeyedTable
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Output, UndelayedOperator, request_offload
from headrace.core.plan.nodes.windows import Ttl

if TYPE_CHECKING:
    import polars as pl

KEYS_STATE = "keys"
"""The name of the table in the state."""


class TtlOperator(UndelayedOperator):
    """A table with one row per key, and the clocks by which keys expire."""

    def __init__(self, ttl: Ttl | None, context: KeyedContext) -> None:
        self._ttl = ttl
        self._state = context.state
        self._now_us = context.now_us
        self._table: KeyedTable | None = None
        self._due_us: int | None = None
        """The next time to look for expired keys; that only frees memory."""

    def open_table(self, columns: Mapping[str, pl.DataType]) -> None:
        """Open the table; some operators learn its columns from their first rows."""
        self._table = self._state.open_table(KEYS_STATE, columns)
        if self._uses_wall_clock and self._table.rows:
            self._due_us = self._now_us()

    @property
    def is_open(self) -> bool:
        """Whether the table is open."""
        return self._table is not None

    def announce_work(self) -> Iterator[Output]:
        """Request offloading if the following `get_live_table` and `put` work on many rows."""
        assert self._table is not None, "the table is not open"
        return request_offload(self._table.estimate_deferred_rows(self._clock_us))

    def get_live_table(self) -> KeyedTable:
        """Return the table, without the keys that have expired."""
        assert self._table is not None, "the table is not open"
        self._expire(self._clock_us)
        return self._table

    def put(self, rows: pl.DataFrame, times: pl.Series) -> None:
        """Store these rows; `times` are the greatest event times of their keys."""
        import polars as pl

        assert self._table is not None, "the table is not open"
        if self._ttl is None:
            self._table.put(rows)
        elif self._ttl.uses_processing_time:
            until_us = self._now_us() + self._ttl.after_us
            self._table.put(rows.with_columns(pl.lit(until_us, dtype=pl.Int64).alias(EXPIRY)))
            self._due_us = self._due_us or until_us + 1
        else:
            until = (times.cast(pl.Int64) + self._ttl.after_us).alias(EXPIRY)
            self._table.put(rows.with_columns(until))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Remove expired keys; nothing is emitted."""
        self._state.clock_us = max(self._state.clock_us, watermark_us)
        if not self._uses_wall_clock:
            self._expire(self._state.clock_us)
        return iter(())

    def next_tick_us(self) -> int | None:
        """Return when to remove expired keys if no row comes."""
        return self._due_us

    def tick(self, now_us: int) -> Iterator[Output]:
        """Remove expired keys; nothing is emitted."""
        if self._ttl is not None and self._due_us is not None and now_us >= self._due_us:
            self._expire(now_us)
            self._due_us = now_us + self._ttl.after_us + 1 if self._row_count else None
        return iter(())

    @property
    def pending_rows(self) -> int:
        """The number of rows that expiry may look at."""
        return self._row_count if self._ttl is not None else 0

    @property
    def has_ttl(self) -> bool:
        """Whether each row of a key renews it, even one that changes nothing."""
        return self._ttl is not None

    @property
    def _clock_us(self) -> int:
        return self._now_us() if self._uses_wall_clock else self._state.clock_us

    @property
    def _uses_wall_clock(self) -> bool:
        return self._ttl is not None and self._ttl.uses_processing_time

    @property
    def _row_count(self) -> int:
        return 0 if self._table is None else self._table.rows

    def _expire(self, now_us: int) -> None:
        if self._ttl is not None and self._table is not None:
            self._table.expire(now_us)
