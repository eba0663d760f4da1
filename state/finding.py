"""Index of the rows of few keys: numbers the rows of all runs and looks keys up in a `HashIndex`.

A run gets its row numbers at the first lookup after it was added, so runs that are never looked up
cost nothing. Later changes of a run (rows were dropped, the run was merged) are noticed when its
index entries are found. When too many entries are stale, the index is rebuilt from scratch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from headrace.core.frames import projected, together
from headrace.state.places import MOST_NUMBERS, Places, entries_of, in_order, numbers_of
from headrace.state.run import Run

if TYPE_CHECKING:
    import polars as pl

NUMBER = "__number"
"""Column of found rows: the row's number among the rows of all runs."""
LEAST_ENTRIES = 4096


class Finding:
    """Lookup of rows in runs by their key, which has at least one column."""

    def __init__(self, key: Sequence[str]) -> None:
        self._key = list(key)
        self._places = Places()
        self._next = 0
        self._bases: list[int] = []
        self._based: list[Run] = []
        self._new: list[Run] = []

    def added(self, run: Run) -> None:
        """Add one run."""
        self._new.append(run)

    def replaced(self, runs: Sequence[Run]) -> None:
        """Make these the current runs; some of them may be new."""
        numbered = sum(run.rows for run in runs if run.base >= 0)
        if self._places.count > 2 * numbered + LEAST_ENTRIES:
            self._begin_anew(runs)
        self._new = [run for run in runs if run.base < 0]
        known = [(run.base, run) for run in runs if run.base >= 0]
        known.sort(key=lambda each: each[0])
        self._bases = [base for base, _ in known]
        self._based = [run for _, run in known]

    @property
    def owed(self) -> int:
        """Number of rows that the next lookup must sort first."""
        rows = sum(run.rows for run in self._new)
        return self._places.sorted_by(rows) if rows else 0

    def find(self, keys: pl.DataFrame, after: int | None) -> pl.DataFrame | None:
        """Return the rows of these keys filed after the slot, with their ROW_NUMBER, in the order
        of the runs.
        """
        self._number()
        entries = self._places.find(_hashes(keys, self._key))
        found = [
            (run.order, run.whole[there].insert_column(0, (there + run.base).alias(NUMBER)))
            for run, rows in self._by_run(in_order(numbers_of(entries)))
            if len(there := run.behind(rows, after))
        ]
        if not found:
            return None
        found.sort(key=lambda each: each[0])
        rows = together([frame for _, frame in found])
        # Different keys may share the half of the hash that is compared.
        same = self._of(keys, rows)
        return same if same.height else None

    def take(self, found: pl.DataFrame) -> list[Run]:
        """Delete these rows, which were found, and return the runs that had them."""
        numbers = found[NUMBER]
        runs = []
        for run, rows in self._by_run(in_order(numbers)):
            run.take(rows)
            runs.append(run)
        self._places.forget(entries_of(_hashes(found, self._key), numbers))
        return runs

    def _of(self, keys: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that have one of these keys."""
        if keys.height == 1 and not any(keys[name].null_count() for name in self._key):
            same = reduce(and_, (rows[name] == keys[name] for name in self._key))
            return rows if same.all(ignore_nulls=False) else rows.filter(same)
        return rows.join(keys, on=self._key, how="semi", nulls_equal=True, maintain_order="left")

    def _by_run(self, numbers: pl.Series) -> Iterator[tuple[Run, pl.Series]]:
        """Yield the runs that have some of these rows, with the positions of the rows."""
        start = 0
        while start < len(numbers):
            at = bisect_right(self._bases, numbers[start])
            following = self._bases[at] if at < len(self._bases) else MOST_NUMBERS
            end = bisect_left(numbers, following, start)
            if at:
                run = self._based[at - 1]
                within = bisect_left(numbers, run.base + run.whole.height, start, end)
                if within > start:
                    yield run, numbers[start:within] - run.base
            start = end

    def _number(self) -> None:
        """Give every new run its row numbers, and its rows index entries."""
        import polars as pl

        if not self._new:
            return
        if self._next + sum(run.whole.height for run in self._new) > MOST_NUMBERS:
            self._begin_anew([*self._based, *self._new])
        entries = []
        for run in self._new:
            run.base, rows = self._next, run.there()
            self._next += run.whole.height
            self._bases.append(run.base)
            self._based.append(run)
            hashes = _hashes(run.frame(), self._key)
            entries.append(entries_of(hashes, rows + run.base))
        self._new = []
        self._places.add(pl.concat(entries) if len(entries) > 1 else entries[0])

    def _begin_anew(self, runs: Sequence[Run]) -> None:
        for run in runs:
            run.base = -1
        self._places, self._next, self._new = Places(), 0, list(runs)
        self._bases, self._based = [], []


def hash_of(key: Sequence[str]) -> pl.Expr:
    """Return the expression of a hash of the key, equal for equal keys within this process."""
    import polars as pl

    return reduce(lambda one, other: one.hash() ^ other.hash(1), map(pl.col, key)).hash(2)


def _hashes(rows: pl.DataFrame, key: Sequence[str]) -> pl.Series:
    return projected(rows, hash_of(key).alias("hash"))["hash"]
