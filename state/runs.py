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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Literal

from headrace.core.frames import compacted, sorted_by, together
from headrace.core.keygroups import key_group
from headrace.core.sizes import Size
from headrace.core.state import SLOT, RunsLayout
from headrace.state.finding import Finding, hash_of
from headrace.state.run import Part, Run

if TYPE_CHECKING:
    import polars as pl


SMALL_ROWS = 512
MANY = 64
"""Number of small runs that are merged to one."""

SMALL_BYTES = 1 << 25
"""Up to this size in all, merging does not pay."""

LARGE_ROWS, MOST_PARTS = 1 << 18, 16
"""More rows are merged in partitions by key: for 2 M rows of 1 M keys that took 90 MB of extra
memory, instead of 130 MB at once, or 260 MB with Polars' other engine, and no more time.
"""

FOUND_ROWS = 4096
FEW = 32
"""Keys are looked up in the index if there are at least MIN_LOOKUP_ROWS rows, and this many times
as many as keys,
"""
FEW_RUNS = 2
"""or if there are at most LOOKUP_RATIO keys and more runs than this, each of which a scan would
read.
"""

SOON_ROWS = 2000
"""A frame of fewer rows leaves the work that it causes to the next call."""


class MemoryRuns:
    """Live state of sorted runs."""

    def __init__(self, layout: RunsLayout) -> None:
        self.layout = layout
        self._finding = Finding(layout.key)
        self._runs: list[Run] = []
        self._came = 0
        """Number of runs created so far."""
        self._rows = self._bytes = self._small = 0
        """Rows, their memory in bytes, and how many of the last runs are small."""
        self._merged_bytes = 0
        """Memory in bytes after the last full merge."""
        self._waste: dict[Run, int] = {}
        """Runs with more deleted than live rows, and their rows in memory."""

    def add(self, frame: pl.DataFrame) -> None:
        if not frame.height:
            return
        soon = frame.height >= SOON_ROWS
        if not soon:
            self._tidy()
        self._push(compacted(sorted_by(frame, SLOT)))
        if soon:
            self._tidy()

    def owed(self, *, asking: bool) -> int:
        """Return how many rows the next call works on: deferred merges, and rows to be indexed."""
        rows = self._rows if self._is_grown else sum(run.rows for run in self._to_merge)
        rows += sum(run.rows for run in self._waste) if self._is_wasteful else 0
        return rows + self._finding.owed if asking and self._can_find(1) else rows

    def first(self) -> int | None:
        """Return the lowest slot."""
        return min((run.first for run in self._runs if run.rows), default=None)

    def take(self, until: int) -> pl.DataFrame | None:
        """Remove and return everything up to a slot."""
        found = self._between(None, until)
        self.drop(until)
        return found

    def read(self, after: int, until: int) -> pl.DataFrame | None:
        """Return everything between two slots."""
        return None if after >= until else self._between(after, until)

    def drop(self, until: int) -> None:
        """Delete everything up to a slot."""
        first = self.first()
        if first is None or first > until:
            return
        for run in self._runs:
            if run.first <= until:
                run.drop(until)
        self._fold()

    def of_keys(self, keys: pl.DataFrame, after: int) -> pl.DataFrame | None:
        """Return the rows of those keys filed after a slot."""
        if self._can_find(keys.height):
            found = self._finding.find(keys, after)
            return None if found is None else found[found.columns[1:]]
        behind = _joined(run.frame(after) for run in self._runs if run.last > after)
        found = None if behind is None else self._of(keys, behind)
        return found if found is not None and found.height else None

    def take_keys(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return all rows of those keys."""
        found = self._taken(keys) if self._can_find(keys.height) else self._picked(keys)
        return None if found is None else self._merged([found])

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._rows

    @property
    def bytes(self) -> int:
        """Approximate memory of the rows."""
        return self._bytes

    @property
    def size(self) -> Size:
        return Size(self._rows, self._bytes)

    def restore(self, frames: Sequence[pl.DataFrame]) -> None:
        """Start with these frames, sorted as a frozen state returns them."""
        for frame in frames:
            self._push(frame)

    def freeze(self) -> FrozenRuns:
        parts = tuple(run.frozen() for run in self._runs if run.rows)
        return FrozenRuns(self.layout.key, parts)

    def _push(self, frame: pl.DataFrame) -> None:
        run = self._run(frame)
        self._runs.append(run)
        self._finding.added(run)
        self._rows += run.rows
        self._bytes += run.bytes
        self._small = self._small + 1 if self._is_small(run) else 0

    def _run(self, frame: pl.DataFrame, like: Run | None = None) -> Run:
        """Create a run, in the order of another one or after all."""
        self._came += 1
        return Run(frame, self._came if like is None else like.order)

    def _replace(self, runs: list[Run]) -> None:
        self._runs, self._waste = runs, {}
        self._finding.replaced(runs)
        self._rows = sum(run.rows for run in runs)
        self._bytes = sum(run.bytes for run in runs)
        self._merged_bytes = min(self._merged_bytes, self._bytes)
        self._small = sum(1 for _ in takewhile(self._is_small, reversed(runs)))

    def _is_small(self, run: Run) -> bool:
        return run.whole.height <= SMALL_ROWS

    @property
    def _is_grown(self) -> bool:
        """Whether all runs must be merged."""
        return self._bytes > max(2 * self._merged_bytes, SMALL_BYTES)

    @property
    def _to_merge(self) -> list[Run]:
        """Small runs that must be merged."""
        return self._runs[-self._small :] if self._small >= MANY else []

    @property
    def _is_wasteful(self) -> bool:
        """Whether the memory of deleted rows must be freed."""
        many = len(self._waste) >= MANY // 4
        return many or sum(self._waste.values()) >= SOON_ROWS

    def _tidy(self) -> None:
        """Do deferred work."""
        if small := self._to_merge:
            self._replace([*self._runs[: -len(small)], *self._as_one(small)])
        if self._is_grown:
            self._replace(self._as_one(self._runs))
            self._merged_bytes = self._bytes
        if self._is_wasteful:
            self._fold()

    def _as_one(self, runs: list[Run]) -> list[Run]:
        """Merge these runs to one, or to none if they have no rows."""
        frames = [run.frame() for run in runs if run.rows]
        return [self._run(compacted(self._merged(frames)))] if frames else []

    def _fold(self) -> None:
        """Free the memory of deleted rows."""
        self._replace([self._folded(run) for run in self._runs if run.rows])

    def _folded(self, run: Run) -> Run:
        if not run.is_waste:
            return run
        import polars as pl

        frame = run.frame()
        rows = pl.int_range(frame.height, dtype=pl.UInt32, eager=True)
        return self._run(compacted(frame[rows]), run)

    def _can_find(self, keys: int) -> bool:
        """Whether an index lookup of this many keys is better than a scan."""
        few = self._rows >= max(keys * FEW, FOUND_ROWS)
        return bool(self.layout.key) and (few or (keys <= FEW and len(self._runs) > FEW_RUNS))

    def _taken(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return the rows of few keys by the index."""
        found = self._finding.find(keys, None)
        if found is None:
            return None
        self._rows -= found.height
        for run in self._finding.take(found):
            if run.is_waste and run not in self._waste:
                self._waste[run] = run.whole.height
        return found[found.columns[1:]]

    def _picked(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return the rows of those keys by a scan, which rebuilds the runs."""
        frames = [run.frame() for run in self._runs]
        found = [self._of(keys, frame) for frame in frames]
        kept = [
            self._run(self._of(keys, frame, "anti"), run) if part.height else run
            for run, frame, part in zip(self._runs, frames, found, strict=True)
            if part.height < frame.height
        ]
        joined = _joined(found)
        if joined is not None:
            self._replace(kept)
        return joined

    def _between(self, after: int | None, until: int) -> pl.DataFrame | None:
        parts = [
            part
            for run in self._runs
            if run.rows and run.first <= until and (after is None or run.last > after)
            if (part := run.frame(after, until)).height
        ]
        return parts[0] if len(parts) == 1 else self._merged(parts) if parts else None

    def _merged(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        parts = min(sum(frame.height for frame in frames) // LARGE_ROWS + 1, MOST_PARTS)
        if parts == 1 or not self.layout.key:
            return sorted_by(self.layout.merge(together(frames)), SLOT)
        number = hash_of(self.layout.key) % parts
        merged = [
            self.layout.merge(together([frame.filter(number == part) for frame in frames]))
            for part in range(parts)
        ]
        return sorted_by(together(merged), SLOT)

    def _of(
        self, keys: pl.DataFrame, frame: pl.DataFrame, how: Literal["semi", "anti"] = "semi"
    ) -> pl.DataFrame:
        """Return the rows of a frame whose key is among these, or is not; keeps the order."""
        key = list(self.layout.key)
        if not key:
            return frame if how == "semi" else frame.clear()
        return frame.join(keys, on=key, how=how, nulls_equal=True, maintain_order="left")


@dataclass(frozen=True, slots=True)
class FrozenRuns:
    """Runs as they were when the state was frozen."""

    key: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def frames(self) -> tuple[pl.DataFrame, ...]:
        """Frames of the live rows."""
        return tuple(part.frame for part in self.parts)

    def of_groups(self, groups: range | None, key_groups: int) -> list[pl.DataFrame]:
        """Return the frames restricted to the keys of those groups (None: all)."""
        if groups is None or len(groups) == key_groups:
            return list(self.frames)
        parts = [
            frame.filter(
                key_group(frame, self.key, key_groups).is_between(
                    groups.start, groups.stop, closed="left"
                )
            )
            for frame in self.frames
        ]
        return [part for part in parts if part.height]


def _joined(frames: Iterable[pl.DataFrame]) -> pl.DataFrame | None:
    full = [frame for frame in frames if frame.height]
    return together(full) if full else None
