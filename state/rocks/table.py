"""A table of which as much is in memory as may be: two generations, and what is on disk.

As long as there is room, it is a table in memory and nothing else. When there is none, that table
becomes the older generation, to which nothing is put any more, and a new one begins. From then on
every put also writes some of the older one's rows to disk, oldest first, but for those that have
been put again meanwhile; when all of it is there, it leaves the memory at once. So rows that come
again and again never leave it, nobody waits for a long while, and a checkpoint finds frames that
are as they were.

What is asked for is looked for in the younger generation, then the older, then on disk; what is in
an earlier one hides what is in a later. Keys that are removed are remembered until they are removed
from the disk too: `gone`.
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
"""With each put so many times as many rows are written to disk as are put."""

MANY_GONE = 4096
"""So many removed keys are removed from the disk together."""

TOLD_ROWS = 1024
"""What it takes is looked at when so many rows have been put."""


@dataclass(slots=True)
class Older:
    """The older generation, part of which is on disk already."""

    table: MemoryTable
    log: pl.DataFrame
    order: pl.Series
    """The numbers of its rows, oldest first."""
    at: int = 0
    """How many of them have been written."""

    def next(self, count: int) -> pl.DataFrame:
        """The next rows, but for those that were removed."""
        rows = self.log[self.order.slice(self.at, count)]
        self.at += count
        return rows.filter(~self.table.misses(rows[KEY])) if rows.height else rows

    @property
    def is_over(self) -> bool:
        """Whether all of it is on disk."""
        return self.at >= len(self.order)


class SpillingTable:
    """The live state."""

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
        """The rows of those keys, in their order."""
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
        """Keep these rows."""
        self._young.put(frame)
        if self._older is not None:
            self._drain(max(LEAST_DRAINED, FASTER * frame.height))
        self._untold += frame.height
        if self._untold >= TOLD_ROWS:
            self._tell()

    def add(self, frame: pl.DataFrame) -> pl.Series:
        """Keep the rows whose keys are not there."""
        if self._older is not None or self._cold.are_there:
            return added_by_finding(self, frame)
        kept = self._young.add(frame)
        self._untold += len(kept)
        if self._untold >= TOLD_ROWS:
            self._tell()
        return kept

    def remove(self, keys: pl.Series) -> None:
        """Forget these keys."""
        self._young.remove(keys)
        self._behind(keys)

    def forget(self, now_us: int) -> None:
        """Forget the rows whose time has passed."""
        self._now_us = max(self._now_us, now_us)
        self._young.forget(now_us)
        if self._older is not None:
            self._older.table.forget(now_us)
        self._forget_earlier()
        if self._gate.may_write:
            self._cold.forget(self._now_us)

    def owed(self, now_us: int) -> int:
        """What was put off in memory."""
        older = 0 if self._older is None else self._older.table.owed(now_us)
        return self._young.owed(now_us) + older

    @property
    def rows(self) -> int:
        """About how many keys there are."""
        older = 0 if self._older is None else self._older.table.rows
        return self._young.rows + older + self._cold.count

    @property
    def size(self) -> Size:
        """How much it is."""
        older = self._older
        generations = self._young.size + (older.table.size if older else Size())
        return generations + self._cold.size

    def freeze(self) -> FrozenSpillingTable:
        """What is kept now."""
        generations = [self._young.freeze()]
        if self._older is not None:
            generations.append(self._older.table.freeze())
        cold = self._cold if self._cold.are_there else None
        return FrozenSpillingTable(self._group, tuple(generations), tuple(self._gone), cold)

    def restore(self, rows: pl.DataFrame) -> None:
        """Begin with these rows, beside others."""
        for start in range(0, rows.height, FASTER * LEAST_DRAINED):
            self.put(rows.slice(start, FASTER * LEAST_DRAINED))

    def adopt(self, frozen: FrozenSpillingTable) -> None:
        """Begin with what was frozen, whose frames stay as they are; its rows on disk are there."""
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
        """It takes nothing any more."""
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
        """Forget what is behind the younger generation of these keys."""
        if self._older is not None:
            self._older.table.remove(keys)
        if self._cold.are_there and len(keys):
            self._gone.append(keys)
            if self._gate.may_write and sum(map(len, self._gone)) >= MANY_GONE:
                self._let_go()

    def _forget_earlier(self) -> None:
        """Of keys whose rows were dropped, earlier rows must not be found again."""
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
        """Write rows of the older generation to disk, unless it is being stored."""
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
        """Remove from the disk what is gone."""
        import polars as pl

        if self._gone:
            self._cold.remove(pl.concat(self._gone))
            self._gone.clear()


def _asked(keys: pl.Series, missing: pl.Series, found: pl.DataFrame) -> pl.DataFrame:
    """What was found of the missing keys, with their numbers among all."""
    import polars as pl

    numbers = missing.arg_true()[found[ASKED]].cast(pl.UInt32)
    return found.with_columns(numbers.alias(ASKED))


def _found(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """The rows of all of them, in the order in which they were asked for."""
    import polars as pl

    full = [part for part in parts if part.height]
    if len(full) < 2:
        return full[0] if full else parts[0]
    return pl.concat(full, how="diagonal").sort(ASKED)
