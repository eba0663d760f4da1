"""Operators that remember one row a key, and forget it when its `ttl` has passed.

By event time a key is forgotten when the watermark is later than its greatest event time and the
ttl, by the wall clock when it has had no row for so long. Nothing is put out when that happens: the
next row of the key is its first again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.operators.operator import Output
from headrace.core.operators.place import Place
from headrace.core.plan.windows import Ttl
from headrace.core.state import UNTIL, Table

if TYPE_CHECKING:
    import polars as pl


class Forgetting:
    """What such operators have in common: a table, and clocks that say what to forget."""

    def __init__(self, table: Table, ttl: Ttl | None, place: Place) -> None:
        self.table = table
        self._ttl = ttl
        self._state = place.state
        self._now_us = place.now_us
        self._due_us: int | None = None

    def put(self, rows: pl.DataFrame, times: pl.Series) -> None:
        """Remember these rows; `times` are the greatest event times of their keys."""
        import polars as pl

        if self._ttl is None:
            self.table.put(rows)
        elif self._ttl.processing:
            until_us = self._now_us() + self._ttl.after_us
            self.table.put(rows.with_columns(pl.lit(until_us, dtype=pl.Int64).alias(UNTIL)))
            self._due_us = self._due_us or until_us + 1
        else:
            until = (times.cast(pl.Int64) + self._ttl.after_us).alias(UNTIL)
            self.table.put(rows.with_columns(until))

    def forget_until_now(self) -> None:
        """Forget what is due; to be called before the table is asked."""
        if self._ttl is not None and self._ttl.processing:
            self.table.forget(self._now_us())

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Keys are forgotten, silently."""
        self._state.clock_us = max(self._state.clock_us, watermark_us)
        if self._ttl is not None and not self._ttl.processing:
            self.table.forget(self._state.clock_us)
        return iter(())

    def due_us(self) -> int | None:
        """When keys are to be forgotten though no row comes."""
        return self._due_us

    def tick(self, now_us: int) -> Iterator[Output]:
        """Keys are forgotten, silently."""
        if self._ttl is not None and self._due_us is not None and now_us >= self._due_us:
            self.table.forget(now_us)
            self._due_us = now_us + self._ttl.after_us + 1 if self.table.rows else None
        return iter(())

    @property
    def held(self) -> int:
        """Forgetting may look at every row."""
        return self.table.rows if self._ttl is not None else 0
