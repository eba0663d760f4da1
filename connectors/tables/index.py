"""An index of rows in memory, searched for a batch of keys: sorted by a hash of the key.

A join would build a hash table of all rows for every batch; this index finds a few thousand keys
among millions of rows in time proportional to the few thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.contracts import FOUND_AT

if TYPE_CHECKING:
    import polars as pl

_HASH = "__hash"


@dataclass(frozen=True, slots=True)
class Index:
    """Rows of a table with unique keys, stored apart from them in the same order."""

    hashes: pl.Series
    keys: pl.DataFrame
    rows: pl.DataFrame
    seed: int

    def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of the keys that exist, each with its row number in `keys`."""
        import polars as pl

        asked = hashed(keys, self.seed)
        at = pl.int_range(keys.height, dtype=pl.UInt32, eager=True).alias(FOUND_AT)
        if not self.keys.height:
            return self.rows.clear().insert_column(0, at.clear())
        places = self.hashes.search_sorted(asked, side="left")
        places = pl.Series(places).clip(upper_bound=self.keys.height - 1)
        same = pl.select(
            pl.all_horizontal(
                self.keys[name].gather(places) == keys[name] for name in self.keys.columns
            )
        ).to_series()
        return self.rows[places.filter(same)].insert_column(0, at.filter(same))


def indexed(keys: pl.DataFrame, rows: pl.DataFrame) -> Index:
    """Build an index of rows by their keys, which must be unique."""
    seed = 0
    while (hashes := hashed(keys, seed)).n_unique() < keys.height:
        seed += 1
    order = hashes.arg_sort()
    return Index(hashes.gather(order).set_sorted(), keys[order], rows[order], seed)


def hashed(keys: pl.DataFrame, seed: int) -> pl.Series:
    """Hash each key; the hashes are stable within a process."""
    return keys.hash_rows(seed=seed).alias(_HASH)
