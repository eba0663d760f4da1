"""The choice between looking up keys in runs and reading all of their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.api.state import SortedRuns

if TYPE_CHECKING:
    import polars as pl

LOOKUP_FACTOR = 8
"""The number of stored rows per requested key above which keys are looked up.

With fewer stored rows, all of them are read.
"""

FEW_KEYS = 64
"""Up to this number, looking up keys that repeat takes less time than finding out that they do."""


def is_selective(runs: SortedRuns, keys: int) -> bool:
    """Whether this number of keys is small compared with the stored rows."""
    return keys * LOOKUP_FACTOR < runs.rows


def count_lookup_rows(runs: SortedRuns, keys: int) -> int:
    """Return the number of stored rows that a lookup of this number of keys has to process."""
    return runs.estimate_deferred_rows(for_lookup=True) if is_selective(runs, keys) else runs.rows


def look_up_keys(runs: SortedRuns, keys: pl.DataFrame, after: int) -> pl.DataFrame | None:
    """Return the rows of these keys in slots after `after`; keys may occur more than once."""
    return runs.read_keys(keys.unique() if keys.height > FEW_KEYS else keys, after)
