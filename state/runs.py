"""Runs in memory: frames sorted by slot, put together only where that pays.

Every row is merged once anyway, when it is taken. Merging before that costs time and saves memory,
so it is done when the frames have grown to twice of what they were after they were last merged:
keys that come again and again take at most twice their room, and keys that never do are merged
about twice each. (Tried beside it: merging by doubling, which merged a row 2.6 times where 10 k
keys came in batches of 8 k, and 6.5 times where a million did; this way it is once, in half and in
a sixth of the time.) Small frames are merged when there are many, so that there are never too many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Literal

from headrace.core.frames import compacted, sorted_by, together, up_to
from headrace.core.keygroups import key_group
from headrace.core.state import SLOT, RunsLayout

if TYPE_CHECKING:
    import polars as pl

SMALL_ROWS = 512
MANY = 64
"""So many small frames are merged to one."""

SMALL_BYTES = 1 << 25
"""So much in all is not worth to be merged."""

LARGE_ROWS, MOST_PARTS = 1 << 18, 16
"""More rows are merged in parts, by key: of 2 M rows of 1 M keys that took 90 MB beside what was
there, at once 130, and with Polars' other engine 260; it took no longer."""


@dataclass(frozen=True, slots=True)
class Run:
    """A frame sorted by slot, with its first slot and last one."""

    frame: pl.DataFrame
    first: int
    last: int
    whole: pl.DataFrame
    """The frame of whose rows these are the last ones: all that is in this memory."""

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.frame.height

    @property
    def bytes(self) -> int:
        """How much memory its rows take, but for what they share with others."""
        return int(self.frame.estimated_size())


def run_of(frame: pl.DataFrame, whole: pl.DataFrame | None = None) -> Run:
    """A run of a frame that is sorted and not empty."""
    slots = frame[SLOT]
    return Run(frame, int(slots[0]), int(slots[-1]), frame if whole is None else whole)


@dataclass(slots=True)
class MemoryRuns:
    """The live state."""

    layout: RunsLayout
    _runs: list[Run] = field(default_factory=list)
    _bytes: int = 0
    _merged_bytes: int = 0
    """How much it was when it was last merged."""

    def add(self, frame: pl.DataFrame) -> None:
        """File these rows."""
        if not frame.height:
            return
        self._push(compacted(sorted_by(frame, SLOT)))
        small = self._runs[-MANY:]
        if len(small) == MANY and all(run.rows <= SMALL_ROWS for run in small):
            del self._runs[-MANY:]
            self._bytes -= sum(run.bytes for run in small)
            self._push(compacted(self._merged([run.frame for run in small])))
        if self._bytes > max(2 * self._merged_bytes, SMALL_BYTES):
            self._merge_all()

    def first(self) -> int | None:
        """The least slot."""
        return min((run.first for run in self._runs), default=None)

    def take(self, until: int) -> pl.DataFrame | None:
        """Everything up to a slot, out of the state."""
        found = self._between(None, until)
        if found is not None:
            self.drop(until)
        return found

    def read(self, after: int, until: int) -> pl.DataFrame | None:
        """Everything between two slots."""
        return self._between(after, until)

    def drop(self, until: int) -> None:
        """Forget everything up to a slot."""
        first = self.first()
        if first is None or first > until:
            return
        kept = []
        for run in self._runs:
            if run.first > until:
                kept.append(run)
            elif run.last > until:
                kept.append(_rest(run, _end(run, until)))
        self._replace(kept)

    def of_keys(self, keys: pl.DataFrame, after: int) -> pl.DataFrame | None:
        """What is filed of those keys behind a slot."""
        behind = (run.frame.slice(_end(run, after)) for run in self._runs if run.last > after)
        return _joined(self._of(keys, frame) for frame in behind)

    def take_keys(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Everything of those keys, out of the state."""
        found = [self._of(keys, run.frame) for run in self._runs]
        joined = _joined(found)
        if joined is None:
            return None
        kept = [
            run_of(self._of(keys, run.frame, "anti")) if part.height else run
            for run, part in zip(self._runs, found, strict=True)
            if part.height < run.rows
        ]
        self._replace(kept)
        return self._merged([joined])

    @property
    def rows(self) -> int:
        """How many rows are kept."""
        return sum(run.rows for run in self._runs)

    def restore(self, frames: Sequence[pl.DataFrame]) -> None:
        """Begin with these frames, sorted as a frozen state gives them."""
        for frame in frames:
            self._push(frame)

    def freeze(self) -> FrozenRuns:
        """What is kept now."""
        runs = self._runs
        return FrozenRuns(
            self.layout.key, tuple(run.frame for run in runs), tuple(run.whole for run in runs)
        )

    def _push(self, frame: pl.DataFrame) -> None:
        self._runs.append(run_of(frame))
        self._bytes += self._runs[-1].bytes

    def _replace(self, runs: list[Run]) -> None:
        self._runs = runs
        self._bytes = sum(run.bytes for run in runs)
        self._merged_bytes = min(self._merged_bytes, self._bytes)

    def _merge_all(self) -> None:
        merged = self._merged([run.frame for run in self._runs])
        self._replace([run_of(compacted(merged))])
        self._merged_bytes = self._bytes

    def _between(self, after: int | None, until: int) -> pl.DataFrame | None:
        parts = []
        if after is not None and after >= until:
            return None
        for run in self._runs:
            if run.first > until or (after is not None and run.last <= after):
                continue
            start = 0 if after is None else _end(run, after)
            part = run.frame.slice(start, _end(run, until) - start)
            if part.height:
                parts.append(part)
        return parts[0] if len(parts) == 1 else self._merged(parts) if parts else None

    def _merged(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        parts = min(sum(frame.height for frame in frames) // LARGE_ROWS + 1, MOST_PARTS)
        if parts == 1 or not self.layout.key:
            return sorted_by(self.layout.merge(together(frames)), SLOT)
        number = _hash(self.layout.key) % parts
        merged = [
            self.layout.merge(together([frame.filter(number == part) for frame in frames]))
            for part in range(parts)
        ]
        return sorted_by(together(merged), SLOT)

    def _of(
        self, keys: pl.DataFrame, frame: pl.DataFrame, how: Literal["semi", "anti"] = "semi"
    ) -> pl.DataFrame:
        """The rows of a frame whose key is among these, or is not; they stay sorted."""
        key = list(self.layout.key)
        if not key:
            return frame if how == "semi" else frame.clear()
        return frame.join(keys, on=key, how=how, nulls_equal=True, maintain_order="left")


@dataclass(frozen=True, slots=True)
class FrozenRuns:
    """Frames as they were."""

    key: tuple[str, ...]
    frames: tuple[pl.DataFrame, ...]
    wholes: tuple[pl.DataFrame, ...]
    """Of each frame the one whose last rows it has, often itself: those live longer."""

    def of_groups(self, groups: range | None, key_groups: int) -> list[pl.DataFrame]:
        """The frames, reduced to the keys of those groups; None: of all there are."""
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


def _hash(key: Sequence[str]) -> pl.Expr:
    """A number that equal keys have in common, within this process."""
    import polars as pl

    return reduce(lambda one, other: one.hash() ^ other.hash(1), map(pl.col, key)).hash(2)


def _end(run: Run, until: int) -> int:
    """Where the rows behind that slot begin."""
    if run.last <= until:
        return run.rows
    return up_to(run.frame[SLOT], until)


def _rest(run: Run, start: int) -> Run:
    """The run from that row on; in memory of its own when it is the smaller part of its memory."""
    rest = run.frame.slice(start)
    if rest.height * 2 >= run.whole.height:
        return run_of(rest, run.whole)
    return run_of(compacted(rest.gather_every(1)))


def _joined(frames: Iterable[pl.DataFrame]) -> pl.DataFrame | None:
    full = [frame for frame in frames if frame.height]
    return together(full) if full else None
