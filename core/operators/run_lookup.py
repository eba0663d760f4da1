"""The choice between looking up keys in runs and reading all of their rows."""

from __future__ import annotations

from headrace.core.api.state import SortedRuns

LOOKUP_FACTOR = 8
"""The number of stored rows per requested key above which keys are looked up.

With fewer stored rows, all of them are read.
"""


def is_selective(runs: SortedRuns, keys: int) -> bool:
    """Whether this number of keys is small compared with the stored rows."""
    return keys * LOOKUP_FACTOR < runs.rows


def count_lookup_rows(runs: SortedRuns, keys: int) -> int:
    """Return the number of stored rows that a lookup of this number of keys has to process."""
    return runs.estimate_deferred_rows(for_lookup=True) if is_selective(runs, keys) else runs.rows
