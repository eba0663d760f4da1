"""The way out of a subtask: rows of each stream into the channels of whoever reads it.

Steps that read one stream by one key get the same parts of it, so the rows are divided once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.bench import Bench
from headrace.core.channel import Channel
from headrace.core.elements import Batch, Mark
from headrace.core.expressions.typed import to_expr
from headrace.core.frames import projected
from headrace.core.keygroups import partition
from headrace.core.plan.nodes import Computed, Exchange

if TYPE_CHECKING:
    import polars as pl


Parts: TypeAlias = "list[tuple[int, pl.DataFrame]]"


@dataclass(slots=True)
class Division:
    """Rows by the subtask that owns their key, for each outlet that has them divided like this."""

    key: tuple[Computed, ...]
    key_groups: int
    readers: int
    sharers: int = 1
    """How many outlets ask for the parts of every frame."""
    _exprs: list[pl.Expr] = field(init=False)
    _frame: pl.DataFrame | None = None
    _parts: Parts = field(default_factory=list)
    _left: int = 0

    def __post_init__(self) -> None:
        self._exprs = [to_expr(column.value).alias(column.name) for column in self.key]

    async def parts(self, frame: pl.DataFrame, bench: Bench) -> Parts:
        """The parts of the rows; they are forgotten when all who share them have asked."""
        if self._frame is not frame:
            self._parts = await bench.run(frame.height, partial(self._divided, frame))
            self._frame, self._left = frame, self.sharers
        parts = self._parts
        self._left -= 1
        if not self._left:
            self._frame, self._parts = None, []
        return parts

    def like(self, other: Division) -> bool:
        """Whether the parts are the same."""
        sizes = (self.key_groups, self.readers) == (other.key_groups, other.readers)
        return sizes and [c.value for c in self.key] == [c.value for c in other.key]

    def _divided(self, frame: pl.DataFrame) -> Parts:
        keys = projected(frame, *self._exprs)
        return list(partition(frame, keys, self.key_groups, self.readers))


@dataclass(slots=True)
class Outlet:
    """One edge, seen from one of its writing subtasks: a channel to each subtask that reads."""

    exchange: Exchange
    channels: Sequence[Channel]
    index: int
    """Which of the writing subtasks this is: forward goes to the reading one of that number."""
    key: tuple[Computed, ...] = ()
    key_groups: int = 1
    bench: Bench = field(default_factory=Bench)
    division: Division = field(init=False)
    _turn: int = 0

    def __post_init__(self) -> None:
        self.division = Division(self.key, self.key_groups, len(self.channels))

    @property
    def divides(self) -> bool:
        """Whether a row goes to the subtask that owns its key."""
        return self.exchange == "hash" and len(self.channels) > 1

    async def rows(self, frame: pl.DataFrame) -> None:
        """Hand the rows on; waits for channels that are full."""
        divides = self.divides
        parts = await self.division.parts(frame, self.bench) if divides else self._whole(frame)
        for at, part in parts:
            await self.channels[at].put(Batch(part))

    async def mark(self, mark: Mark) -> None:
        """Every reader hears of a mark, each from all that write to it."""
        channels = (self.channels[self.index],) if self.exchange == "forward" else self.channels
        for channel in channels:
            await channel.put(mark)

    def _whole(self, frame: pl.DataFrame) -> Parts:
        """The rows as they are, for one reader or for all."""
        if self.exchange == "broadcast":
            return [(at, frame) for at in range(len(self.channels))]
        self._turn += self.exchange == "rebalance"
        return [((self.index + self._turn) % len(self.channels), frame)]


def share(outlets: Iterable[Outlet]) -> None:
    """Let outlets that get all the same frames divide those once where they can."""
    divisions: list[Division] = []
    for outlet in outlets:
        if outlet.divides:
            same = next((each for each in divisions if each.like(outlet.division)), None)
            if same is None:
                divisions.append(outlet.division)
            else:
                same.sharers += 1
                outlet.division = same
