"""Jobs under one clock: rows arrive at given times, and the job is stopped or killed in between.

Splits are lists of groups. A group arrives a pause after the group before, or after the job has
resumed; however it is cut into chunks, its last row alone carries a watermark. As long as no two
splits have anything at the same time, everything that happens has one order.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

import polars as pl

from headrace.connectors.memory import MemoryEvent
from headrace.core.api.window_classes import EPOCH
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.plan import nodes
from headrace.core.testing.reference.timeline import Timeline, TimelinePoint
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.reference import random_pipelines
from tests.support.runtime.crashing_jobs import Crashed, Fate, FlakyMemory, Life

MARK = "w"
"""The column that carries the watermark."""
COLUMNS = {**random_pipelines.COLUMNS, MARK: random_pipelines.COLUMNS["at"]}


@dataclass(frozen=True)
class Group:
    """Rows that arrive at the same time, after a pause; then a watermark, unless it is None."""

    pause_s: float
    rows: Sequence[Mapping[str, Any]]
    watermark: datetime | None


@dataclass(frozen=True)
class Split:
    """The groups of a split, and the pause before its end."""

    groups: Sequence[Group]
    last_pause_s: float

    def list_rows(self) -> list[dict[str, Any]]:
        """Return all rows, with the column of the watermark."""
        return [row for group in self.groups for row in _add_watermark(group)]

    def cut(self, chance: random.Random) -> list[MemoryEvent]:
        """Return what a reader gives, with each group cut somewhere."""
        events: list[MemoryEvent] = []
        for group in self.groups:
            frame = pl.DataFrame(_add_watermark(group), schema=COLUMNS, orient="row")
            events.append(group.pause_s)
            while frame.height:
                size = chance.choice([1, 2, 4, 50])
                events.append(frame.head(size))
                frame = frame.slice(size)
        return [*events, self.last_pause_s]


def _add_watermark(group: Group) -> list[dict[str, Any]]:
    rows = [{**row, MARK: None} for row in group.rows]
    rows[-1][MARK] = group.watermark
    return rows


InterruptionKind: TypeAlias = Literal["stop", "kill", "rescale"]


@dataclass(frozen=True)
class Interruption:
    """A checkpoint at a time of the wall clock, after which the job resumes from it later.

    The job is stopped with this checkpoint, or killed some time after it, or rescaled.
    """

    kind: InterruptionKind
    at_s: float
    down_s: float
    """The time between the checkpoint and the next life; a rescale takes none."""

    @property
    def resumed_s(self) -> float:
        """The time at which the job resumes."""
        return self.at_s if self.kind == "rescale" else self.at_s + self.down_s


@dataclass
class _Happening:
    """Something that a split does: a group arrives, or it ends."""

    at_s: float
    split: int
    group: Group | None = None


@dataclass
class ClockedJob:
    """A pipeline of the source `rows`, whose rows arrive in time, and when it is interrupted."""

    text: str
    splits: Sequence[Split]
    interruptions: Sequence[Interruption] = ()
    timeline: Timeline = field(init=False)
    """What happens when."""
    _ends_s: list[float] = field(default_factory=list)
    """When the job would end without each of the interruptions."""

    def __post_init__(self) -> None:
        course = _Course(self.splits)
        for each in self.interruptions:
            self._ends_s.append(course.find_end(each.at_s))
            course.play(each.at_s)
            course.interrupt(each)
        course.play(None)
        self.timeline = Timeline(course.moments, {"rows": course.arrivals})

    @property
    def has_one_order(self) -> bool:
        """Whether no two splits do something at the same time."""
        times = [each.clock_us for each in self.timeline.moments if not each.is_resumed]
        return len({*times}) == len(times)

    def run(self, chance: random.Random) -> tuple[nodes.Plan, FlakyMemory]:
        """Run it to its end; return its plan, and the memory with its output."""
        memory = FlakyMemory({"in": {str(at): s.cut(chance) for at, s in enumerate(self.splits)}})
        with TemporaryDirectory() as folder:
            rhythm = CheckpointSchedule(tolerable_failures=1000)
            life = Life(Path(folder), self.text, memory, rhythm)
            if chance.random() < 0.2:
                life.spill(chance.choice([1, 1 << 20]))
            for fate, resumed_s in self._list_fates(chance):
                try:
                    outcome = life.run(chance.randrange(1000), fate)
                    assert outcome.failure is None, outcome.failure
                except Crashed:
                    if isinstance(life.disk, MemoryDisk):
                        life.end(chance)
                if life.finished:
                    break
                life.clock_s = resumed_s
            assert life.finished and life.job is not None
            return life.job.plan, memory

    def _list_fates(self, chance: random.Random) -> list[tuple[Fate, float]]:
        """Return what happens to each life, and when the next one begins."""
        fates, begun_s = list[tuple[Fate, float]](), 0.0
        rescaled = dict[float, int]()
        for each, end_s in zip(self.interruptions, self._ends_s, strict=True):
            at_s = each.at_s - begun_s
            if each.kind == "rescale":
                rescaled[at_s] = chance.choice([1, 2, 3, 4])
                continue
            fate = Fate(rescaled=rescaled, parallelism=chance.choice([None, 1, 2, 3]))
            if each.kind == "stop":
                fate.stopped_at = at_s
            else:
                fate.saved = [at_s]
                down_s = min(each.down_s, (end_s - each.at_s) / 2)
                fate.killed_at = at_s + chance.choice([down_s / 8, down_s / 2, down_s])
            fates.append((fate, each.resumed_s))
            begun_s, rescaled = each.resumed_s, {}
        return [*fates, (Fate(rescaled=rescaled, parallelism=chance.choice([None, 1, 3])), 0.0)]


@dataclass
class _Course:
    """The readers of all splits, while time passes."""

    splits: Sequence[Split]
    begun_s: float = 0.0
    moments: list[TimelinePoint] = field(default_factory=list)
    arrivals: list[list[int]] = field(default_factory=list)
    _next: list[int] = field(default_factory=list)
    """The next group of each split; that after the last one is the end."""
    _watermarks: list[int | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._next = [0] * len(self.splits)
        self._watermarks = [None] * len(self.splits)
        self.arrivals = [[] for _ in self.splits]

    def interrupt(self, each: Interruption) -> None:
        """Restart all pauses after a checkpoint; an interruption after the end is none."""
        if self._is_finished:
            return
        self.begun_s = each.resumed_s
        self.moments.append(TimelinePoint(_us(each.at_s)))
        self.moments.append(TimelinePoint(_us(each.resumed_s), is_resumed=True))

    def play(self, until_s: float | None) -> None:
        """Let everything happen up to a time."""
        for each in self._list_all_happenings():
            if until_s is None or each.at_s <= until_s:
                self._let_happen(each)

    def find_end(self, after_s: float) -> float:
        """Return when everything will have happened, if that is later than a time."""
        return max([after_s, *(each.at_s for each in self._list_all_happenings())])

    def _list_all_happenings(self) -> list[_Happening]:
        found = [each for at in range(len(self.splits)) for each in self._list_happenings(at)]
        return sorted(found, key=lambda each: each.at_s)

    def _list_happenings(self, number: int) -> list[_Happening]:
        split, at_s, first = self.splits[number], self.begun_s, self._next[number]
        found = []
        for group in split.groups[first:]:
            at_s += group.pause_s
            found.append(_Happening(at_s, number, group))
        if first <= len(split.groups):
            found.append(_Happening(at_s + split.last_pause_s, number))
        return found

    def _let_happen(self, each: _Happening) -> None:
        at_us, mark = _us(each.at_s), each.group.watermark if each.group else None
        self._next[each.split] += 1
        if each.group is not None:
            self.arrivals[each.split] += [at_us] * len(each.group.rows)
        if mark is not None:
            before_us = self._watermarks[each.split]
            mark_us = (mark - EPOCH) // timedelta(microseconds=1)
            self._watermarks[each.split] = max(mark_us, mark_us if before_us is None else before_us)
        self.moments.append(TimelinePoint(at_us, self._combine_watermarks()))

    def _combine_watermarks(self) -> int | None:
        if self._is_finished:
            return MAX_WATERMARK_US
        live = [
            watermark_us
            for watermark_us, split, following in zip(
                self._watermarks, self.splits, self._next, strict=True
            )
            if following <= len(split.groups)
        ]
        known = [each for each in live if each is not None]
        return min(known) if len(known) == len(live) else None

    @property
    def _is_finished(self) -> bool:
        return all(
            following > len(split.groups)
            for following, split in zip(self._next, self.splits, strict=True)
        )


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)
