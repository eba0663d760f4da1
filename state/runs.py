"""Runs in memory: frames sorted by slot, put together only where that pays.

Every row is merged once anyway, when it is taken. Merging before that costs time and saves memory,
so it is done when the frames have grown to twice of what they were after they were last merged:
keys that come again and again take at most twice their room, and keys that never do are merged
about twice each. (Tried beside it: merging by doubling, which merged a row 2.6 times where 10 k
keys came in batches of 8 k, and 6.5 times where a million did; this way it is once, in half and in
a sixth of the time.) Small frames are merged when there are many, so that there are never too many.

Keys that are few beside the rows are found, and taken, without looking at the others (`finding`).
And a frame of few rows sets off nothing that takes long: what is to be merged then is owed, and
done when the next frame comes, so that who has few rows knows before whether it will take long.
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
"""So many small frames are merged to one."""

SMALL_BYTES = 1 << 25
"""So much in all is not worth to be merged."""

LARGE_ROWS, MOST_PARTS = 1 << 18, 16
"""More rows are merged in parts, by key: of 2 M rows of 1 M keys that took 90 MB beside what was
there, at once 130, and with Polars' other engine 260; it took no longer."""

FOUND_ROWS = 4096
FEW = 32
"""Keys are found if there are so many rows in all, and so many times as many as keys,"""
FEW_RUNS = 2
"""or if they are hardly any, and there are more runs than that: each takes looking through."""

SOON_ROWS = 2000
"""A frame of fewer rows leaves to the next one what it sets off."""


class MemoryRuns:
    """The live state."""

    def __init__(self, layout: RunsLayout) -> None:
        self.layout = layout
        self._finding = Finding(layout.key)
        self._runs: list[Run] = []
        self._came = 0
        """How many runs there have been."""
        self._rows = self._bytes = self._small = 0
        """How many rows there are, what they take, and how many of the last frames are small."""
        self._merged_bytes = 0
        """How much it was when it was last merged."""
        self._waste: dict[Run, int] = {}
        """Runs of which more is gone than is there, and how many rows they have in memory."""

    def add(self, frame: pl.DataFrame) -> None:
        """File these rows."""
        if not frame.height:
            return
        soon = frame.height >= SOON_ROWS
        if not soon:
            self._tidy()
        self._push(compacted(sorted_by(frame, SLOT)))
        if soon:
            self._tidy()

    def owed(self, *, asking: bool) -> int:
        """On how many rows the next call works: what was put off, and what is to be found."""
        rows = self._rows if self._is_grown else sum(run.rows for run in self._to_merge)
        rows += sum(run.rows for run in self._waste) if self._is_wasteful else 0
        return rows + self._finding.owed if asking and self._can_find(1) else rows

    def first(self) -> int | None:
        """The least slot."""
        return min((run.first for run in self._runs if run.rows), default=None)

    def take(self, until: int) -> pl.DataFrame | None:
        """Everything up to a slot, out of the state."""
        found = self._between(None, until)
        self.drop(until)
        return found

    def read(self, after: int, until: int) -> pl.DataFrame | None:
        """Everything between two slots."""
        return None if after >= until else self._between(after, until)

    def drop(self, until: int) -> None:
        """Forget everything up to a slot."""
        first = self.first()
        if first is None or first > until:
            return
        for run in self._runs:
            if run.first <= until:
                run.drop(until)
        self._fold()

    def of_keys(self, keys: pl.DataFrame, after: int) -> pl.DataFrame | None:
        """What is filed of those keys behind a slot."""
        if self._can_find(keys.height):
            found = self._finding.find(keys, after)
            return None if found is None else found[found.columns[1:]]
        behind = _joined(run.frame(after) for run in self._runs if run.last > after)
        found = None if behind is None else self._of(keys, behind)
        return found if found is not None and found.height else None

    def take_keys(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Everything of those keys, out of the state."""
        found = self._taken(keys) if self._can_find(keys.height) else self._picked(keys)
        return None if found is None else self._merged([found])

    @property
    def rows(self) -> int:
        """How many rows are kept."""
        return self._rows

    @property
    def bytes(self) -> int:
        """About how much memory they take."""
        return self._bytes

    @property
    def size(self) -> Size:
        """How much it is."""
        return Size(self._rows, self._bytes)

    def restore(self, frames: Sequence[pl.DataFrame]) -> None:
        """Begin with these frames, sorted as a frozen state gives them."""
        for frame in frames:
            self._push(frame)

    def freeze(self) -> FrozenRuns:
        """What is kept now."""
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
        """A run, in the place of another one or behind all."""
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
        """Whether all is to be merged."""
        return self._bytes > max(2 * self._merged_bytes, SMALL_BYTES)

    @property
    def _to_merge(self) -> list[Run]:
        """The small runs that are to be merged."""
        return self._runs[-self._small :] if self._small >= MANY else []

    @property
    def _is_wasteful(self) -> bool:
        """Whether the memory of what is gone is to be let go of."""
        many = len(self._waste) >= MANY // 4
        return many or sum(self._waste.values()) >= SOON_ROWS

    def _tidy(self) -> None:
        """Do what was put off."""
        if small := self._to_merge:
            self._replace([*self._runs[: -len(small)], *self._as_one(small)])
        if self._is_grown:
            self._replace(self._as_one(self._runs))
            self._merged_bytes = self._bytes
        if self._is_wasteful:
            self._fold()

    def _as_one(self, runs: list[Run]) -> list[Run]:
        """One run of these, or none."""
        frames = [run.frame() for run in runs if run.rows]
        return [self._run(compacted(self._merged(frames)))] if frames else []

    def _fold(self) -> None:
        """Let go of the memory of what is gone."""
        self._replace([self._folded(run) for run in self._runs if run.rows])

    def _folded(self, run: Run) -> Run:
        if not run.is_waste:
            return run
        import polars as pl

        frame = run.frame()
        rows = pl.int_range(frame.height, dtype=pl.UInt32, eager=True)
        return self._run(compacted(frame[rows]), run)

    def _can_find(self, keys: int) -> bool:
        """Whether so few keys are better found than looked for in every row."""
        few = self._rows >= max(keys * FEW, FOUND_ROWS)
        return bool(self.layout.key) and (few or (keys <= FEW and len(self._runs) > FEW_RUNS))

    def _taken(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """The rows of few keys, which are gone now."""
        found = self._finding.find(keys, None)
        if found is None:
            return None
        self._rows -= found.height
        for run in self._finding.take(found):
            if run.is_waste and run not in self._waste:
                self._waste[run] = run.whole.height
        return found[found.columns[1:]]

    def _picked(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """The rows of those keys, without which the runs are made anew."""
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
        """The rows of a frame whose key is among these, or is not; they stay sorted."""
        key = list(self.layout.key)
        if not key:
            return frame if how == "semi" else frame.clear()
        return frame.join(keys, on=key, how=how, nulls_equal=True, maintain_order="left")


@dataclass(frozen=True, slots=True)
class FrozenRuns:
    """Runs as they were."""

    key: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def frames(self) -> tuple[pl.DataFrame, ...]:
        """The rows that were there."""
        return tuple(part.frame for part in self.parts)

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


def _joined(frames: Iterable[pl.DataFrame]) -> pl.DataFrame | None:
    full = [frame for frame in frames if frame.height]
    return together(full) if full else None
