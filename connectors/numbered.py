"""Sources whose rows are a function of their number: replayable, splittable, the same anywhere.

Numbers are dealt out in blocks: split k of n makes the blocks k, k + n, k + 2n, ... A position is
the number of the next row. With a rate, blocks are small and wait for their time on the clock.

Which rows a split has is in its name, `1/2x40`: every second block of 40, from the one of number 1
on. So a job that goes on from a checkpoint with another rate, or among more subtasks, has the rows
of no split twice, and misses none. One that is alone has all rows, and is called `0`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.blocking import SourceInThreads
from headrace.connectors.formats.required import sound
from headrace.connectors.threaded import Threaded
from headrace.core.contracts import (
    Arrival,
    Chunk,
    Ended,
    Piece,
    PieceReader,
    Reading,
    Source,
    Surroundings,
)
from headrace.core.messages import Position, Split
from headrace.core.plan import nodes
from headrace.core.types import Schema

if TYPE_CHECKING:
    import polars as pl

BLOCK = 32768
_SHARE = re.compile(r"(\d+)/(\d+)x(\d+)")
BLOCKS_A_PIECE, ROW_BYTES = 16, 128
"""What a batch has made at once, and what a row is worth beside what others read."""
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
    wanted: Schema | None = None
    """The columns, where something in them may be null that must not be."""

    def dealt(self) -> Sequence[Split]:
        """As many splits as there shall be."""
        of, block = self.splits, self._block
        names = ["0"] if of == 1 else [f"{at}/{of}x{block}" for at in range(of)]
        return [Split(self.source, name) for name in names]

    @property
    def _block(self) -> int:
        """How many numbers a block has."""
        if self.per_second is None:
            return BLOCK
        return max(1, min(BLOCK, int(self.per_second / BLOCKS_A_SECOND)))

    def share(self, split: Split) -> tuple[int, int, int]:
        """Its first number, how many a block has, and how far it is from one to the next."""
        if found := _SHARE.fullmatch(split.name):
            at, of, block = map(int, found.groups())
            return at * block, block, of * block
        return 0, self._block, self._block

    def read(self, split: Split, position: Position) -> Iterator[Chunk]:
        """The blocks of a split from that row on."""
        first, block, stride = self.share(split)
        first = position if isinstance(position, int) else first
        while self.count is None or first < self.count:
            last = first + block
            last = last if self.count is None else min(last, self.count)
            yield self.block(split, first, last, first + stride)
            first += stride

    def block(self, split: Split, first: int, last: int, position: int) -> Chunk:
        """The rows of the numbers from one up to another; reading goes on at that position."""
        frame = self.make(first, last)
        frame, bad = sound(frame, self.wanted, first) if self.wanted else (frame, ())
        return Chunk(split, frame, position, bad)


@dataclass(frozen=True, slots=True)
class NumberedSource:
    """`BlockingSource` of a run of numbers."""

    numbers: Numbers
    surroundings: Surroundings
    rediscover_s: None = None
    ordered: bool = False

    def discover(self) -> Sequence[Split]:
        """As many splits as the source has subtasks."""
        return self.numbers.dealt()

    def reading(self) -> Reading:
        """Reads blocks, at their time where there is a rate."""
        threaded = Threaded(self.numbers, self.surroundings)
        return Paced(threaded, self.numbers) if self.numbers.per_second else threaded


@dataclass(frozen=True, slots=True)
class NumberedPieces:
    """`PieceReader` of a run of numbers: a batch takes no time between rows."""

    numbers: Numbers

    async def pieces(self, many: int) -> Sequence[Piece]:
        """Runs of whole blocks."""
        count = self.numbers.count
        assert count is not None, "an endless source is refused before"
        blocks = min(max(-(-count // (many * BLOCK)), 1), BLOCKS_A_PIECE)
        split, step = Split(self.numbers.source, "0"), blocks * BLOCK
        runs = (range(at, min(at + step, count)) for at in range(0, count, step))
        return [Piece(split, run, len(run) * ROW_BYTES) for run in runs]

    def read(self, piece: Piece) -> Iterator[tuple[int, Chunk]]:
        """The blocks of a run, each with its first number."""
        assert isinstance(piece.at, range)
        for first in range(piece.at.start, piece.at.stop, BLOCK):
            last = min(first + BLOCK, piece.at.stop)
            yield first, self.numbers.block(piece.split, first, last, last)


class Paced:
    """A reading that gives no block before its time: number n comes n / rate after the start."""

    def __init__(self, reading: Reading, numbers: Numbers) -> None:
        self._reading = reading
        self._numbers = numbers
        self._start: tuple[float, int] | None = None
        self._held: Chunk | None = None
        self._open: set[Split] = set()
        self._held_splits: Collection[Split] = ()
        self._waiting_since: float | None = None

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Read these too."""
        self._open.update(split for split, _ in splits)
        self._reading.assign(splits, last=last)

    def hold(self, splits: Collection[Split]) -> None:
        """Give nothing of these."""
        self._held_splits = splits
        self._reading.hold(splits)

    def exhausted(self) -> Mapping[Split, float]:
        """All of them, while the next block is not due."""
        since = self._waiting_since
        if since is None:
            return {}
        return {split: since for split in self._open if split not in self._held_splits}

    def lags(self) -> Mapping[Split, int]:
        """What is behind it knows."""
        return self._reading.lags()

    def worked_s(self) -> float:
        """To make the blocks."""
        return self._reading.worked_s()

    async def next(self) -> Arrival | None:
        """The next block, when it is due."""
        loop = asyncio.get_running_loop()
        if self._held is None:
            arrival = await self._reading.next()
            if isinstance(arrival, Ended):
                self._open.discard(arrival.split)
            if not isinstance(arrival, Chunk):
                return arrival
            self._held = arrival
        *_, stride = self._numbers.share(self._held.split)
        number = int(str(self._held.position)) - stride
        if self._start is None:
            self._start = (loop.time(), number)
        since, first = self._start
        due = since + (number - first) / (self._numbers.per_second or 1)
        self._waiting_since = loop.time()
        # A chunk that is held stays held when somebody stops waiting for it.
        await asyncio.sleep(max(due - loop.time(), 0))
        self._waiting_since = None
        chunk, self._held = self._held, None
        return chunk

    async def close(self) -> None:
        """Close what is behind it."""
        await self._reading.close()


def opening(
    numbers: Callable[[nodes.Source, Surroundings], Numbers],
) -> Callable[[nodes.Source, Surroundings], Source]:
    """What opens a source of these numbers."""

    def opened(source: nodes.Source, surroundings: Surroundings) -> Source:
        numbered = NumberedSource(numbers(source, surroundings), surroundings)
        return SourceInThreads(numbered, surroundings.bench)

    return opened


def piecing(
    numbers: Callable[[nodes.Source, Surroundings], Numbers],
) -> Callable[[nodes.Source, Surroundings], PieceReader]:
    """What reads these numbers in pieces."""
    return lambda source, surroundings: NumberedPieces(numbers(source, surroundings))
