"""Sorted runs that spill to disk when memory is short.

While the memory budget allows, all runs are in memory. When it does not, all of them are merged and
written to disk as one sorted run, cut by key and by time: by key, so that later merges on disk fit
into memory partition by partition; by time, so that the rows due first are read first. When a
partition has eight runs of a level, they are merged into one run of the next level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import SLOT, RunsLayout, StateDescriptor
from headrace.core.api.state_sizes import StateSize
from headrace.core.types.frames import concat_chunks, copy_compact, count_up_to, sort_by_column
from headrace.core.types.key_groups import compute_row_groups
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.frame_blobs import BlobName, FrameBlobs
from headrace.state.memory.row_filters import filter_groups
from headrace.state.memory.sorted_runs import FrozenRuns, MemoryRuns, filter_keys
from headrace.state.rocks.documents import SpilledDocument, SpillingRunsDocument
from headrace.state.rocks.memory_budget import MemoryBudget
from headrace.state.rocks.run_files import RunFile, RunFileFolder, RunFileStore

if TYPE_CHECKING:
    import polars as pl

KEY_PARTITIONS = 8
"""Number of partitions of the keys."""

TARGET_FILE_BYTES = 1 << 22
"""Target size of a run file."""

MAX_RUNS_PER_LEVEL = 8
"""Number of runs of a level that are merged into one."""

MAX_MERGE_BYTES = 1 << 27
"""Runs larger than this in memory are not merged before they are due."""


@dataclass(frozen=True, slots=True)
class FrozenSpillingRuns:
    """Runs as they were when the state was frozen."""

    memory: FrozenRuns
    run_files: tuple[RunFile, ...]
    file_store: RunFileStore | None
    """Location of the run files, if there are any."""

    def read_file(self, spilled: RunFile) -> pl.DataFrame:
        """Return the rows of one run file."""
        assert self.file_store is not None
        return self.file_store.read(spilled)

    @property
    def descriptor(self) -> StateDescriptor:
        return self.memory.descriptor

    @property
    def columns(self) -> Mapping[str, pl.DataType] | None:
        """Columns of the rows; None without rows."""
        if self.memory.columns is not None:
            return self.memory.columns
        return self.read_file(self.run_files[0]).schema if self.run_files else None

    @property
    def memory_state(self) -> FrozenRuns | None:
        """The runs as runs in memory; None if some are on disk."""
        return None if self.run_files else self.memory

    def read_chunks(self, groups: range | None, key_groups: int) -> Iterator[pl.DataFrame]:
        """Yield the frames restricted to those key groups; None: all frames."""
        yield from self.memory.read_chunks(groups, key_groups)
        for spilled in self.run_files:
            rows = filter_groups(self.read_file(spilled), self.memory.key, groups, key_groups)
            if rows.height:
                yield rows

    def persist(self, store: SnapshotStore, blobs: FrameBlobs) -> SpillingRunsDocument:
        """Put the frames and the run files into the store."""
        memory = self.memory.persist(store, blobs)
        return SpillingRunsDocument(memory, [self._persist_file(s, store) for s in self.run_files])

    def _persist_file(self, spilled: RunFile, store: SnapshotStore) -> SpilledDocument:
        assert self.file_store is not None
        s, blob = spilled, self.file_store.persist(spilled, store)
        return SpilledDocument(
            BlobName.from_blob(blob),
            *(s.partition, s.level, s.run_number, s.first_slot, s.last_slot, s.rows, s.skip),
        )


class SpillingRuns:
    """Live state of sorted runs."""

    def __init__(
        self,
        layout: RunsLayout,
        groups: range,
        key_groups: int,
        files: RunFileFolder,
        budget: MemoryBudget,
    ) -> None:
        self._layout = layout
        self._groups, self._key_groups = groups, key_groups
        self._files, self._budget = files, budget
        self._memory = MemoryRuns(layout)
        self._run_files: list[RunFile] = []

    def add(self, frame: pl.DataFrame) -> None:
        self._memory.add(frame)
        if self._budget.report_usage(self, self._memory.bytes):
            self._spill()

    def get_first_slot(self) -> int | None:
        """Return the lowest slot."""
        firsts = [spilled.first_slot for spilled in self._run_files]
        in_memory = self._memory.get_first_slot()
        return min(firsts if in_memory is None else [in_memory, *firsts], default=None)

    def take(self, until: int) -> pl.DataFrame | None:
        """Remove and return everything up to a slot."""
        found = self._memory.take(until)
        if self._has_spilled(until):
            cut = [self._split_file(spilled, until) for spilled in self._run_files]
            self._run_files = [remainder for remainder, _ in cut if remainder is not None]
            found = self._merge_nonempty([found, *(head for _, head in cut)])
        return found

    def read(self, after: int, until: int) -> pl.DataFrame | None:
        """Return everything between two slots."""
        found = self._memory.read(after, until)
        if after >= until or not self._has_spilled(until):
            return found
        inside = (s for s in self._run_files if s.last_slot > after and s.first_slot <= until)
        return self._merge_nonempty(
            [found, *(_slice_between(self._files.read(s), after, until) for s in inside)]
        )

    def drop(self, until: int) -> None:
        """Delete everything up to a slot."""
        self._memory.drop(until)
        if self._has_spilled(until):
            cut = [self._split_file(spilled, until) for spilled in self._run_files]
            self._run_files = [remainder for remainder, _ in cut if remainder is not None]

    def compact(self) -> None:
        """Merge the runs in memory to one."""
        self._memory.compact()

    def read_keys(self, keys: pl.DataFrame, after: int) -> pl.DataFrame | None:
        """Return the rows of those keys filed after a slot."""
        frames = [self._memory.read_keys(keys, after)]
        for spilled in self._run_files:
            if spilled.last_slot > after:
                frame = self._files.read(spilled)
                frames.append(
                    filter_keys(
                        frame.slice(count_up_to(frame[SLOT], after)), self._layout.key, keys
                    )
                )
        full = _drop_empty(frames)
        return concat_chunks(full) if full else None

    def take_keys(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return all rows of those keys."""
        frames = [self._memory.take_keys(keys)]
        retained_files: list[RunFile] = []
        for spilled in self._run_files:
            frame = self._files.read(spilled)
            matching_rows = filter_keys(frame, self._layout.key, keys)
            frames.append(matching_rows)
            retained_files.extend(
                self._rewrite_without(spilled, frame, keys) if matching_rows.height else [spilled]
            )
        if self._run_files:
            self._run_files = retained_files
            return self._merge_nonempty(frames)
        return frames[0]

    def estimate_deferred_rows(self, *, for_lookup: bool) -> int:
        """Return the deferred rows in memory; a request for keys also reads all rows on disk."""
        on_disk = sum(spilled.rows for spilled in self._run_files) if for_lookup else 0
        return self._memory.estimate_deferred_rows(for_lookup=for_lookup) + on_disk

    @property
    def rows(self) -> int:
        """Approximate number of rows."""
        return self._memory.rows + sum(spilled.rows for spilled in self._run_files)

    @property
    def size(self) -> StateSize:
        spilled, in_memory = self._run_files, self._memory.size
        on_disk = sum(each.bytes for each in spilled)
        return StateSize(in_memory.rows + sum(e.rows for e in spilled), in_memory.bytes, on_disk)

    def freeze(self) -> FrozenSpillingRuns:
        return FrozenSpillingRuns(self._memory.freeze(), tuple(self._run_files), self._files)

    def restore(self, frames: Iterable[pl.DataFrame]) -> None:
        """Add these restored frames, sorted as a frozen state returns them."""
        for frame in frames:
            self._memory.restore([frame])
            if self._budget.report_usage(self, self._memory.bytes):
                self._spill()

    def adopt(self, frozen: FrozenSpillingRuns) -> None:
        """Start with a frozen state whose files are in place."""
        self._run_files = list(frozen.run_files)
        self._memory.restore(frozen.memory.frames)
        self._budget.report_usage(self, self._memory.bytes)

    def close(self) -> None:
        """Remove this state from the memory budget."""
        self._budget.release(self)

    def _has_spilled(self, until: int) -> bool:
        return any(spilled.first_slot <= until for spilled in self._run_files)

    def _split_file(
        self, spilled: RunFile, until: int
    ) -> tuple[RunFile | None, pl.DataFrame | None]:
        """Return the rest of the run file after a slot, and the rows up to the slot."""
        if spilled.first_slot > until:
            return spilled, None
        frame = self._files.read(spilled)
        end = count_up_to(frame[SLOT], until)
        if end == frame.height:
            self._files.discard(spilled)
            return None, frame
        first, rows, skip = int(frame[SLOT][end]), frame.height - end, spilled.skip + end
        return replace(spilled, first_slot=first, rows=rows, skip=skip), frame.head(end)

    def _rewrite_without(
        self, spilled: RunFile, frame: pl.DataFrame, keys: pl.DataFrame
    ) -> Iterator[RunFile]:
        """Rewrite the run file without these keys."""
        self._files.discard(spilled)
        rest = filter_keys(frame, self._layout.key, keys, "anti")
        if rest.height:
            yield self._files.write(rest, spilled.partition, spilled.level, spilled.run_number)

    def _spill(self) -> None:
        """Merge all runs in memory and write them to disk."""
        frames = self._memory.freeze().frames
        if not frames:
            return
        lot, parts = (
            self._files.next_number(),
            [self._compute_partitions(frame) for frame in frames],
        )
        for part in range(KEY_PARTITIONS):
            pairs = zip(frames, parts, strict=True)
            if full := _drop_empty(frame.filter(of == part) for frame, of in pairs):
                self._run_files.extend(self._write_files(self._merge_frames(full), part, 0, lot))
                self._compact_level(part, 0)
        self._memory = MemoryRuns(self._layout)
        self._budget.report_usage(self, 0)

    def _compact_level(self, part: int, level: int) -> None:
        """Merge the runs of a level, if there are enough and they are not too large."""
        alike = [each for each in self._run_files if (each.partition, each.level) == (part, level)]
        lots = Counter(each.run_number for each in alike)
        if len(lots) < MAX_RUNS_PER_LEVEL:
            return
        frames = [self._files.read(each) for each in alike]
        if sum(frame.estimated_size() for frame in frames) > MAX_MERGE_BYTES:
            return
        merged = list(
            self._write_files(
                self._merge_frames(frames), part, level + 1, self._files.next_number()
            )
        )
        self._run_files = [each for each in self._run_files if each not in alike] + merged
        for each in alike:
            self._files.discard(each)
        self._compact_level(part, level + 1)

    def _write_files(
        self, frame: pl.DataFrame, part: int, level: int, lot: int
    ) -> Iterator[RunFile]:
        """Write the files of a merged frame, cut between slots where they are large enough."""
        least = max(1, frame.height * TARGET_FILE_BYTES // max(1, int(frame.estimated_size())))
        slots, start = frame[SLOT], 0
        while start < frame.height:
            last = min(start + least, frame.height) - 1
            end = count_up_to(slots, int(slots[last]))
            yield self._files.write(frame.slice(start, end - start), part, level, lot)
            start = end

    def _compute_partitions(self, frame: pl.DataFrame) -> pl.Series:
        """Return the partition of each row: ranges of the owned key groups."""
        groups = compute_row_groups(frame, self._layout.key, self._key_groups).cast(int)
        return (groups - self._groups.start) * KEY_PARTITIONS // len(self._groups)

    def _merge_nonempty(self, frames: Sequence[pl.DataFrame | None]) -> pl.DataFrame | None:
        full = _drop_empty(frames)
        return self._merge_frames(full) if full else None

    def _merge_frames(self, frames: list[pl.DataFrame]) -> pl.DataFrame:
        return copy_compact(sort_by_column(self._layout.merge(concat_chunks(frames)), SLOT))


def _drop_empty(frames: Iterable[pl.DataFrame | None]) -> list[pl.DataFrame]:
    return [frame for frame in frames if frame is not None and frame.height]


def _slice_between(frame: pl.DataFrame, after: int, until: int) -> pl.DataFrame:
    start, end = (count_up_to(frame[SLOT], slot) for slot in (after, until))
    return frame.slice(start, end - start)
