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

from headrace.core.types.frames import FEW_ROWS

if TYPE_CHECKING:
    import polars as pl

ROW_NUMBER_LIMIT = 1 << 31
"""Row numbers are less than this."""

LOW_MASK = (1 << 32) - 1
HIGH_MASK = LOW_MASK << 32

LEVEL_RATIO = 4
"""A level is merged with the one before it if that is at most this many times as long."""
MAX_SCALAR_KEYS = 16
"""Up to this many keys are looked up one by one; for more, Polars is faster with all of them at
once.
"""


class HashIndex:
    """Levels of sorted entries by the 64-bit hash of the key."""

    def __init__(self) -> None:
        self._levels: list[pl.Series] = []

    @property
    def entry_count(self) -> int:
        """Number of entries, including deleted ones."""
        return sum(len(level) for level in self._levels)

    def add(self, entries: pl.Series) -> None:
        """Add entries for rows that have none yet."""
        import polars as pl

        self._levels.append(sort_numbers(entries))
        while len(self._levels) > 1 and self._should_merge(
            len(self._levels[-2]), len(self._levels[-1])
        ):
            last = self._levels.pop()
            both = pl.concat([self._levels[-1], last])
            self._levels[-1] = sort_numbers(both.filter(both & 1 == 0))

    def estimate_sorted_entries(self, rows: int) -> int:
        """Return how many entries adding this many rows would sort."""
        for level in reversed(self._levels):
            if not self._should_merge(len(level), rows):
                break
            rows += len(level)
        return rows

    def find(self, hashes: pl.Series) -> pl.Series:
        """Return the entries of these keys that are not deleted, and perhaps a few others."""
        import polars as pl

        low = hashes & HIGH_MASK
        if len(low) > 1:
            low = sort_numbers(low.unique())
        found = [
            part for level in self._levels for part in _slice_ranges(level, low, low | LOW_MASK)
        ]
        if not found:
            return low.clear()
        entries = pl.concat(found) if len(found) > 1 else found[0]
        return entries.filter(entries & 1 == 0)

    def delete(self, entries: pl.Series) -> None:
        """Mark these entries, which were found, as deleted."""
        for level in self._levels:
            at = _find_positions(level, entries)
            if len(at):
                level.scatter(at, level[at] | 1)

    @staticmethod
    def _should_merge(before: int, last: int) -> bool:
        return before <= LEVEL_RATIO * last


def encode_entries(hashes: pl.Series, numbers: pl.Series) -> pl.Series:
    """Return the entries of rows with these numbers and these key hashes."""
    import polars as pl

    return (hashes & HIGH_MASK) | (numbers.cast(pl.UInt64) * 2)


def decode_row_numbers(entries: pl.Series) -> pl.Series:
    """Return the row numbers of these entries."""
    import polars as pl

    return ((entries & LOW_MASK) // 2).cast(pl.UInt32)


def sort_numbers(numbers: pl.Series) -> pl.Series:
    """Sort these numbers; few are sorted in this thread, as waking threads would take longer."""
    few = len(numbers) < FEW_ROWS
    return numbers if len(numbers) < 2 else numbers.sort(multithreaded=not few)


def _slice_ranges(level: pl.Series, low: pl.Series, high: pl.Series) -> Iterator[pl.Series]:
    """Yield the entries within these bounds."""
    import polars as pl

    if len(low) <= MAX_SCALAR_KEYS:
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


def _find_positions(level: pl.Series, entries: pl.Series) -> pl.Series:
    """Return the positions in the level of those entries that it has."""
    import polars as pl

    if len(entries) <= MAX_SCALAR_KEYS:
        found = [(bisect_left(level, entry), entry) for entry in entries]
        there = [at for at, entry in found if at < len(level) and level[at] == entry]
        return pl.Series(there, dtype=pl.UInt32)
    sought = level.search_sorted(entries, "left")
    within = sought < len(level)
    sought, entries = sought.filter(within), entries.filter(within)
    return sought.filter(level[sought] == entries)
