"""The way out of a subtask: rows of each stream into the channels of whoever reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.bench import Bench
from headrace.core.channel import Channel
from headrace.core.elements import Batch, Mark
from headrace.core.expressions.typed import to_expr
from headrace.core.keygroups import partition
from headrace.core.plan.nodes import Computed, Exchange

if TYPE_CHECKING:
    import polars as pl


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
    _turn: int = 0
    _key: list[pl.Expr] = field(init=False)

    def __post_init__(self) -> None:
        self._key = [to_expr(column.value).alias(column.name) for column in self.key]

    async def rows(self, frame: pl.DataFrame) -> None:
        """Hand the rows on; waits for channels that are full."""
        if self.exchange == "hash" and len(self.channels) > 1:
            parts = await self.bench.run(frame.height, partial(self._by_key, frame))
        else:
            parts = self._whole(frame)
        for at, part in parts:
            await self.channels[at].put(Batch(part))

    async def mark(self, mark: Mark) -> None:
        """Every reader hears of a mark, each from all that write to it."""
        channels = (self.channels[self.index],) if self.exchange == "forward" else self.channels
        for channel in channels:
            await channel.put(mark)

    def _whole(self, frame: pl.DataFrame) -> list[tuple[int, pl.DataFrame]]:
        """The rows as they are, for one reader or for all."""
        if self.exchange == "broadcast":
            return [(at, frame) for at in range(len(self.channels))]
        self._turn += self.exchange == "rebalance"
        return [((self.index + self._turn) % len(self.channels), frame)]

    def _by_key(self, frame: pl.DataFrame) -> list[tuple[int, pl.DataFrame]]:
        keys = frame.select(self._key)
        return list(partition(frame, keys, self.key_groups, len(self.channels)))
