"""Runs of which as much is in memory as may be.

As long as there is room, they are runs in memory and nothing else. When there is none, all of them
are merged and written to disk, cut by key and by time: by key, so that what is merged on disk later
fits into memory part by part; by time, so that what is due first is read first. Eight lots of a
size, of a part of the keys, are merged to one.
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
"""Into so many parts keys are cut."""

FILE_BYTES = 1 << 22
"""So much is worth a file of its own."""

MANY = 8
"""So many lots are merged to one."""

MOST_BYTES = 1 << 27
"""What is larger than that, in memory, is not merged before it is due."""


@dataclass(frozen=True, slots=True)
class FrozenSpillingRuns:
    """What was kept."""

    memory: FrozenRuns
    spilled: tuple[Spilled, ...]
    files: Files | None
    """Where these are, if there are any."""

    def read(self, spilled: Spilled) -> pl.DataFrame:
        """The rows of one of them."""
        assert self.files is not None
        return self.files.read(spilled)

    def put(self, spilled: Spilled, store: SnapshotStore) -> Blob:
        """Have one of them in the store. Raises SnapshotError."""
        assert self.files is not None
        return self.files.stored(spilled, store)

    def columns(self) -> Mapping[str, pl.DataType] | None:
        """The columns of the rows; None without rows."""
        frames = itertools.chain(self.memory.frames, map(self.read, self.spilled))
        return next((frame.schema for frame in frames), None)


class SpillingRuns:
    """The live state."""

    def __init__(
        self, layout: RunsLayout, groups: range, key_groups: int, files: RunFiles, budget: Budget
    ) -> None:
        self._layout = layout
        self._groups, self._key_groups = groups, key_groups
        self._files, self._budget = files, budget
        self._memory = MemoryRuns(layout)
        self._spilled: list[Spilled] = []

    def add(self, frame: pl.DataFrame) -> None:
        """File these rows."""
        self._memory.add(frame)
        if self._budget.tell(self, self._memory.bytes):
            self._spill()

    def first(self) -> int | None:
        """The least slot."""
        firsts = [spilled.first for spilled in self._spilled]
        in_memory = self._memory.first()
        return min(firsts if in_memory is None else [in_memory, *firsts], default=None)

    def take(self, until: int) -> pl.DataFrame | None:
        """Everything up to a slot, out of the state."""
        found = self._memory.take(until)
        if self._is_spilled(until):
            cut = [self._cut(spilled, until) for spilled in self._spilled]
            self._spilled = [left for left, _ in cut if left is not None]
            found = self._joined([found, *(head for _, head in cut)])
        return found

    def read(self, after: int, until: int) -> pl.DataFrame | None:
        """Everything between two slots."""
        found = self._memory.read(after, until)
        if after >= until or not self._is_spilled(until):
            return found
        inside = (s for s in self._spilled if s.last > after and s.first <= until)
        return self._joined([found, *(_between(self._files.read(s), after, until) for s in inside)])

    def drop(self, until: int) -> None:
        """Forget everything up to a slot."""
        self._memory.drop(until)
        if self._is_spilled(until):
            cut = [self._cut(spilled, until) for spilled in self._spilled]
            self._spilled = [left for left, _ in cut if left is not None]

    def of_keys(self, keys: pl.DataFrame, after: int) -> pl.DataFrame | None:
        """What is filed of those keys behind a slot."""
        found = [self._memory.of_keys(keys, after)]
        for spilled in self._spilled:
            if spilled.last > after:
                frame = self._files.read(spilled)
                found.append(self._of(keys, frame.slice(up_to(frame[SLOT], after))))
        full = _full(found)
        return together(full) if full else None

    def take_keys(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Everything of those keys, out of the state."""
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
        """What was put off in memory; and what is on disk is looked through."""
        on_disk = sum(spilled.rows for spilled in self._spilled) if asking else 0
        return self._memory.owed(asking=asking) + on_disk

    @property
    def rows(self) -> int:
        """About how many rows are kept."""
        return self._memory.rows + sum(spilled.rows for spilled in self._spilled)

    @property
    def size(self) -> Size:
        """How much it is."""
        spilled, in_memory = self._spilled, self._memory.size
        on_disk = sum(each.bytes for each in spilled)
        return Size(in_memory.rows + sum(e.rows for e in spilled), in_memory.bytes, on_disk)

    def freeze(self) -> FrozenSpillingRuns:
        """What is kept now."""
        return FrozenSpillingRuns(self._memory.freeze(), tuple(self._spilled), self._files)

    def restore(self, frames: Iterable[pl.DataFrame]) -> None:
        """Begin with these frames, sorted as a frozen state gives them, beside others."""
        for frame in frames:
            self._memory.restore([frame])
            if self._budget.tell(self, self._memory.bytes):
                self._spill()

    def adopt(self, frozen: FrozenSpillingRuns) -> None:
        """Begin with what was frozen, and whose files are there."""
        self._spilled = list(frozen.spilled)
        self._memory.restore(frozen.memory.frames)
        self._budget.tell(self, self._memory.bytes)

    def close(self) -> None:
        """It takes nothing any more."""
        self._budget.leave(self)

    def _is_spilled(self, until: int) -> bool:
        return any(spilled.first <= until for spilled in self._spilled)

    def _cut(self, spilled: Spilled, until: int) -> tuple[Spilled | None, pl.DataFrame | None]:
        """What is left behind a slot, and the rows up to it."""
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
        """The file made anew without these keys."""
        self._files.discard(spilled)
        rest = self._of(keys, frame, "anti")
        if rest.height:
            yield self._files.write(rest, spilled.part, spilled.level, spilled.lot)

    def _spill(self) -> None:
        """Have nothing in memory."""
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
        """Merge lots of a size, if there are many, and they are not too large."""
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
        """Files of a merged frame, cut between slots where they are large enough."""
        least = max(1, frame.height * FILE_BYTES // max(1, int(frame.estimated_size())))
        slots, start = frame[SLOT], 0
        while start < frame.height:
            last = min(start + least, frame.height) - 1
            end = up_to(slots, int(slots[last]))
            yield self._files.write(frame.slice(start, end - start), part, level, lot)
            start = end

    def _part(self, frame: pl.DataFrame) -> pl.Series:
        """In which part of the keys each row is: ranges of the key groups that are owned."""
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
