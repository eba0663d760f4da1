"""Index from the hash of a key to the numbers of its rows, for lookups of few keys among many rows.

Scanning every row for one key takes time in proportion to all rows, however few match. So each row
has an index entry: half of the hash of its key, the number of the row, and a deletion mark. An
entry takes 8 bytes; sorted entries are found by binary search. The caller has the rows and rejects
keys whose half hashes merely collide. Added entries form a level of their own, which is merged with
the level before it when that is not much longer, as in an LSM tree: so there are few levels, and an
entry is sorted again only a few times. A million rows are sorted in 17 ms, and one of them is found
in 0.01 ms. Entries that come few at a time are first gathered in a dictionary: a call of Polars
takes longer than some dozen of its operations.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
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
MAX_SCALAR_KEYS = 64
"""Up to this many keys are looked up one by one; for more, Polars is faster with all of them at
once.
"""
MAX_SCALAR_ENTRIES = 8
"""Up to this many entries of a key are read one by one."""
MAX_RECENT_ENTRIES = 2048
"""The size of the dictionary of recent entries; then they become a level."""


class HashIndex:
    """Levels of sorted entries by the 64-bit hash of the key."""

    def __init__(self) -> None:
        self._levels: list[pl.Series] = []
        self._recent: defaultdict[int, list[int]] = defaultdict(list)
        """Recent entries that are in no level, by the half of the hash."""
        self._recent_count = 0

    @property
    def entry_count(self) -> int:
        """Number of entries, including deleted ones."""
        return self._recent_count + sum(len(level) for level in self._levels)

    def add(self, entries: pl.Series) -> None:
        """Add entries for rows that have none yet."""
        if len(entries) > MAX_SCALAR_KEYS:
            self._add_level(entries)
            return
        for entry in entries.to_list():
            self._recent[entry & HIGH_MASK].append(entry)
        self._recent_count += len(entries)
        if self._recent_count > MAX_RECENT_ENTRIES:
            self._move_recent()

    def _move_recent(self) -> None:
        """Move the recent entries to a level."""
        import polars as pl

        if self._recent_count:
            entries = [entry for each in self._recent.values() for entry in each]
            self._recent.clear()
            self._recent_count = 0
            self._add_level(pl.Series(entries, dtype=pl.UInt64))

    def _add_level(self, entries: pl.Series) -> None:
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
        if rows <= MAX_SCALAR_KEYS:
            if self._recent_count + rows <= MAX_RECENT_ENTRIES:
                return rows
            rows += self._recent_count
        for level in reversed(self._levels):
            if not self._should_merge(len(level), rows):
                break
            rows += len(level)
        return rows

    def find(self, hashes: pl.Series) -> pl.Series:
        """Return the entries of these keys that are not deleted, and perhaps a few others."""
        import polars as pl

        if len(hashes) <= MAX_SCALAR_KEYS:
            found = self._find_few({each & HIGH_MASK for each in hashes.to_list()})
        else:
            self._move_recent()
            low = sort_numbers((hashes & HIGH_MASK).unique())
            found = [part for level in self._levels for part in _slice_ranges(level, low)]
        if not found:
            return pl.Series(dtype=pl.UInt64)
        return pl.concat(found) if len(found) > 1 else found[0]

    def _find_few(self, lows: set[int]) -> list[pl.Series]:
        """Return the entries of few keys that are not deleted."""
        import polars as pl

        few, ranges = [entry for low in lows for entry in self._recent.get(low, ())], []
        for level in self._levels:
            count = len(level)
            for low in lows:
                at, last = bisect_left(level, low), low | LOW_MASK
                end = min(at + MAX_SCALAR_ENTRIES, count)
                while at < end and (entry := level[at]) <= last:
                    if not entry & 1:
                        few.append(entry)
                    at += 1
                if at == end < count:
                    ranges.append(_drop_deleted(level[at : bisect_right(level, last, at)]))
        return [pl.Series(few, dtype=pl.UInt64), *ranges]

    def delete(self, entries: pl.Series) -> None:
        """Mark these entries, which were found, as deleted."""
        entries = self._delete_recent(entries)
        for level in self._levels if len(entries) else ():
            at = _find_positions(level, entries)
            if len(at):
                level.scatter(at, level[at] | 1)

    def _delete_recent(self, entries: pl.Series) -> pl.Series:
        """Delete those of these entries that are recent, and return the others."""
        import polars as pl

        if len(entries) > MAX_RECENT_ENTRIES:
            self._move_recent()
        if not self._recent_count:
            return entries
        others = []
        for entry in entries.to_list():
            here = self._recent.get(entry & HIGH_MASK)
            if here is None or entry not in here:
                others.append(entry)
                continue
            here.remove(entry)
            self._recent_count -= 1
            if not here:
                del self._recent[entry & HIGH_MASK]
        return pl.Series(others, dtype=pl.UInt64)

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

    if len(entries) <= MAX_SCALAR_KEYS:
        numbers = [(entry & LOW_MASK) >> 1 for entry in entries.to_list()]
        return pl.Series(numbers, dtype=pl.UInt32)
    return ((entries & LOW_MASK) // 2).cast(pl.UInt32)


def sort_numbers(numbers: pl.Series) -> pl.Series:
    """Sort these numbers; few are sorted in this thread, as waking threads would take longer."""
    few = len(numbers) < FEW_ROWS
    return numbers if len(numbers) < 2 else numbers.sort(multithreaded=not few)


def _slice_ranges(level: pl.Series, low: pl.Series) -> Iterator[pl.Series]:
    """Yield the entries of these halves of hashes that are not deleted."""
    import polars as pl

    starts = level.search_sorted(low, "left")
    ends = level.search_sorted(low | LOW_MASK, "right")
    some = ends > starts
    if some.any():
        ranges = pl.int_ranges(starts.filter(some), ends.filter(some), eager=True)
        yield _drop_deleted(level[ranges.explode()])


def _drop_deleted(entries: pl.Series) -> pl.Series:
    return entries.filter(entries & 1 == 0)


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
