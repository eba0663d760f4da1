"""An index of rows in memory, searched for a batch of keys: sorted by a hash of the key.

A join would build a hash table of all rows for every batch; this index finds a few thousand keys
among millions of rows in time proportional to the few thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.contracts import LOOKUP_KEY_INDEX

if TYPE_CHECKING:
    import polars as pl

_HASH_COLUMN = "__hash"


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """Rows of a table with unique keys, stored apart from them in the same order."""

    hashes: pl.Series
    keys: pl.DataFrame
    rows: pl.DataFrame
    seed: int

    def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of the keys that exist, each with its row number in `keys`."""
        import polars as pl

        asked = hash_keys(keys, self.seed)
        at = pl.int_range(keys.height, dtype=pl.UInt32, eager=True).alias(LOOKUP_KEY_INDEX)
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


def build_index(keys: pl.DataFrame, rows: pl.DataFrame) -> KeyIndex:
    """Build an index of rows by their keys, which must be unique."""
    seed = 0
    while (hashes := hash_keys(keys, seed)).n_unique() < keys.height:
        seed += 1
    order = hashes.arg_sort()
    return KeyIndex(hashes.gather(order).set_sorted(), keys[order], rows[order], seed)


def hash_keys(keys: pl.DataFrame, seed: int) -> pl.Series:
    """Hash each key; the hashes are stable within a process."""
    return keys.hash_rows(seed=seed).alias(_HASH_COLUMN)
