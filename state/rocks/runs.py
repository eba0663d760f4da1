"""Sorted runs that spill to disk when memory is short.

While the memory budget allows, all runs are in memory. When it does not, all of them are merged and
written to disk as one sorted run, cut by key and by time: by key, so that later merges on disk fit
into memory partition by partition; by time, so that the rows due first are read first. When a
partition has eight runs of a level, they are merged into one run of the next level.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from headrace.core.frames import compacted, sorted_by, together, up_to
from headrace.core.keygroups import key_group
from headrace.core.sizes import Size
from headrace.core.snapshots import Blob, SnapshotStore
from headrace.core.state import SLOT, RunsLayout
from headrace.state.rocks.budget import Budget
from headrace.state.rocks.spilled import Files, RunFiles, Spilled
from headrace.state.runs import FrozenRuns, MemoryRuns

if TYPE_CHECKING:
    import polars as pl

PARTS = 8
"""Number of partitions of the keys."""

FILE_BYTES = 1 << 22
"""Target size of a run file."""

MANY = 8
"""Number of runs of a level that are merged into one."""

MOST_BYTES = 1 << 27
"""Runs larger than this in memory are not merged before they are due."""


@dataclass(frozen=True, slots=True)
class FrozenSpillingRuns:
    """Runs as they were when the state was frozen."""

    memory: FrozenRuns
    spilled: tuple[Spilled, ...]
    files: Files | None
    """Location of the run files, if there are any."""

    def read(self, spilled: Spilled) -> pl.DataFrame:
        """Return the rows of one run file."""
        assert self.files is not None
        return self.files.read(spilled)

    def put(self, spilled: Spilled, store: SnapshotStore) -> Blob:
        """Put one run file into the store. Raises SnapshotError."""
        assert self.files is not None
        return self.files.stored(spilled, store)

    def columns(self) -> Mapping[str, pl.DataType] | None:
        """Return the columns of the rows; None without rows."""
        frames = itertools.chain(self.memory.frames, map(self.read, self.spilled))
        return next((frame.schema for frame in frames), None)


class SpillingRuns:
    """Live state of sorted runs."""

    def __init__(
        self, layout: RunsLayout, groups: range, key_groups: int, files: RunFiles, budget: Budget
    ) -> None:
        self._layout = layout
        self._groups, self._key_groups = groups, key_groups
        self._files, self._budget = files, budget
        self._memory = MemoryRuns(layout)
        self._spilled: list[Spilled] = []

    def add(self, frame: pl.DataFrame) -> None:
        self._memory.add(frame)
        if self._budget.tell(self, self._memory.bytes):
            self._spill()

    def first(self) -> int | None:
        """Return the lowest slot."""
        firsts = [spilled.first for spilled in self._spilled]
        in_memory = self._memory.first()
        return min(firsts if in_memory is None else [in_memory, *firsts], default=None)

    def take(self, until: int) -> pl.DataFrame | None:
        """Remove and return everything up to a slot."""
        found = self._memory.take(until)
        if self._is_spilled(until):
            cut = [self._cut(spilled, until) for spilled in self._spilled]
            self._spilled = [left for left, _ in cut if left is not None]
            found = self._joined([found, *(head for _, head in cut)])
        return found

    def read(self, after: int, until: int) -> pl.DataFrame | None:
        """Return everything between two slots."""
        found = self._memory.read(after, until)
        if after >= until or not self._is_spilled(until):
            return found
        inside = (s for s in self._spilled if s.last > after and s.first <= until)
        return self._joined([found, *(_between(self._files.read(s), after, until) for s in inside)])

    def drop(self, until: int) -> None:
        """Delete everything up to a slot."""
        self._memory.drop(until)
        if self._is_spilled(until):
            cut = [self._cut(spilled, until) for spilled in self._spilled]
            self._spilled = [left for left, _ in cut if left is not None]

    def of_keys(self, keys: pl.DataFrame, after: int) -> pl.DataFrame | None:
        """Return the rows of those keys filed after a slot."""
        found = [self._memory.of_keys(keys, after)]
        for spilled in self._spilled:
            if spilled.last > after:
                frame = self._files.read(spilled)
                found.append(self._of(keys, frame.slice(up_to(frame[SLOT], after))))
        full = _full(found)
        return together(full) if full else None

    def take_keys(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return all rows of those keys."""
        found = [self._memory.take_keys(keys)]
        kept: list[Spilled] = []
        for spilled in self._spilled:
            frame = self._files.read(spilled)
            taken = self._of(keys, frame)
            found.append(taken)
            kept.extend(self._without(spilled, frame, keys) if taken.height else [spilled])
        if self._spilled:
            self._spilled = kept
            return self._joined(found)
        return found[0]

    def owed(self, *, asking: bool) -> int:
        """Return the deferred rows in memory; a request for keys also reads all rows on disk."""
        on_disk = sum(spilled.rows for spilled in self._spilled) if asking else 0
        return self._memory.owed(asking=asking) + on_disk

    @property
    def rows(self) -> int:
        """Approximate number of rows."""
        return self._memory.rows + sum(spilled.rows for spilled in self._spilled)

    @property
    def size(self) -> Size:
        spilled, in_memory = self._spilled, self._memory.size
        on_disk = sum(each.bytes for each in spilled)
        return Size(in_memory.rows + sum(e.rows for e in spilled), in_memory.bytes, on_disk)

    def freeze(self) -> FrozenSpillingRuns:
        return FrozenSpillingRuns(self._memory.freeze(), tuple(self._spilled), self._files)

    def restore(self, frames: Iterable[pl.DataFrame]) -> None:
        """Add these restored frames, sorted as a frozen state returns them."""
        for frame in frames:
            self._memory.restore([frame])
            if self._budget.tell(self, self._memory.bytes):
                self._spill()

    def adopt(self, frozen: FrozenSpillingRuns) -> None:
        """Start with a frozen state whose files are in place."""
        self._spilled = list(frozen.spilled)
        self._memory.restore(frozen.memory.frames)
        self._budget.tell(self, self._memory.bytes)

    def close(self) -> None:
        """Remove this state from the memory budget."""
        self._budget.leave(self)

    def _is_spilled(self, until: int) -> bool:
        return any(spilled.first <= until for spilled in self._spilled)

    def _cut(self, spilled: Spilled, until: int) -> tuple[Spilled | None, pl.DataFrame | None]:
        """Return the rest of the run file after a slot, and the rows up to the slot."""
        if spilled.first > until:
            return spilled, None
        frame = self._files.read(spilled)
        end = up_to(frame[SLOT], until)
        if end == frame.height:
            self._files.discard(spilled)
            return None, frame
        first, rows, skip = int(frame[SLOT][end]), frame.height - end, spilled.skip + end
        return replace(spilled, first=first, rows=rows, skip=skip), frame.head(end)

    def _without(
        self, spilled: Spilled, frame: pl.DataFrame, keys: pl.DataFrame
    ) -> Iterator[Spilled]:
        """Rewrite the run file without these keys."""
        self._files.discard(spilled)
        rest = self._of(keys, frame, "anti")
        if rest.height:
            yield self._files.write(rest, spilled.part, spilled.level, spilled.lot)

    def _spill(self) -> None:
        """Merge all runs in memory and write them to disk."""
        frames = self._memory.freeze().frames
        if not frames:
            return
        lot, parts = self._files.lot(), [self._part(frame) for frame in frames]
        for part in range(PARTS):
            pairs = zip(frames, parts, strict=True)
            if full := _full(frame.filter(of == part) for frame, of in pairs):
                self._spilled.extend(self._written(self._merged(full), part, 0, lot))
                self._gather(part, 0)
        self._memory = MemoryRuns(self._layout)
        self._budget.tell(self, 0)

    def _gather(self, part: int, level: int) -> None:
        """Merge the runs of a level, if there are enough and they are not too large."""
        alike = [each for each in self._spilled if (each.part, each.level) == (part, level)]
        lots = Counter(each.lot for each in alike)
        if len(lots) < MANY:
            return
        frames = [self._files.read(each) for each in alike]
        if sum(frame.estimated_size() for frame in frames) > MOST_BYTES:
            return
        merged = list(self._written(self._merged(frames), part, level + 1, self._files.lot()))
        self._spilled = [each for each in self._spilled if each not in alike] + merged
        for each in alike:
            self._files.discard(each)
        self._gather(part, level + 1)

    def _written(self, frame: pl.DataFrame, part: int, level: int, lot: int) -> Iterator[Spilled]:
        """Write the files of a merged frame, cut between slots where they are large enough."""
        least = max(1, frame.height * FILE_BYTES // max(1, int(frame.estimated_size())))
        slots, start = frame[SLOT], 0
        while start < frame.height:
            last = min(start + least, frame.height) - 1
            end = up_to(slots, int(slots[last]))
            yield self._files.write(frame.slice(start, end - start), part, level, lot)
            start = end

    def _part(self, frame: pl.DataFrame) -> pl.Series:
        """Return the partition of each row: ranges of the owned key groups."""
        groups = key_group(frame, self._layout.key, self._key_groups).cast(int)
        return (groups - self._groups.start) * PARTS // len(self._groups)

    def _joined(self, frames: Sequence[pl.DataFrame | None]) -> pl.DataFrame | None:
        full = _full(frames)
        return self._merged(full) if full else None

    def _merged(self, frames: list[pl.DataFrame]) -> pl.DataFrame:
        return compacted(sorted_by(self._layout.merge(together(frames)), SLOT))

    def _of(
        self, keys: pl.DataFrame, frame: pl.DataFrame, how: Literal["semi", "anti"] = "semi"
    ) -> pl.DataFrame:
        key = list(self._layout.key)
        if not key:
            return frame if how == "semi" else frame.clear()
        return frame.join(keys, on=key, how=how, nulls_equal=True, maintain_order="left")


def _full(frames: Iterable[pl.DataFrame | None]) -> list[pl.DataFrame]:
    return [frame for frame in frames if frame is not None and frame.height]


def _between(frame: pl.DataFrame, after: int, until: int) -> pl.DataFrame:
    start, end = (up_to(frame[SLOT], slot) for slot in (after, until))
    return frame.slice(start, end - start)
