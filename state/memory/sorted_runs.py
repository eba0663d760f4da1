"""Sorted runs in memory, merged only where that pays.

Every row is merged once anyway, when it is taken. Merging earlier costs time and saves memory, so
all runs are merged when they have grown to twice their size after the previous merge: keys that
repeat take at most twice their room, and keys that never repeat are merged about twice each.
(Merging by doubling merged a row 2.6 times where 10 k keys came in batches of 8 k, and 6.5 times
for a million keys; this way it is merged once, in half and in a sixth of the time.) Small runs are
merged when there are many of them.

Keys that are few compared with the rows are looked up without scanning the others (`run_lookup`). A
frame of few rows starts no long work: the merge that it makes necessary is deferred to the next
call, so a caller with few rows knows beforehand whether a call will take long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Literal

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import SLOT, RunsLayout, StateDescriptor
from headrace.core.api.state_sizes import StateSize
from headrace.core.types.frames import concat_chunks, copy_compact, hash_expr, sort_by_column
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.documents import RunsDocument
from headrace.state.memory.frame_blobs import FrameBlobs
from headrace.state.memory.row_filters import filter_groups
from headrace.state.memory.run_lookup import RunLookup
from headrace.state.memory.sorted_run import RunSnapshot, SortedRun

if TYPE_CHECKING:
    import polars as pl


SMALL_ROWS = 512
MAX_SMALL_RUNS = 64
"""Number of small runs that are merged to one."""

MIN_MERGE_BYTES = 1 << 25
"""Up to this size in all, merging does not pay."""

MERGE_PARTITION_ROWS, MAX_MERGE_PARTITIONS = 1 << 18, 16
"""More rows are merged in partitions by key: for 2 M rows of 1 M keys that took 90 MB of extra
memory, instead of 130 MB at once, or 260 MB with Polars' other engine, and no more time.
"""

MIN_LOOKUP_ROWS = 4096
LOOKUP_RATIO = 32
"""Keys are looked up in the index if there are at least MIN_LOOKUP_ROWS rows, and this many times
as many as keys,
"""
FEW_KEYS = 64
MAX_SCANNED_RUNS = 2
"""or if there are at most FEW_KEYS keys and more runs than this, each of which a scan would
read.
"""

DEFER_BELOW_ROWS = 2000
"""A frame of fewer rows leaves the work that it causes to the next call."""


class MemoryRuns:
    """Live state of sorted runs."""

    def __init__(self, layout: RunsLayout) -> None:
        self.layout = layout
        self._lookup = RunLookup(layout.key)
        self._runs: list[SortedRun] = []
        self._run_count = 0
        """Number of runs created so far."""
        self._rows = self._bytes = self._small_count = 0
        """Rows, their memory in bytes, and how many of the last runs are small."""
        self._merged_bytes = 0
        """Memory in bytes after the last full merge."""
        self._wasteful_runs: dict[SortedRun, int] = {}
        """Runs with more deleted than live rows, and their rows in memory."""

    def add(self, frame: pl.DataFrame) -> None:
        if not frame.height:
            return
        soon = frame.height >= DEFER_BELOW_ROWS
        if not soon:
            self._do_deferred_work()
        self._append_run(copy_compact(sort_by_column(frame, SLOT)))
        if soon:
            self._do_deferred_work()

    def estimate_deferred_rows(self, *, for_lookup: bool) -> int:
        """Return how many rows the next call works on: deferred merges, and rows to be indexed."""
        rows = (
            self._rows if self._needs_full_merge else sum(run.rows for run in self._mergeable_runs)
        )
        rows += sum(run.rows for run in self._wasteful_runs) if self._needs_reclaim else 0
        return rows + self._lookup.pending_rows if for_lookup and self._can_look_up(1) else rows

    def get_first_slot(self) -> int | None:
        """Return the lowest slot."""
        return min((run.first_slot for run in self._runs if run.rows), default=None)

    def take(self, until: int) -> pl.DataFrame | None:
        """Remove and return everything up to a slot."""
        found = self._read_range(None, until)
        self.drop(until)
        return found

    def read(self, after: int, until: int) -> pl.DataFrame | None:
        """Return everything between two slots."""
        return None if after >= until else self._read_range(after, until)

    def drop(self, until: int) -> None:
        """Delete everything up to a slot."""
        first = self.get_first_slot()
        if first is None or first > until:
            return
        is_wasteful = False
        for run in self._runs:
            if run.first_slot <= until:
                self._rows -= run.rows
                self._bytes -= run.bytes
                run.drop(until)
                self._rows += run.rows
                self._bytes += run.bytes
                is_wasteful |= run.is_mostly_deleted
        if is_wasteful:
            self._reclaim_deleted()

    def compact(self) -> None:
        """Merge all runs to one."""
        if len(self._runs) > 1:
            self._set_runs(self._merge_runs(self._runs))
            self._merged_bytes = self._bytes

    def read_keys(self, keys: pl.DataFrame, after: int) -> pl.DataFrame | None:
        """Return the rows of those keys filed after a slot."""
        if self._can_look_up(keys.height):
            found = self._lookup.find(keys, after)
            return None if found is None else _drop_row_numbers(found)
        tail = _concat_nonempty(
            run.read_frame(after) for run in self._runs if run.last_slot > after
        )
        found = None if tail is None else filter_keys(tail, self.layout.key, keys)
        return found if found is not None and found.height else None

    def take_keys(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return all rows of those keys."""
        found = (
            self._take_by_lookup(keys)
            if self._can_look_up(keys.height)
            else self._take_by_scan(keys)
        )
        return None if found is None else self._merge_frames([found])

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._rows

    @property
    def bytes(self) -> int:
        """Approximate memory of the rows."""
        return self._bytes

    @property
    def size(self) -> StateSize:
        return StateSize(self._rows, self._bytes)

    def restore(self, frames: Sequence[pl.DataFrame]) -> None:
        """Start with these frames, sorted as a frozen state returns them."""
        for frame in frames:
            self._append_run(frame)

    def freeze(self) -> FrozenRuns:
        parts = tuple(run.freeze() for run in self._runs if run.rows)
        return FrozenRuns(self.layout.key, parts)

    def _append_run(self, frame: pl.DataFrame) -> None:
        run = self._create_run(frame)
        self._runs.append(run)
        self._lookup.add_run(run)
        self._rows += run.rows
        self._bytes += run.bytes
        self._small_count = self._small_count + 1 if self._is_small(run) else 0

    def _create_run(self, frame: pl.DataFrame, like: SortedRun | None = None) -> SortedRun:
        """Create a run, in the order of another one or after all."""
        self._run_count += 1
        return SortedRun(frame, self._run_count if like is None else like.order)

    def _set_runs(self, runs: list[SortedRun]) -> None:
        self._runs, self._wasteful_runs = runs, {}
        self._lookup.set_runs(runs)
        self._rows = sum(run.rows for run in runs)
        self._bytes = sum(run.bytes for run in runs)
        self._merged_bytes = min(self._merged_bytes, self._bytes)
        self._small_count = sum(1 for _ in takewhile(self._is_small, reversed(runs)))

    def _is_small(self, run: SortedRun) -> bool:
        return run.all_rows.height <= SMALL_ROWS

    @property
    def _needs_full_merge(self) -> bool:
        """Whether all runs must be merged."""
        return self._bytes > max(2 * self._merged_bytes, MIN_MERGE_BYTES)

    @property
    def _mergeable_runs(self) -> list[SortedRun]:
        """Small runs that must be merged."""
        return self._runs[-self._small_count :] if self._small_count >= MAX_SMALL_RUNS else []

    @property
    def _needs_reclaim(self) -> bool:
        """Whether the memory of deleted rows must be freed."""
        many = len(self._wasteful_runs) >= MAX_SMALL_RUNS // 4
        return many or sum(self._wasteful_runs.values()) >= DEFER_BELOW_ROWS

    def _do_deferred_work(self) -> None:
        """Do deferred work."""
        if small := self._mergeable_runs:
            self._set_runs([*self._runs[: -len(small)], *self._merge_runs(small)])
        if self._needs_full_merge:
            self._set_runs(self._merge_runs(self._runs))
            self._merged_bytes = self._bytes
        if self._needs_reclaim:
            self._reclaim_deleted()

    def _merge_runs(self, runs: list[SortedRun]) -> list[SortedRun]:
        """Merge these runs to one, or to none if they have no rows."""
        frames = [run.read_frame() for run in runs if run.rows]
        merged = self._merge_frames(frames) if frames else None
        # Rows may cancel each other out.
        return (
            [] if merged is None or not merged.height else [self._create_run(copy_compact(merged))]
        )

    def _reclaim_deleted(self) -> None:
        """Free the memory of deleted rows."""
        self._set_runs([self._compact_run(run) for run in self._runs if run.rows])

    def _compact_run(self, run: SortedRun) -> SortedRun:
        if not run.is_mostly_deleted:
            return run
        import polars as pl

        frame = run.read_frame()
        rows = pl.int_range(frame.height, dtype=pl.UInt32, eager=True)
        return self._create_run(copy_compact(frame[rows]), run)

    def _can_look_up(self, keys: int) -> bool:
        """Whether an index lookup of this many keys is better than a scan."""
        few = self._rows >= max(keys * LOOKUP_RATIO, MIN_LOOKUP_ROWS)
        return bool(self.layout.key) and (
            few or (keys <= FEW_KEYS and len(self._runs) > MAX_SCANNED_RUNS)
        )

    def _take_by_lookup(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return the rows of few keys by the index."""
        found = self._lookup.find(keys, None)
        if found is None:
            return None
        self._rows -= found.height
        for run in self._lookup.delete_found(found):
            if run.is_mostly_deleted and run not in self._wasteful_runs:
                self._wasteful_runs[run] = run.all_rows.height
        return _drop_row_numbers(found)

    def _take_by_scan(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return the rows of those keys by a scan, which rebuilds the runs."""
        frames = [run.read_frame() for run in self._runs]
        matching_rows = [filter_keys(frame, self.layout.key, keys) for frame in frames]
        retained_runs = [
            self._create_run(filter_keys(frame, self.layout.key, keys, "anti"), run)
            if part.height
            else run
            for run, frame, part in zip(self._runs, frames, matching_rows, strict=True)
            if part.height < frame.height
        ]
        joined = _concat_nonempty(matching_rows)
        if joined is not None:
            self._set_runs(retained_runs)
        return joined

    def _read_range(self, after: int | None, until: int) -> pl.DataFrame | None:
        parts = [
            part
            for run in self._runs
            if run.rows and run.first_slot <= until and (after is None or run.last_slot > after)
            if (part := run.read_frame(after, until)).height
        ]
        return parts[0] if len(parts) == 1 else self._merge_frames(parts) if parts else None

    def _merge_frames(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        parts = min(
            sum(frame.height for frame in frames) // MERGE_PARTITION_ROWS + 1, MAX_MERGE_PARTITIONS
        )
        if parts == 1 or not self.layout.key:
            return sort_by_column(self.layout.merge(concat_chunks(frames)), SLOT)
        number = hash_expr(self.layout.key) % parts
        merged = [
            self.layout.merge(concat_chunks([frame.filter(number == part) for frame in frames]))
            for part in range(parts)
        ]
        return sort_by_column(concat_chunks(merged), SLOT)


@dataclass(frozen=True, slots=True)
class FrozenRuns:
    """Runs as they were when the state was frozen."""

    key: tuple[str, ...]
    parts: tuple[RunSnapshot, ...]

    @classmethod
    def load(cls, document: RunsDocument, store: SnapshotStore, blobs: FrameBlobs) -> FrozenRuns:
        """Read stored runs back. Raises SnapshotError."""
        parts = tuple(RunSnapshot.load(each, store, blobs) for each in document.frames)
        return cls(document.key, parts)

    @property
    def frames(self) -> tuple[pl.DataFrame, ...]:
        """Frames of the live rows."""
        return tuple(part.live_rows for part in self.parts)

    @property
    def descriptor(self) -> StateDescriptor:
        return StateDescriptor(is_table=False, key=self.key)

    @property
    def columns(self) -> Mapping[str, pl.DataType] | None:
        """Columns of the rows; None without rows."""
        return self.parts[0].all_rows.schema if self.parts else None

    def read_chunks(self, groups: range | None, key_groups: int) -> Iterator[pl.DataFrame]:
        """Yield the frames restricted to those key groups; None: all frames."""
        for part in self.parts:
            rows = filter_groups(part.live_rows, self.key, groups, key_groups)
            if groups is None or rows.height:
                yield rows

    def persist(self, store: SnapshotStore, blobs: FrameBlobs) -> RunsDocument:
        """Put the frames into the store."""
        return RunsDocument(self.key, [part.persist(store, blobs) for part in self.parts])


def _drop_row_numbers(found: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(found.get_columns()[1:])


def _concat_nonempty(frames: Iterable[pl.DataFrame]) -> pl.DataFrame | None:
    full = [frame for frame in frames if frame.height]
    return concat_chunks(full) if full else None


def filter_keys(
    frame: pl.DataFrame,
    key: Sequence[str],
    keys: pl.DataFrame,
    how: Literal["semi", "anti"] = "semi",
) -> pl.DataFrame:
    """Return the rows of a frame whose key is among these, or is not; keeps the order."""
    if not key:
        return frame if how == "semi" else frame.clear()
    return frame.join(keys, on=list(key), how=how, nulls_equal=True, maintain_order="left")
