"""The cache of lookup answers, for a limited time: rows in a frame, found by a dictionary of keys.

Misses are cached as well, so a key that the table lacks is not requested each time.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

MAX_CHUNKS = 64
"""The largest number of chunks of the frame before they are merged into one."""
MIN_COMPACT_ROWS = 1024
"""Below this number of rows, removing those of evicted keys is not worth the effort."""


class LookupCache:
    """Caches the answers of at most `rows` keys, each for `ttl_s`; `rows=0` caches nothing."""

    def __init__(self, rows: int, ttl_s: float) -> None:
        self._max_rows = rows
        self._ttl_s = ttl_s
        self._entries: dict[Hashable, tuple[float, int]] = {}
        """The expiry and the row index of each key, least recently used first."""
        self._answers: pl.DataFrame | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, keys: Sequence[Hashable], now: float) -> tuple[list[int], list[int]]:
        """Return the indices of the cached keys, and the row index of each."""
        which, rows, known = list[int](), list[int](), self._entries
        if not known:
            return which, rows
        for at, key in enumerate(keys):
            entry = known.get(key)
            if entry is None:
                continue
            del known[key]
            if entry[0] > now:
                known[key] = entry
                which.append(at)
                rows.append(entry[1])
        return which, rows

    def get_answers(self, rows: Sequence[int]) -> pl.DataFrame:
        """Return the answers at these row indices."""
        assert self._answers is not None
        return self._answers[rows]

    def store(self, keys: Sequence[Hashable], answers: pl.DataFrame, now: float) -> None:
        """Store the answers for these keys, in the order of the keys; evict the oldest."""
        if not self._max_rows:
            return
        first = 0 if self._answers is None else self._answers.height
        until = now + self._ttl_s
        for at, key in enumerate(keys):
            self._entries.pop(key, None)
            self._entries[key] = (until, first + at)
        for key in list(self._entries)[: max(len(self._entries) - self._max_rows, 0)]:
            del self._entries[key]
        self._answers = answers if self._answers is None else self._answers.vstack(answers)
        self._compact()

    def _compact(self) -> None:
        """Remove the rows of evicted keys, and merge small chunks."""
        assert self._answers is not None
        if self._answers.height > 2 * max(len(self._entries), MIN_COMPACT_ROWS):
            rows = [row for _, row in self._entries.values()]
            self._answers = self._answers[rows]
            self._entries = {
                key: (until, at) for at, (key, (until, _)) in enumerate(self._entries.items())
            }
        elif self._answers.n_chunks() > MAX_CHUNKS:
            self._answers = self._answers.rechunk()
