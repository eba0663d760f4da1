"""Table that spills to disk when memory is short: an active memtable, an immutable one, and disk
rows.

While the memory budget allows, the table is one memtable. When it does not, that memtable becomes
immutable, and a new active one is created. From then on every put also flushes some rows of the
immutable memtable to disk, oldest first, except those put again since; once all rows are on disk,
the memtable is dropped. So rows that are put again and again stay in memory, no call takes long,
and a checkpoint finds unchanged frames.

A lookup reads the active memtable, then the immutable one, then the disk; a row in an earlier one
hides rows in the later ones. Removed keys are recorded as tombstones until they are removed from
the disk too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.sizes import Size
from headrace.core.state import ASKED, KEY, NO_CLOCK_US, UNTIL
from headrace.state.rocks.budget import Budget, Gate
from headrace.state.rocks.cold import ColdRows
from headrace.state.rocks.frozen_table import FrozenSpillingTable
from headrace.state.table import MemoryTable, added_by_finding

if TYPE_CHECKING:
    import polars as pl

LEAST_DRAINED = 4096
FASTER = 4
"""Each put flushes this many times as many rows as it puts."""

MANY_GONE = 4096
"""Number of tombstones that are applied to the disk in one batch."""

TOLD_ROWS = 1024
"""Memory use is reported to the budget each time this many rows were put."""


@dataclass(slots=True)
class Older:
    """The immutable memtable, partly flushed to disk."""

    table: MemoryTable
    log: pl.DataFrame
    order: pl.Series
    """Log numbers of its rows, oldest first."""
    at: int = 0
    """Number of rows flushed."""

    def next(self, count: int) -> pl.DataFrame:
        """Return the next rows to flush, without removed ones."""
        rows = self.log[self.order.slice(self.at, count)]
        self.at += count
        return rows.filter(~self.table.misses(rows[KEY])) if rows.height else rows

    @property
    def is_over(self) -> bool:
        """Whether all rows are on disk."""
        return self.at >= len(self.order)


class SpillingTable:
    """Live table."""

    def __init__(
        self,
        columns: Mapping[str, pl.DataType],
        group: tuple[str, ...] | None,
        cold: ColdRows,
        budget: Budget,
        gate: Gate,
    ) -> None:
        self._columns, self._group = columns, group
        self._cold, self._budget, self._gate = cold, budget, gate
        self._now_us = NO_CLOCK_US
        self._young = self._new()
        self._older: Older | None = None
        self._gone: list[pl.Series] = []
        self._untold = 0

    def find(self, keys: pl.Series) -> pl.DataFrame:
        """Return the rows of those keys, in the order of the keys."""
        found = self._young.find(keys)
        if self._older is None and not self._cold.are_there:
            return found
        parts = [found]
        missing = self._young.misses(keys)
        if self._older is not None:
            parts.append(_asked(keys, missing, self._older.table.find(keys.filter(missing))))
            missing &= self._older.table.misses(keys)
        if self._cold.are_there and missing.any():
            parts.append(_asked(keys, missing, self._on_disk(keys.filter(missing))))
        return _found(parts)

    def put(self, frame: pl.DataFrame) -> None:
        self._young.put(frame)
        if self._older is not None:
            self._drain(max(LEAST_DRAINED, FASTER * frame.height))
        self._untold += frame.height
        if self._untold >= TOLD_ROWS:
            self._tell()

    def add(self, frame: pl.DataFrame) -> pl.Series:
        """Put the rows whose keys are not in the table; returns their numbers."""
        if self._older is not None or self._cold.are_there:
            return added_by_finding(self, frame)
        kept = self._young.add(frame)
        self._untold += len(kept)
        if self._untold >= TOLD_ROWS:
            self._tell()
        return kept

    def remove(self, keys: pl.Series) -> None:
        self._young.remove(keys)
        self._behind(keys)

    def forget(self, now_us: int) -> None:
        """Drop expired rows."""
        self._now_us = max(self._now_us, now_us)
        self._young.forget(now_us)
        if self._older is not None:
            self._older.table.forget(now_us)
        self._forget_earlier()
        if self._gate.may_write:
            self._cold.forget(self._now_us)

    def owed(self, now_us: int) -> int:
        """Return how many rows of deferred work the memtables have."""
        older = 0 if self._older is None else self._older.table.owed(now_us)
        return self._young.owed(now_us) + older

    @property
    def rows(self) -> int:
        """Approximate number of keys."""
        older = 0 if self._older is None else self._older.table.rows
        return self._young.rows + older + self._cold.count

    @property
    def size(self) -> Size:
        older = self._older
        generations = self._young.size + (older.table.size if older else Size())
        return generations + self._cold.size

    def freeze(self) -> FrozenSpillingTable:
        generations = [self._young.freeze()]
        if self._older is not None:
            generations.append(self._older.table.freeze())
        cold = self._cold if self._cold.are_there else None
        return FrozenSpillingTable(self._group, tuple(generations), tuple(self._gone), cold)

    def restore(self, rows: pl.DataFrame) -> None:
        """Put these restored rows."""
        for start in range(0, rows.height, FASTER * LEAST_DRAINED):
            self.put(rows.slice(start, FASTER * LEAST_DRAINED))

    def adopt(self, frozen: FrozenSpillingTable) -> None:
        """Start with a frozen table; its frames are not copied, and its disk rows are in place."""
        young, *older = frozen.generations
        self._gone.extend(frozen.gone)
        self._young.adopt(young)
        self._now_us = young.now_us
        if older and older[0].frames:
            table = self._new()
            table.adopt(older[0])
            self._older = Older(table, *table.live())
        self._tell()

    def close(self) -> None:
        """Remove this table from the memory budget."""
        self._budget.leave(self)

    def _on_disk(self, keys: pl.Series) -> pl.DataFrame:
        import polars as pl

        found = self._cold.get(keys)
        if self._gone:
            found = found.filter(~pl.col(KEY).is_in(pl.concat(self._gone).implode()))
        if found[UNTIL].null_count() == found.height:
            return found.drop(UNTIL)
        return found.filter(~(found[UNTIL] < self._now_us).fill_null(value=False))

    def _behind(self, keys: pl.Series) -> None:
        """Remove these keys from the immutable memtable and the disk."""
        if self._older is not None:
            self._older.table.remove(keys)
        if self._cold.are_there and len(keys):
            self._gone.append(keys)
            if self._gate.may_write and sum(map(len, self._gone)) >= MANY_GONE:
                self._let_go()

    def _forget_earlier(self) -> None:
        """Hide the earlier rows of keys whose rows a sweep dropped."""
        for table in (self._young, self._older and self._older.table):
            for keys in (table and table.swept) or ():
                self._behind(keys)
            if table:
                table.swept = []

    def _tell(self) -> None:
        self._untold = 0
        taken = self._young.bytes
        if self._older is not None:
            taken += self._older.table.bytes
        if self._budget.tell(self, taken) and self._older is None and self._young.rows:
            table = self._young
            self._older, self._young = Older(table, *table.live()), self._new()

    def _new(self) -> MemoryTable:
        table = MemoryTable(self._columns, self._group)
        table.forget(self._now_us)
        table.swept = []
        return table

    def _drain(self, count: int) -> None:
        """Flush rows of the immutable memtable, unless a snapshot needs the disk unchanged."""
        assert self._older is not None
        if not self._gate.may_write:
            return
        self._let_go()
        rows = self._older.next(count)
        if rows.height:
            rows = rows.filter(self._young.misses(rows[KEY]))
        if UNTIL in rows.columns:
            passed = (rows[UNTIL] < self._now_us).fill_null(value=False)
            if self._cold.are_there:
                self._gone.append(rows[KEY].filter(passed))
            rows = rows.filter(~passed)
        self._cold.put(rows)
        if self._older.is_over:
            self._older = None
            self._tell()

    def _let_go(self) -> None:
        """Apply the tombstones to the disk."""
        import polars as pl

        if self._gone:
            self._cold.remove(pl.concat(self._gone))
            self._gone.clear()


def _asked(keys: pl.Series, missing: pl.Series, found: pl.DataFrame) -> pl.DataFrame:
    """Renumber the rows found among the missing keys by their position among all keys."""
    import polars as pl

    numbers = missing.arg_true()[found[ASKED]].cast(pl.UInt32)
    return found.with_columns(numbers.alias(ASKED))


def _found(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Merge the rows found, in the order of the requested keys."""
    import polars as pl

    full = [part for part in parts if part.height]
    if len(full) < 2:
        return full[0] if full else parts[0]
    return pl.concat(full, how="diagonal").sort(ASKED)
