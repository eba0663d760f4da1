"""Sources whose rows are a function of their number: replayable, splittable, the same anywhere.

Numbers are dealt out in blocks: split k of n makes the blocks k, k + n, k + 2n, ... A position is
the number of the next block. With a rate, blocks are small and wait for their time on the clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.threaded import Threaded
from headrace.core.contracts import Arrival, Chunk, Reading, Surroundings
from headrace.core.messages import Position, Split

if TYPE_CHECKING:
    import polars as pl

BLOCK = 32768
BLOCKS_A_SECOND = 50
"""With a rate, a block is what comes in a fiftieth of a second, so that rows flow evenly."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Which numbers there are, how fast they come, and what makes rows of a run of them."""

    source: str
    make: Callable[[int, int], pl.DataFrame]
    """The rows of the numbers from one up to another."""
    count: int | None
    per_second: float | None
    splits: int

    @property
    def block(self) -> int:
        """How many numbers a block has."""
        if self.per_second is None:
            return BLOCK
        return max(1, min(BLOCK, int(self.per_second / BLOCKS_A_SECOND)))

    def read(self, split: Split, position: Position) -> Iterator[Chunk]:
        """The blocks of a split from that one on."""
        number = position if isinstance(position, int) else int(split.name)
        while self.count is None or number * self.block < self.count:
            first = number * self.block
            last = first + self.block
            frame = self.make(first, last if self.count is None else min(last, self.count))
            number += self.splits
            yield Chunk(split, frame, number)


@dataclass(frozen=True, slots=True)
class NumberedSource:
    """The source of a run of numbers."""

    numbers: Numbers
    surroundings: Surroundings

    def discover(self) -> Sequence[Split]:
        """As many splits as the source has subtasks."""
        return [Split(self.numbers.source, str(at)) for at in range(self.numbers.splits)]

    @property
    def rediscover_s(self) -> None:
        """There are never others."""
        return None

    def reading(self) -> Reading:
        """Reads blocks, at their time where there is a rate."""
        threaded = Threaded(self.numbers, self.surroundings)
        return Paced(threaded, self.numbers) if self.numbers.per_second else threaded


class Paced:
    """A reading that gives no block before its time: number n comes n / rate after the start."""

    def __init__(self, reading: Reading, numbers: Numbers) -> None:
        self._reading = reading
        self._numbers = numbers
        self._start: tuple[float, int] | None = None
        self._held: Chunk | None = None

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Read these too."""
        self._reading.assign(splits, last=last)

    async def next(self) -> Arrival | None:
        """The next block, when it is due."""
        loop = asyncio.get_running_loop()
        if self._held is None:
            arrival = await self._reading.next()
            if not isinstance(arrival, Chunk):
                return arrival
            self._held = arrival
        number = int(str(self._held.position)) - self._numbers.splits
        if self._start is None:
            self._start = (loop.time(), number)
        since, first = self._start
        due = since + (number - first) * self._numbers.block / (self._numbers.per_second or 1)
        # A chunk that is held stays held when somebody stops waiting for it.
        await asyncio.sleep(max(due - loop.time(), 0))
        chunk, self._held = self._held, None
        return chunk

    async def close(self) -> None:
        """Close what is behind it."""
        await self._reading.close()
