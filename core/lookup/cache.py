"""What a table said, for a while: the rows of keys in columns, found by a dictionary of keys.

An answer of nothing is one as well: a key that is not there is not asked for each time.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

MOST_CHUNKS = 64
"""So many frames are searched one behind the other before they are made one."""
FEW = 1024
"""Below so many rows, nothing is gained by dropping those that are not remembered any more."""


class Cache:
    """The answers for at most so many keys, each for so long; `rows=0` remembers nothing."""

    def __init__(self, rows: int, ttl_s: float) -> None:
        self._most = rows
        self._ttl_s = ttl_s
        self._known: dict[Hashable, tuple[float, int]] = {}
        """Until when each is known, and its row; in the order in which they were asked for."""
        self._answers: pl.DataFrame | None = None

    def __len__(self) -> int:
        return len(self._known)

    def find(self, keys: Sequence[Hashable], now: float) -> tuple[list[int], list[int]]:
        """Which of the keys are known, and the row of each of those."""
        which, rows, known = list[int](), list[int](), self._known
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

    def answers(self, rows: Sequence[int]) -> pl.DataFrame:
        """These rows."""
        assert self._answers is not None
        return self._answers[rows]

    def remember(self, keys: Sequence[Hashable], answers: pl.DataFrame, now: float) -> None:
        """The answer for each of these keys, in their order."""
        if not self._most:
            return
        first = 0 if self._answers is None else self._answers.height
        until = now + self._ttl_s
        for at, key in enumerate(keys):
            self._known.pop(key, None)
            self._known[key] = (until, first + at)
        for key in list(self._known)[: max(len(self._known) - self._most, 0)]:
            del self._known[key]
        self._answers = answers if self._answers is None else self._answers.vstack(answers)
        self._compact()

    def _compact(self) -> None:
        """Let go of rows that no key has, and of many small pieces."""
        assert self._answers is not None
        if self._answers.height > 2 * max(len(self._known), FEW):
            rows = [row for _, row in self._known.values()]
            self._answers = self._answers[rows]
            self._known = {
                key: (until, at) for at, (key, (until, _)) in enumerate(self._known.items())
            }
        elif self._answers.n_chunks() > MOST_CHUNKS:
            self._answers = self._answers.rechunk()
