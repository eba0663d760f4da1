"""The way out of a subtask: rows of each stream into the channels of whoever reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    _turn: int = 0

    async def rows(self, frame: pl.DataFrame) -> None:
        """Hand the rows on; waits for channels that are full."""
        for channel, part in self._spread(frame):
            await channel.put(Batch(part))

    async def mark(self, mark: Mark) -> None:
        """Every reader hears of a mark, each from all that write to it."""
        channels = (self.channels[self.index],) if self.exchange == "forward" else self.channels
        for channel in channels:
            await channel.put(mark)

    def _spread(self, frame: pl.DataFrame) -> Iterator[tuple[Channel, pl.DataFrame]]:
        match self.exchange:
            case "forward":
                yield self.channels[self.index], frame
            case "broadcast":
                for channel in self.channels:
                    yield channel, frame
            case "rebalance":
                yield self.channels[self._turn % len(self.channels)], frame
                self._turn += 1
            case "hash":
                keys = frame.select(to_expr(key.value).alias(key.name) for key in self.key)
                parts = partition(frame, keys, self.key_groups, len(self.channels))
                for at, part in parts:
                    yield self.channels[at], part
