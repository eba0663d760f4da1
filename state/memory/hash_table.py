"""Hash table from keys to row numbers: open addressing, in columns, processed in batches.

A dict holds Python objects: looking up one of a million keys misses the cache four times, and
meanwhile nothing else runs in this interpreter. Here the lookup of a batch is a few gathers, during
which Polars does not hold the interpreter's lock. CPU time per key to find it and put it again,
8192 keys at a time, in one run: 0.4 us here and 0.3 us with a dict for 10 k keys, 1.2 us and 2.9 us
for 1 M keys, in a third of the memory.

A slot holds the hash of a key and the number of its row. Probing moves on by 1, 2, 3, ... slots, so
that it visits every slot of a table whose size is a power of two. The owner of the table has the
rows and tells apart keys with equal hashes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

FREE_SLOT, DELETED_SLOT = -1, -2
"""Row numbers that mark a slot that was never used, and one whose key was removed."""

MIN_SLOTS = 1024

MAX_SCALAR_KEYS = 64
"""Up to this many keys are probed one by one: Polars calls for each step would take longer."""

KeysEqual: TypeAlias = "Callable[[pl.Series, pl.Series], pl.Series]"
"""Compares keys, given by their numbers, with the keys of rows, given by theirs."""


@dataclass(slots=True)
class SlotProbe:
    """Position of one key on its way through the slots."""

    key: int
    hash: int
    slot: int
    step: int


class HashTable:
    """Hash table from the hashes of keys to slots, and from slots to rows."""

    def __init__(self) -> None:
        self.key_count = 0
        """Number of keys."""
        self._used_slots = 0
        self._hashes, self._rows = _make_slots(MIN_SLOTS)

    @property
    def bytes(self) -> int:
        """Memory that the table takes, in bytes."""
        return 12 * len(self._rows)

    def find(self, hashes: pl.Series, same: KeysEqual) -> pl.Series:
        """Return the slot of each key, null where the key is not in the table."""
        import polars as pl

        result = pl.Series([None], dtype=pl.UInt32).new_from_index(0, len(hashes))
        pending, at, step = _make_range(len(hashes)), self._get_home_slots(hashes), 0
        while len(pending) > MAX_SCALAR_KEYS:
            rows = self._rows[at]
            hit = (self._hashes[at] == hashes) & (rows >= 0)
            if hit.any():
                right = same(pending.filter(hit), rows.filter(hit))
                if not right.all():
                    which = _make_range(len(hit)).filter(hit)
                    hit = hit.scatter(which.filter(~right), False)
                result.scatter(pending.filter(hit), at.filter(hit))
            is_open = (rows != FREE_SLOT) & ~hit
            pending, hashes = pending.filter(is_open), hashes.filter(is_open)
            at, step = self._get_next_slots(at.filter(is_open), step + 1), step + 1
        self._find_one_by_one(
            [SlotProbe(*each, step) for each in zip(pending, hashes, at, strict=True)], same, result
        )
        return result

    def get_rows(self, slots: pl.Series) -> pl.Series:
        """Return the rows of these slots."""
        return self._rows[slots]

    def list_occupied(self) -> pl.Series:
        """Return the slots of all keys."""
        return _make_range(len(self._rows)).filter(self._rows >= 0)

    def replace(self, slots: pl.Series, rows: pl.Series) -> None:
        """Set the rows of the keys in these slots."""
        self._rows.scatter(slots, rows)

    def insert(self, hashes: pl.Series, rows: pl.Series) -> None:
        """Insert keys that are not in the table, each once; existing keys may change slots."""
        if (self._used_slots + len(hashes)) * 2 > len(self._rows):
            self._rebuild(self.key_count + len(hashes))
        self.key_count += len(hashes)
        self._used_slots += len(hashes)
        self._insert(hashes, rows)

    def needs_growth(self, keys: int) -> bool:
        """Whether inserting this many keys would take long; a small table soon gets more slots."""
        return len(self._rows) > 4 * keys and (self._used_slots + keys) * 2 > len(self._rows)

    def grow(self, keys: int) -> None:
        """Make room to insert this many keys quickly; existing keys move to other slots."""
        self._rebuild(self.key_count + keys)

    def renumber(self) -> pl.Series:
        """Renumber the rows of all keys from 0 in their order; returns the former row numbers."""
        import polars as pl

        slots = self.list_occupied()
        rows = self._rows[slots]
        order = rows.arg_sort()
        new = pl.int_range(len(rows), dtype=pl.Int32, eager=True)
        self._rows.scatter(slots[order], new)
        return rows[order]

    def remove(self, slots: pl.Series) -> None:
        """Remove the keys of these slots."""
        import polars as pl

        self._rows.scatter(
            slots, pl.Series([DELETED_SLOT], dtype=pl.Int32).new_from_index(0, len(slots))
        )
        self.key_count -= len(slots)

    def _insert(self, hashes: pl.Series, rows: pl.Series) -> None:
        at, step = self._get_home_slots(hashes), 0
        while len(at) > MAX_SCALAR_KEYS:
            free = self._rows[at] == FREE_SLOT
            self._rows.scatter(at.filter(free), rows.filter(free))
            # Several keys may have wanted the same slot: one of them has it now.
            won = self._rows[at] == rows
            self._hashes.scatter(at.filter(won), hashes.filter(won))
            hashes, rows = hashes.filter(~won), rows.filter(~won)
            at, step = self._get_next_slots(at.filter(~won), step + 1), step + 1
        slots = self._find_free_slots(
            [SlotProbe(*each, step) for each in zip(rows, hashes, at, strict=True)]
        )
        self._rows.scatter(slots, rows)
        self._hashes.scatter(slots, hashes)

    def _find_one_by_one(self, probes: list[SlotProbe], same: KeysEqual, result: pl.Series) -> None:
        """Advance these probes until they find the slots of their keys."""
        import polars as pl

        while hits := [each for each in probes if self._advance_to_match(each)]:
            keys = pl.Series([each.key for each in hits], dtype=pl.UInt32)
            at = pl.Series([each.slot for each in hits], dtype=pl.UInt32)
            right = same(keys, self._rows[at])
            result.scatter(keys.filter(right), at.filter(right))
            probes = [each for each, is_right in zip(hits, right, strict=True) if not is_right]
            for each in probes:
                self._advance(each)

    def _find_free_slots(self, probes: list[SlotProbe]) -> pl.Series:
        """Return a different free slot for each of these probes."""
        import polars as pl

        slots: dict[int, None] = {}
        for each in probes:
            while each.slot in slots or self._rows[each.slot] != FREE_SLOT:
                self._advance(each)
            slots[each.slot] = None
        return pl.Series([*slots], dtype=pl.UInt32)

    def _advance_to_match(self, probe: SlotProbe) -> bool:
        """Advance the probe to the next row with its hash; False if it meets a free slot first."""
        while (row := self._rows[probe.slot]) != FREE_SLOT:
            if row >= 0 and self._hashes[probe.slot] == probe.hash:
                return True
            self._advance(probe)
        return False

    def _advance(self, probe: SlotProbe) -> None:
        probe.step += 1
        probe.slot = (probe.slot + probe.step) & (len(self._rows) - 1)

    def _rebuild(self, keys: int) -> None:
        """Rebuild the table for this many keys, a quarter to half full, without the slots of
        removed keys.
        """
        occupied_slots = self.list_occupied()
        hashes, rows = self._hashes[occupied_slots], self._rows[occupied_slots]
        self._hashes, self._rows = _make_slots(max(MIN_SLOTS, 1 << (keys * 2).bit_length()))
        self._used_slots = len(occupied_slots)
        self._insert(hashes, rows)

    def _get_home_slots(self, hashes: pl.Series) -> pl.Series:
        import polars as pl

        return (hashes & (len(self._rows) - 1)).cast(pl.UInt32)

    def _get_next_slots(self, at: pl.Series, step: int) -> pl.Series:
        import polars as pl

        # Each operation with a Python number takes longer than both with one-element series.
        more, mask = (pl.Series([each], dtype=at.dtype) for each in (step, len(self._rows) - 1))
        return (at + more) & mask


def _make_slots(count: int) -> tuple[pl.Series, pl.Series]:
    """Return the hash and row columns of this many free slots."""
    import polars as pl

    hashes = pl.Series([0], dtype=pl.UInt64).new_from_index(0, count)
    return hashes, pl.Series([FREE_SLOT], dtype=pl.Int32).new_from_index(0, count)


def _make_range(count: int) -> pl.Series:
    """Return the numbers from 0 up to the count."""
    import polars as pl

    return pl.int_range(count, dtype=pl.UInt32, eager=True)
