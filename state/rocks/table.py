"""Table that spills to disk when memory is short: two memtables, and rows on disk.

While the memory budget allows, the table is one active memtable. When it does not, that one becomes
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
from typing import TYPE_CHECKING

from headrace.core.api.state import EXPIRY, KEY, KEY_INDEX, NO_CLOCK_US
from headrace.core.api.state_sizes import StateSize
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.table import MemoryKeyedTable, add_by_lookup
from headrace.state.rocks.disk_rows import DiskRows
from headrace.state.rocks.frozen_table import FrozenSpillingTable
from headrace.state.rocks.memory_budget import MemoryBudget, SnapshotGuard

if TYPE_CHECKING:
    import polars as pl

MIN_FLUSH_ROWS = 4096
FLUSH_FACTOR = 4
"""Each put flushes this many times as many rows as it puts."""

TOMBSTONE_BATCH = 4096
"""Number of tombstones that are applied to the disk in one batch."""

USAGE_REPORT_ROWS = 1024
"""Memory use is reported to the budget each time this many rows were put."""


@dataclass(slots=True)
class ImmutableMemtable:
    """The immutable memtable, partly flushed to disk."""

    table: MemoryKeyedTable
    log: pl.DataFrame
    order: pl.Series
    """Log numbers of its rows, oldest first."""
    written_rows: int = 0
    """Number of rows flushed."""

    def take_next(self, count: int) -> pl.DataFrame:
        """Return the next rows to flush, without removed ones."""
        rows = self.log[self.order.slice(self.written_rows, count)]
        self.written_rows += count
        return rows.filter(~self.table.mask_missing(rows[KEY])) if rows.height else rows

    @property
    def is_flushed(self) -> bool:
        """Whether all rows are on disk."""
        return self.written_rows >= len(self.order)


class SpillingTable:
    """Live table."""

    def __init__(
        self,
        columns: Mapping[str, pl.DataType],
        group: tuple[str, ...] | None,
        disk_rows: DiskRows,
        budget: MemoryBudget,
        guard: SnapshotGuard,
    ) -> None:
        self._columns, self._group = columns, group
        self._disk_rows, self._budget, self._guard = disk_rows, budget, guard
        self._now_us = NO_CLOCK_US
        self._memtable = self._create_memtable()
        self._immutable: ImmutableMemtable | None = None
        self._tombstones: list[pl.Series] = []
        self._unreported_rows = 0

    def find(self, keys: pl.Series) -> pl.DataFrame:
        """Return the rows of those keys, in the order of the keys."""
        found = self._memtable.find(keys)
        if self._immutable is None and not self._disk_rows.has_rows:
            return found
        parts = [found]
        missing = self._memtable.mask_missing(keys)
        if self._immutable is not None:
            parts.append(
                _renumber_found(keys, missing, self._immutable.table.find(keys.filter(missing)))
            )
            missing &= self._immutable.table.mask_missing(keys)
        if self._disk_rows.has_rows and missing.any():
            parts.append(_renumber_found(keys, missing, self._read_disk(keys.filter(missing))))
        return _merge_found(parts)

    def put(self, frame: pl.DataFrame) -> None:
        self._memtable.put(frame)
        if self._immutable is not None:
            self._flush(max(MIN_FLUSH_ROWS, FLUSH_FACTOR * frame.height))
        self._unreported_rows += frame.height
        if self._unreported_rows >= USAGE_REPORT_ROWS:
            self._report_usage()

    def add(self, frame: pl.DataFrame) -> pl.Series:
        """Put the rows whose keys are not in the table; returns their numbers."""
        if self._immutable is not None or self._disk_rows.has_rows:
            return add_by_lookup(self, frame)
        numbers = self._memtable.add(frame)
        self._unreported_rows += len(numbers)
        if self._unreported_rows >= USAGE_REPORT_ROWS:
            self._report_usage()
        return numbers

    def remove(self, keys: pl.Series) -> None:
        self._memtable.remove(keys)
        self._remove_older(keys)

    def expire(self, now_us: int) -> None:
        """Drop expired rows."""
        self._now_us = max(self._now_us, now_us)
        self._memtable.expire(now_us)
        if self._immutable is not None:
            self._immutable.table.expire(now_us)
        self._hide_swept()
        if self._guard.may_write:
            self._disk_rows.expire(self._now_us)

    def estimate_deferred_rows(self, now_us: int) -> int:
        """Return how many rows of deferred work the memtables have."""
        older = (
            0 if self._immutable is None else self._immutable.table.estimate_deferred_rows(now_us)
        )
        return self._memtable.estimate_deferred_rows(now_us) + older

    @property
    def rows(self) -> int:
        """Approximate number of keys."""
        older = 0 if self._immutable is None else self._immutable.table.rows
        return self._memtable.rows + older + self._disk_rows.row_count

    @property
    def size(self) -> StateSize:
        older = self._immutable
        generations = self._memtable.size + (older.table.size if older else StateSize())
        return generations + self._disk_rows.size

    def freeze(self) -> FrozenSpillingTable:
        generations = [self._memtable.freeze()]
        if self._immutable is not None:
            generations.append(self._immutable.table.freeze())
        disk_rows = self._disk_rows if self._disk_rows.has_rows else None
        return FrozenSpillingTable(
            self._group, tuple(generations), tuple(self._tombstones), disk_rows
        )

    def restore(self, rows: pl.DataFrame) -> None:
        """Put these restored rows."""
        for start in range(0, rows.height, FLUSH_FACTOR * MIN_FLUSH_ROWS):
            self.put(rows.slice(start, FLUSH_FACTOR * MIN_FLUSH_ROWS))

    def adopt(self, frozen: FrozenSpillingTable) -> None:
        """Start with a frozen table; its frames are not copied, and its disk rows are in place."""
        young, *older = frozen.memtables
        self._tombstones.extend(frozen.tombstones)
        self._memtable.adopt(young)
        self._now_us = young.now_us
        if older and older[0].frames:
            table = self._create_memtable()
            table.adopt(older[0])
            self._immutable = ImmutableMemtable(table, *table.read_live())
        self._report_usage()

    def close(self) -> None:
        """Remove this table from the memory budget."""
        self._budget.release(self)

    def _read_disk(self, keys: pl.Series) -> pl.DataFrame:
        import polars as pl

        found = self._disk_rows.get(keys)
        if self._tombstones:
            found = found.filter(~pl.col(KEY).is_in(pl.concat(self._tombstones).implode()))
        if found[EXPIRY].null_count() == found.height:
            return found.drop(EXPIRY)
        return found.filter(~(found[EXPIRY] < self._now_us).fill_null(value=False))

    def _remove_older(self, keys: pl.Series) -> None:
        """Remove these keys from the immutable memtable and the disk."""
        if self._immutable is not None:
            self._immutable.table.remove(keys)
        if self._disk_rows.has_rows and len(keys):
            self._tombstones.append(keys)
            if self._guard.may_write and sum(map(len, self._tombstones)) >= TOMBSTONE_BATCH:
                self._apply_tombstones()

    def _hide_swept(self) -> None:
        """Hide the earlier rows of keys whose rows a sweep dropped."""
        for table in (self._memtable, self._immutable and self._immutable.table):
            for keys in (table and table.swept_keys) or ():
                self._remove_older(keys)
            if table:
                table.swept_keys = []

    def _report_usage(self) -> None:
        self._unreported_rows = 0
        used_bytes = self._memtable.bytes
        if self._immutable is not None:
            used_bytes += self._immutable.table.bytes
        if (
            self._budget.report_usage(self, used_bytes)
            and self._immutable is None
            and self._memtable.rows
        ):
            table = self._memtable
            self._immutable, self._memtable = (
                ImmutableMemtable(table, *table.read_live()),
                self._create_memtable(),
            )

    def _create_memtable(self) -> MemoryKeyedTable:
        table = MemoryKeyedTable(self._columns, self._group)
        table.expire(self._now_us)
        table.swept_keys = []
        return table

    def _flush(self, count: int) -> None:
        """Flush rows of the immutable memtable, unless a snapshot needs the disk unchanged."""
        assert self._immutable is not None
        if not self._guard.may_write:
            return
        self._apply_tombstones()
        rows = self._immutable.take_next(count)
        if rows.height:
            rows = rows.filter(self._memtable.mask_missing(rows[KEY]))
        if EXPIRY in rows.columns:
            passed = (rows[EXPIRY] < self._now_us).fill_null(value=False)
            if self._disk_rows.has_rows:
                self._tombstones.append(rows[KEY].filter(passed))
            rows = rows.filter(~passed)
        self._disk_rows.put(rows)
        if self._immutable.is_flushed:
            self._immutable = None
            self._report_usage()

    def _apply_tombstones(self) -> None:
        """Apply the tombstones to the disk."""
        import polars as pl

        if self._tombstones:
            self._disk_rows.remove(pl.concat(self._tombstones))
            self._tombstones.clear()


def _renumber_found(keys: pl.Series, missing: pl.Series, found: pl.DataFrame) -> pl.DataFrame:
    """Renumber the rows found among the missing keys by their position among all keys."""
    import polars as pl

    numbers = missing.arg_true()[found[KEY_INDEX]].cast(pl.UInt32)
    return found.with_columns(numbers.alias(KEY_INDEX))


def _merge_found(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Merge the rows found, in the order of the requested keys."""
    import polars as pl

    full = [part for part in parts if part.height]
    if len(full) < 2:
        return full[0] if full else parts[0]
    return pl.concat(full, how="diagonal").sort(KEY_INDEX)
