"""Sources whose rows are a function of their number: replayable, splittable, deterministic.

Numbers are assigned in blocks: split k of n has the blocks k, k + n, k + 2n, ... A position is
the number of the next row. With a rate, blocks are small and are emitted when they are due.

The name of a split says which rows it has: `1/2x40` has every second block of 40 rows, starting
with block 1. A job that resumes from a checkpoint with another rate or parallelism therefore
repeats and misses no rows. A single split has all rows and is called `0`.
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
"""Blocks computed at once in a batch, and the assumed size of a row for sizing batch splits."""
BLOCKS_A_SECOND = 50
"""With a rate, a block holds the rows of a fiftieth of a second, so that rows flow evenly."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A range of row numbers, its rate, and the function that makes rows of numbers."""

    source: str
    make: Callable[[int, int], pl.DataFrame]
    """Returns the rows of the numbers from the first up to, not including, the second."""
    count: int | None
    per_second: float | None
    splits: int
    wanted: Schema | None = None
    """The columns to check for nulls that are not allowed; None: there are none."""

    def dealt(self) -> Sequence[Split]:
        """List the splits."""
        of, block = self.splits, self._block
        names = ["0"] if of == 1 else [f"{at}/{of}x{block}" for at in range(of)]
        return [Split(self.source, name) for name in names]

    @property
    def _block(self) -> int:
        """The number of rows in a block."""
        if self.per_second is None:
            return BLOCK
        return max(1, min(BLOCK, int(self.per_second / BLOCKS_A_SECOND)))

    def share(self, split: Split) -> tuple[int, int, int]:
        """Return a split's first number, its block size, and the distance between its blocks."""
        if found := _SHARE.fullmatch(split.name):
            at, of, block = map(int, found.groups())
            return at * block, block, of * block
        return 0, self._block, self._block

    def read(self, split: Split, position: Position) -> Iterator[Chunk]:
        """Yield the blocks of a split from that row on."""
        first, block, stride = self.share(split)
        first = position if isinstance(position, int) else first
        while self.count is None or first < self.count:
            last = first + block
            last = last if self.count is None else min(last, self.count)
            yield self.block(split, first, last, first + stride)
            first += stride

    def block(self, split: Split, first: int, last: int, position: int) -> Chunk:
        """Make the rows `first` up to, not including, `last`; reading resumes at `position`."""
        frame = self.make(first, last)
        frame, bad = sound(frame, self.wanted, first) if self.wanted else (frame, ())
        return Chunk(split, frame, position, bad)


@dataclass(frozen=True, slots=True)
class NumberedSource:
    """A `BlockingSource` over numbered rows."""

    numbers: Numbers
    surroundings: Surroundings
    rediscover_s: None = None
    ordered: bool = False

    def discover(self) -> Sequence[Split]:
        """List one split for each subtask of the source."""
        return self.numbers.dealt()

    def reading(self) -> Reading:
        """Return a reader of blocks, which emits each when it is due if there is a rate."""
        threaded = Threaded(self.numbers, self.surroundings)
        return Paced(threaded, self.numbers) if self.numbers.per_second else threaded


@dataclass(frozen=True, slots=True)
class NumberedPieces:
    """The batch reader of numbered rows; it ignores the rate."""

    numbers: Numbers

    async def pieces(self, many: int) -> Sequence[Piece]:
        """Return ranges of whole blocks as batch splits."""
        count = self.numbers.count
        assert count is not None, "an endless source is refused before"
        blocks = min(max(-(-count // (many * BLOCK)), 1), BLOCKS_A_PIECE)
        split, step = Split(self.numbers.source, "0"), blocks * BLOCK
        runs = (range(at, min(at + step, count)) for at in range(0, count, step))
        return [Piece(split, run, len(run) * ROW_BYTES) for run in runs]

    def read(self, piece: Piece) -> Iterator[tuple[int, Chunk]]:
        """Yield the blocks of a range, each with its first number."""
        assert isinstance(piece.at, range)
        for first in range(piece.at.start, piece.at.stop, BLOCK):
            last = min(first + BLOCK, piece.at.stop)
            yield first, self.numbers.block(piece.split, first, last, last)


class Paced:
    """A `SplitReader` that holds each block until it is due: row n at n / rate after the start."""

    def __init__(self, reading: Reading, numbers: Numbers) -> None:
        self._reading = reading
        self._numbers = numbers
        self._start: tuple[float, int] | None = None
        self._held: Chunk | None = None
        self._open: set[Split] = set()
        self._held_splits: Collection[Split] = ()
        self._waiting_since: float | None = None

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Add splits to read."""
        self._open.update(split for split, _ in splits)
        self._reading.assign(splits, last=last)

    def hold(self, splits: Collection[Split]) -> None:
        """Return nothing of these splits until the next call."""
        self._held_splits = splits
        self._reading.hold(splits)

    def exhausted(self) -> Mapping[Split, float]:
        """Return all open splits while the next block is not due yet."""
        since = self._waiting_since
        if since is None:
            return {}
        return {split: since for split in self._open if split not in self._held_splits}

    def lags(self) -> Mapping[Split, int]:
        return self._reading.lags()

    def worked_s(self) -> float:
        return self._reading.worked_s()

    async def next(self) -> Arrival | None:
        """Return the next block once it is due."""
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
        # The chunk stays in `_held` if the caller stops waiting for it.
        await asyncio.sleep(max(due - loop.time(), 0))
        self._waiting_since = None
        chunk, self._held = self._held, None
        return chunk

    async def close(self) -> None:
        await self._reading.close()


def opening(
    numbers: Callable[[nodes.Source, Surroundings], Numbers],
) -> Callable[[nodes.Source, Surroundings], Source]:
    """Return a function that opens a source over these numbered rows."""

    def opened(source: nodes.Source, surroundings: Surroundings) -> Source:
        numbered = NumberedSource(numbers(source, surroundings), surroundings)
        return SourceInThreads(numbered, surroundings.bench)

    return opened


def piecing(
    numbers: Callable[[nodes.Source, Surroundings], Numbers],
) -> Callable[[nodes.Source, Surroundings], PieceReader]:
    """Return a function that opens a batch reader over these numbered rows."""
    return lambda source, surroundings: NumberedPieces(numbers(source, surroundings))
