"""Index of the rows of few keys: numbers the rows of all runs and looks keys up in a `HashIndex`.

A run gets its row numbers at the first lookup after it was added, so runs that are never looked up
cost nothing. Later changes of a run (rows were dropped, the run was merged) are noticed when its
index entries are found. When too many entries are stale, the index is rebuilt from scratch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.types.frames import (
    concat_chunks,
    filter_rows,
    gather_rows,
    hash_rows,
    list_keys,
)
from headrace.state.memory.hash_index import (
    ROW_NUMBER_LIMIT,
    HashIndex,
    decode_row_numbers,
    encode_entries,
    sort_numbers,
)
from headrace.state.memory.sorted_run import SortedRun

if TYPE_CHECKING:
    import polars as pl

ROW_NUMBER = "__number"
"""Column of found rows: the row's number among the rows of all runs."""
MIN_STALE_ENTRIES = 4096
FEW_KEYS, MAX_LISTED_ROWS = 64, 512
"""Up to these numbers of keys and of found rows, a set of keys is faster than a join of frames."""


class RunLookup:
    """Lookup of rows in runs by their key, which has at least one column."""

    def __init__(self, key: Sequence[str]) -> None:
        self._key = list(key)
        self._index = HashIndex()
        self._next_number = 0
        self._base_numbers: list[int] = []
        self._numbered_runs: list[SortedRun] = []
        self._unnumbered_runs: list[SortedRun] = []

    def add_run(self, run: SortedRun) -> None:
        """Add one run."""
        self._unnumbered_runs.append(run)

    def set_runs(self, runs: Sequence[SortedRun]) -> None:
        """Make these the current runs; some of them may be new."""
        numbered = sum(run.rows for run in runs if run.base_number >= 0)
        if self._index.entry_count > 2 * numbered + MIN_STALE_ENTRIES:
            self._reset(runs)
        self._unnumbered_runs = [run for run in runs if run.base_number < 0]
        known = [(run.base_number, run) for run in runs if run.base_number >= 0]
        known.sort(key=lambda each: each[0])
        self._base_numbers = [base for base, _ in known]
        self._numbered_runs = [run for _, run in known]

    @property
    def pending_rows(self) -> int:
        """Number of rows that the next lookup must sort first."""
        rows = sum(run.rows for run in self._unnumbered_runs)
        return self._index.estimate_sorted_entries(rows) if rows else 0

    def find(self, keys: pl.DataFrame, after: int | None) -> pl.DataFrame | None:
        """Return the rows of these keys filed after the slot, with their ROW_NUMBER, in the order
        of the runs.
        """
        self._number_new_runs()
        entries = self._index.find(hash_rows(keys, self._key))
        frames = [
            (
                run.order,
                gather_rows(run.all_rows, there).insert_column(
                    0, (there + run.base_number).alias(ROW_NUMBER)
                ),
            )
            for run, rows in self._group_by_run(sort_numbers(decode_row_numbers(entries)))
            if len(there := run.select_after(rows, after))
        ]
        if not frames:
            return None
        frames.sort(key=lambda each: each[0])
        rows = concat_chunks([frame for _, frame in frames])
        # Different keys may share the half of the hash that is compared.
        same = self._filter_keys(keys, rows)
        return same if same.height else None

    def delete_found(self, found: pl.DataFrame) -> list[SortedRun]:
        """Delete these rows, which were found, and return the runs that had them."""
        numbers = found[ROW_NUMBER]
        runs = []
        for run, rows in self._group_by_run(sort_numbers(numbers)):
            run.delete_rows(rows)
            runs.append(run)
        self._index.delete(encode_entries(hash_rows(found, self._key), numbers))
        return runs

    def _filter_keys(self, keys: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that have one of these keys."""
        import polars as pl

        if keys.height <= FEW_KEYS and rows.height <= MAX_LISTED_ROWS:
            wanted = list_keys(keys, self._key)
            if wanted is not None and (there := list_keys(rows, self._key)) is not None:
                known = frozenset(wanted)
                same = [key in known for key in there]
                return rows if all(same) else filter_rows(rows, pl.Series(same, dtype=pl.Boolean))
        return rows.join(keys, on=self._key, how="semi", nulls_equal=True, maintain_order="left")

    def _group_by_run(self, numbers: pl.Series) -> Iterator[tuple[SortedRun, pl.Series]]:
        """Yield the runs that have some of these rows, with the positions of the rows."""
        start = 0
        while start < len(numbers):
            at = bisect_right(self._base_numbers, numbers[start])
            following = self._base_numbers[at] if at < len(self._base_numbers) else ROW_NUMBER_LIMIT
            end = bisect_left(numbers, following, start)
            if at:
                run = self._numbered_runs[at - 1]
                within = bisect_left(numbers, run.base_number + run.all_rows.height, start, end)
                if within > start:
                    yield run, numbers[start:within] - run.base_number
            start = end

    def _number_new_runs(self) -> None:
        """Give every new run its row numbers, and its rows index entries."""
        import polars as pl

        if not self._unnumbered_runs:
            return
        if (
            self._next_number + sum(run.all_rows.height for run in self._unnumbered_runs)
            > ROW_NUMBER_LIMIT
        ):
            self._reset([*self._numbered_runs, *self._unnumbered_runs])
        entries = []
        for run in self._unnumbered_runs:
            run.base_number, rows = self._next_number, run.list_live_positions()
            self._next_number += run.all_rows.height
            self._base_numbers.append(run.base_number)
            self._numbered_runs.append(run)
            hashes = hash_rows(run.read_frame(), self._key)
            entries.append(encode_entries(hashes, rows + run.base_number))
        self._unnumbered_runs = []
        self._index.add(pl.concat(entries) if len(entries) > 1 else entries[0])

    def _reset(self, runs: Sequence[SortedRun]) -> None:
        for run in runs:
            run.base_number = -1
        self._index, self._next_number, self._unnumbered_runs = HashIndex(), 0, list(runs)
        self._base_numbers, self._numbered_runs = [], []
