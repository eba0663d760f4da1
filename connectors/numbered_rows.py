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
from functools import partial
from typing import TYPE_CHECKING

from headrace.connectors.formats.bad_records import list_row_numbers, split_null_violations
from headrace.connectors.thread_adapters import (
    SimpleReaderFactory,
    ThreadedSource,
    ThreadedSplitReader,
)
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import (
    BatchSplit,
    BatchSplitReader,
    Chunk,
    ReaderFactory,
    SourceCoordinator,
    SourceEvent,
    SplitFinished,
    SplitReader,
)
from headrace.core.api.splits import Position, Progress, Split
from headrace.core.api.stored_documents import MalformedDocument
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

BLOCK_ROWS = 32768
_SPLIT_NAME = re.compile(r"(\d+)/(\d+)x(\d+)")
BLOCKS_PER_BATCH_SPLIT, ROW_BYTES = 16, 128
"""Blocks computed at once in a batch, and the assumed size of a row for sizing batch splits."""
BLOCKS_PER_SECOND = 50
"""With a rate, a block holds the rows of a fiftieth of a second, so that rows flow evenly."""


@dataclass(frozen=True, slots=True)
class NumberedRows:
    """A range of row numbers, its rate, and the function that makes rows of numbers."""

    source: str
    make_rows: Callable[[int, int], pl.DataFrame]
    """Returns the rows of the numbers from the first up to, not including, the second."""
    row_count: int | None
    rows_per_second: float | None
    split_count: int
    checked_schema: Schema | None = None
    """The columns to check for nulls that are not allowed; None: there are none."""
    cut_range: Callable[[int, int], Iterator[tuple[int, int]]] = lambda first, last: iter(
        ((first, last),)
    )
    """Cuts a range of numbers into ranges whose rows fit into memory."""

    def list_splits(self) -> Sequence[Split]:
        """List the splits."""
        of, block = self.split_count, self._block_rows
        names = ["0"] if of == 1 else [f"{at}/{of}x{block}" for at in range(of)]
        return [Split(self.source, name) for name in names]

    @property
    def _block_rows(self) -> int:
        """The number of rows in a block."""
        if self.rows_per_second is None:
            return BLOCK_ROWS
        return max(1, min(BLOCK_ROWS, int(self.rows_per_second / BLOCKS_PER_SECOND)))

    def parse_split(self, split: Split) -> tuple[int, int, int]:
        """Return a split's first number, its block size, and the distance between its blocks."""
        if found := _SPLIT_NAME.fullmatch(split.name):
            at, of, block = map(int, found.groups())
            return at * block, block, of * block
        return 0, self._block_rows, self._block_rows

    def read(self, split: Split, position: Position) -> Iterator[Chunk]:
        """Yield the blocks of a split from that row on."""
        start, block, stride = self.parse_split(split)
        first = position if isinstance(position, int) else start
        while self.row_count is None or first < self.row_count:
            end = first - (first - start) % stride + block
            following = end - block + stride
            last = end if self.row_count is None else min(end, self.row_count)
            yield from self.make_block(split, first, last, following)
            first = following

    def make_block(self, split: Split, first: int, last: int, position: int) -> Iterator[Chunk]:
        """Make the rows `first` up to, not including, `last`; after them reading resumes at
        `position`."""
        for low, high in self.cut_range(first, last):
            yield self._make_chunk(split, low, high, position if high == last else high)

    def _make_chunk(self, split: Split, first: int, last: int, position: int) -> Chunk:
        frame = self.make_rows(first, last)
        frame, bad = (
            split_null_violations(frame, self.checked_schema, first)
            if self.checked_schema
            else (frame, ())
        )
        find = partial(list_row_numbers, first, last, bad)
        return Chunk(split, frame, position, bad, list_positions=find)


@dataclass(frozen=True, slots=True)
class NumberedSource:
    """A `BlockingSource` over numbered rows."""

    numbers: NumberedRows
    discovery_interval_s: None = None

    def discover_splits(self) -> Sequence[Split]:
        """List one split for each subtask of the source."""
        return self.numbers.list_splits()

    def check_progress(self, splits: Mapping[Split, Progress]) -> None:
        """Do nothing: rows are computed from their number."""


def create_numbered_reader(numbers: NumberedRows, run_context: RunContext) -> SplitReader:
    """Create a reader of blocks, which emits each when it is due if there is a rate."""
    threaded = ThreadedSplitReader(numbers, run_context)
    return PacedSplitReader(threaded, numbers) if numbers.rows_per_second else threaded


@dataclass(frozen=True, slots=True)
class NumberedBatchReader:
    """The batch reader of numbered rows; it ignores the rate."""

    numbers: NumberedRows

    async def plan_splits(self, many: int) -> Sequence[BatchSplit]:
        """Return ranges of whole blocks as batch splits."""
        count = self.numbers.row_count
        assert count is not None, "an endless source is refused before"
        blocks = min(max(-(-count // (many * BLOCK_ROWS)), 1), BLOCKS_PER_BATCH_SPLIT)
        split, step = Split(self.numbers.source, "0"), blocks * BLOCK_ROWS
        runs = (range(at, min(at + step, count)) for at in range(0, count, step))
        return [BatchSplit(split, run, len(run) * ROW_BYTES) for run in runs]

    def read(self, piece: BatchSplit) -> Iterator[tuple[int, Chunk]]:
        """Yield the blocks of a range, each with its first number."""
        assert isinstance(piece.record_range, range)
        for first in range(piece.record_range.start, piece.record_range.stop, BLOCK_ROWS):
            last = min(first + BLOCK_ROWS, piece.record_range.stop)
            for chunk in self.numbers.make_block(piece.split, first, last, last):
                yield first, chunk
                first += chunk.frame.height + len(chunk.bad_records)


class PacedSplitReader:
    """A `SplitReader` that holds each block until it is due: row n at n / rate after the start."""

    def __init__(self, reading: SplitReader, numbers: NumberedRows) -> None:
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

    def pause(self, splits: Collection[Split]) -> None:
        """Return nothing of these splits until the next call."""
        self._held_splits = splits
        self._reading.pause(splits)

    def list_exhausted(self) -> Mapping[Split, float]:
        """Return all open splits while the next block is not due yet."""
        since = self._waiting_since
        if since is None:
            return {}
        return {split: since for split in self._open if split not in self._held_splits}

    def measure_lags(self) -> Mapping[Split, int]:
        return self._reading.measure_lags()

    def measure_busy_s(self) -> float:
        return self._reading.measure_busy_s()

    async def fetch(self) -> SourceEvent | None:
        """Return the next block once it is due."""
        loop = asyncio.get_running_loop()
        if self._held is None:
            arrival = await self._reading.fetch()
            if isinstance(arrival, SplitFinished):
                self._open.discard(arrival.split)
            if not isinstance(arrival, Chunk):
                return arrival
            self._held = arrival
        *_, stride = self._numbers.parse_split(self._held.split)
        number = int(str(self._held.position)) - stride
        if self._start is None:
            self._start = (loop.time(), number)
        since, first = self._start
        due = since + (number - first) / (self._numbers.rows_per_second or 1)
        self._waiting_since = loop.time()
        # The chunk stays in `_held` if the caller stops waiting for it.
        await asyncio.sleep(max(due - loop.time(), 0))
        self._waiting_since = None
        chunk, self._held = self._held, None
        return chunk

    async def close(self) -> None:
        await self._reading.close()


def check_split(source: nodes.Source, name: str, position: Position, identity: str | None) -> None:
    """Check a split of a checkpoint. Raises MalformedDocument."""
    found = _SPLIT_NAME.fullmatch(name)
    if name != "0" and not (found and int(found[2]) and int(found[3])):
        raise MalformedDocument(f"{name!r} is no range of row numbers")
    if isinstance(position, str) or (position is not None and position < 0):
        raise MalformedDocument(f"wanted the number of a row, got {position!r}")


def make_source_opener(
    numbers: Callable[[nodes.Source, RunContext], NumberedRows],
) -> Callable[[nodes.Source, RunContext], SourceCoordinator]:
    """Return a function that opens a source over these numbered rows."""

    def open_source(source: nodes.Source, run_context: RunContext) -> SourceCoordinator:
        numbered = NumberedSource(numbers(source, run_context))
        return ThreadedSource(numbered, run_context.kernel_executor)

    return open_source


def make_reader_opener(
    numbers: Callable[[nodes.Source, RunContext], NumberedRows],
) -> Callable[[nodes.Source, RunContext, CoordinatorLink], ReaderFactory]:
    """Return a function that opens the readers of a source over these numbered rows."""

    def open_readers(
        source: nodes.Source, run_context: RunContext, link: CoordinatorLink
    ) -> ReaderFactory:
        rows = numbers(source, run_context)
        return SimpleReaderFactory(partial(create_numbered_reader, rows, run_context))

    return open_readers


def make_batch_opener(
    numbers: Callable[[nodes.Source, RunContext], NumberedRows],
) -> Callable[[nodes.Source, RunContext], BatchSplitReader]:
    """Return a function that opens a batch reader over these numbered rows."""
    return lambda source, run_context: NumberedBatchReader(numbers(source, run_context))
