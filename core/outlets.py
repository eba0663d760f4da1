"""The output edges of a subtask: they send the rows of a stream into its readers' channels.

Steps that read a stream by the same key get the same partitions, so rows are partitioned once.
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
    """Partitions rows by the subtask that owns their key, once for all edges that share it."""

    key: tuple[Computed, ...]
    key_groups: int
    readers: int
    sharers: int = 1
    """The number of edges that request the partitions of every frame."""
    _exprs: list[pl.Expr] = field(init=False)
    _frame: pl.DataFrame | None = None
    _parts: Parts = field(default_factory=list)
    _left: int = 0

    def __post_init__(self) -> None:
        self._exprs = [to_expr(column.value).alias(column.name) for column in self.key]

    async def parts(self, frame: pl.DataFrame, bench: Bench) -> Parts:
        """Return the partitions of a frame; the result is cached until every edge has got it."""
        if self._frame is not frame:
            self._parts = await bench.run(frame.height, partial(self._divided, frame))
            self._frame, self._left = frame, self.sharers
        parts = self._parts
        self._left -= 1
        if not self._left:
            self._frame, self._parts = None, []
        return parts

    def like(self, other: Division) -> bool:
        """Whether both produce the same partitions."""
        sizes = (self.key_groups, self.readers) == (other.key_groups, other.readers)
        return sizes and [c.value for c in self.key] == [c.value for c in other.key]

    def _divided(self, frame: pl.DataFrame) -> Parts:
        keys = projected(frame, *self._exprs)
        return list(partition(frame, keys, self.key_groups, self.readers))


@dataclass(slots=True)
class Outlet:
    """One edge of the plan at one of its writing subtasks, with a channel to each reader."""

    exchange: Exchange
    channels: Sequence[Channel]
    index: int
    """The index of the writing subtask; a forward edge sends to the reader of the same index."""
    key: tuple[Computed, ...] = ()
    key_groups: int = 1
    bench: Bench = field(default_factory=Bench)
    division: Division = field(init=False)
    _turn: int = 0

    def __post_init__(self) -> None:
        self.division = Division(self.key, self.key_groups, len(self.channels))

    @property
    def divides(self) -> bool:
        """Whether rows are partitioned by the owner of their key."""
        return self.exchange == "hash" and len(self.channels) > 1

    async def rows(self, frame: pl.DataFrame) -> None:
        """Send rows; waits for channels that are full."""
        divides = self.divides
        parts = await self.division.parts(frame, self.bench) if divides else self._whole(frame)
        for at, part in parts:
            await self.channels[at].put(Batch(part))

    async def mark(self, mark: Mark) -> None:
        """Send a control element to every reader."""
        channels = (self.channels[self.index],) if self.exchange == "forward" else self.channels
        for channel in channels:
            await channel.put(mark)

    def _whole(self, frame: pl.DataFrame) -> Parts:
        """Return the whole frame for one reader, or for all of them."""
        if self.exchange == "broadcast":
            return [(at, frame) for at in range(len(self.channels))]
        self._turn += self.exchange == "rebalance"
        return [((self.index + self._turn) % len(self.channels), frame)]


def share(outlets: Iterable[Outlet]) -> None:
    """Share partitioners among the edges of one stream that need the same partitions."""
    divisions: list[Division] = []
    for outlet in outlets:
        if outlet.divides:
            same = next((each for each in divisions if each.like(outlet.division)), None)
            if same is None:
                divisions.append(outlet.division)
            else:
                same.sharers += 1
                outlet.division = same
