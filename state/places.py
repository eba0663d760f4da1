"""Index from the hash of a key to the numbers of its rows, for lookups of few keys among many rows.

Scanning every row for one key takes time in proportion to all rows, however few match. So each row
has an index entry: half of the hash of its key, the number of the row, and a deletion mark. An
entry takes 8 bytes; sorted entries are found by binary search. The caller has the rows and rejects
keys whose half hashes merely collide. Added entries form a level of their own, which is merged with
the level before it when that is not much longer, as in an LSM tree: so there are few levels, and an
entry is sorted again only a few times. A million rows are sorted in 17 ms, and one of them is found
in 0.01 ms.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.frames import FEW_ROWS

if TYPE_CHECKING:
    import polars as pl

MOST_NUMBERS = 1 << 31
"""Row numbers are less than this."""

LOW = (1 << 32) - 1
HIGH = LOW << 32

FEWER = 4
"""A level is merged with the one before it if that is at most this many times as long."""
FEW_KEYS = 16
"""Up to this many keys are looked up one by one; for more, Polars is faster with all of them at
once.
"""


class Places:
    """Levels of sorted entries by the 64-bit hash of the key."""

    def __init__(self) -> None:
        self._levels: list[pl.Series] = []

    @property
    def count(self) -> int:
        """Number of entries, including deleted ones."""
        return sum(len(level) for level in self._levels)

    def add(self, entries: pl.Series) -> None:
        """Add entries for rows that have none yet."""
        import polars as pl

        self._levels.append(in_order(entries))
        while len(self._levels) > 1 and self._joins(len(self._levels[-2]), len(self._levels[-1])):
            last = self._levels.pop()
            both = pl.concat([self._levels[-1], last])
            self._levels[-1] = in_order(both.filter(both & 1 == 0))

    def sorted_by(self, rows: int) -> int:
        """Return how many entries adding this many rows would sort."""
        for level in reversed(self._levels):
            if not self._joins(len(level), rows):
                break
            rows += len(level)
        return rows

    def find(self, hashes: pl.Series) -> pl.Series:
        """Return the entries of these keys that are not deleted, and perhaps a few others."""
        import polars as pl

        low = hashes & HIGH
        if len(low) > 1:
            low = in_order(low.unique())
        found = [part for level in self._levels for part in _between(level, low, low | LOW)]
        if not found:
            return low.clear()
        entries = pl.concat(found) if len(found) > 1 else found[0]
        return entries.filter(entries & 1 == 0)

    def forget(self, entries: pl.Series) -> None:
        """Mark these entries, which were found, as deleted."""
        for level in self._levels:
            at = _at(level, entries)
            if len(at):
                level.scatter(at, level[at] | 1)

    @staticmethod
    def _joins(before: int, last: int) -> bool:
        return before <= FEWER * last


def entries_of(hashes: pl.Series, numbers: pl.Series) -> pl.Series:
    """Return the entries of rows with these numbers and these key hashes."""
    import polars as pl

    return (hashes & HIGH) | (numbers.cast(pl.UInt64) * 2)


def numbers_of(entries: pl.Series) -> pl.Series:
    """Return the row numbers of these entries."""
    import polars as pl

    return ((entries & LOW) // 2).cast(pl.UInt32)


def in_order(numbers: pl.Series) -> pl.Series:
    """Sort these numbers; few are sorted in this thread, as waking threads would take longer."""
    few = len(numbers) < FEW_ROWS
    return numbers if len(numbers) < 2 else numbers.sort(multithreaded=not few)


def _between(level: pl.Series, low: pl.Series, high: pl.Series) -> Iterator[pl.Series]:
    """Yield the entries within these bounds."""
    import polars as pl

    if len(low) <= FEW_KEYS:
        for least, most in zip(low, high, strict=True):
            start = bisect_left(level, least)
            end = bisect_right(level, most, start)
            if end > start:
                yield level[start:end]
        return
    starts, ends = level.search_sorted(low, "left"), level.search_sorted(high, "right")
    some = ends > starts
    if some.any():
        ranges = pl.int_ranges(starts.filter(some), ends.filter(some), eager=True)
        yield level[ranges.explode()]


def _at(level: pl.Series, entries: pl.Series) -> pl.Series:
    """Return the positions in the level of those entries that it has."""
    import polars as pl

    if len(entries) <= FEW_KEYS:
        found = [(bisect_left(level, entry), entry) for entry in entries]
        there = [at for at, entry in found if at < len(level) and level[at] == entry]
        return pl.Series(there, dtype=pl.UInt32)
    sought = level.search_sorted(entries, "left")
    within = sought < len(level)
    sought, entries = sought.filter(within), entries.filter(within)
    return sought.filter(level[sought] == entries)
