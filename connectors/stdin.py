"""Standard input as a source: one split, read once, by one subtask."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from headrace.connectors.files import BLOCK_BYTES
from headrace.connectors.files.reader import MAX_RECORD_BYTES, begin_decoder, cut_first_records
from headrace.connectors.formats import build_decoder
from headrace.connectors.formats.contract import Decoder
from headrace.connectors.incoming import PipeReader
from headrace.core.contracts import (
    Chunk,
    ConnectorError,
    RunContext,
    SourceEvent,
    SplitFinished,
    SplitReader,
)
from headrace.core.messages import Position, Split
from headrace.core.plan import nodes
from headrace.core.waiting import Stopwatch

SPLIT_NAME = "stdin"


@dataclass(frozen=True, slots=True)
class StandardInput:
    """A `BlockingSource` over a file descriptor."""

    source: nodes.Source
    run_context: RunContext
    descriptor: int = 0
    block: int = BLOCK_BYTES
    discovery_interval_s: None = None
    is_ordered: bool = False

    def discover_splits(self) -> Sequence[Split]:
        """List the one split. Raises ConnectorError if standard input is closed."""
        # Once it is closed, its descriptor may belong to another file.
        if sys.stdin is None:
            raise ConnectorError("standard input is closed", exit_status=2)
        return [Split(self.source.name, SPLIT_NAME)]

    def create_reader(self) -> SplitReader:
        """Return a split reader, which reads records only in the subtask that has the split."""
        return StdinSplitReader(self)


class StdinSplitReader:
    """A `SplitReader` of whole records as they arrive; of none, in a subtask without the split."""

    def __init__(self, source: StandardInput) -> None:
        bench = source.run_context.kernel_executor
        self._incoming = PipeReader(source.descriptor, source.block, bench)
        self._bench = bench
        self._split: Split | None = None
        self._again = False
        self._decoder: Decoder = build_decoder(source.source)
        self._wanted = source.run_context.row_limit
        self._begun = not self._decoder.has_header
        self._kept = b""
        self._at = 0
        self._ended = False
        self._waiting_since: float | None = None
        self._working = Stopwatch()

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Read the one split if it is assigned here; other subtasks end at once."""
        for split, position in splits:
            self._split, self._again = split, bool(position)

    def pause(self, splits: Collection[Split]) -> None:
        """Do nothing: the only split of a source is never ahead of another."""

    def list_exhausted(self) -> Mapping[Split, float]:
        """Return the split while input is awaited."""
        if self._split is None or self._waiting_since is None:
            return {}
        return {self._split: self._waiting_since}

    def measure_lags(self) -> Mapping[Split, int]:
        """Return nothing: the amount of pending input is unknown."""
        return {}

    def measure_busy_s(self) -> float:
        """Return the seconds spent decoding."""
        return self._working.seconds

    async def fetch(self) -> SourceEvent | None:
        """Return the records that have arrived, waiting for at least one."""
        if self._again:
            raise ConnectorError("standard input cannot be read a second time")
        split, wanted = self._split, self._wanted
        if split is None:
            return None
        while wanted is None or wanted > 0:
            if block := self._cut_records():
                return await self._decode(split, block)
            if self._ended:
                break
            await self._read_more()
        self._split = None
        return SplitFinished(split)

    async def _read_more(self) -> None:
        """Wait for more bytes."""
        if len(self._kept) > MAX_RECORD_BYTES:
            message = f"a record is longer than {MAX_RECORD_BYTES >> 20} MB"
            raise ConnectorError(message, split=SPLIT_NAME, position=self._at)
        self._waiting_since = asyncio.get_running_loop().time()
        try:
            data = await self._incoming.read()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            message = f"cannot read standard input: {why}"
            raise ConnectorError(message, split=SPLIT_NAME, position=self._at) from None
        self._waiting_since = None
        self._kept += data
        self._ended = not data

    def _cut_records(self) -> bytes:
        """Return the whole records in the buffer, after removing the header at the start."""
        if not self._begun and (header := self._find_whole_records(1)):
            self._decoder = begin_decoder(self._decoder, header, SPLIT_NAME)
            self._begun = True
            self._consume(header)
        return self._find_whole_records(self._wanted) if self._begun else b""

    def _find_whole_records(self, wanted: int | None) -> bytes:
        cut = self._decoder.find_cut
        whole = self._kept if self._ended else self._kept[: cut(self._kept)]
        return whole if wanted is None or not whole else cut_first_records(whole, wanted, cut)

    async def _decode(self, split: Split, block: bytes) -> Chunk:
        """Decode the block; it is consumed only then, as the caller may be cancelled."""
        decode = partial(self._decoder.decode, block, self._at)
        with self._working:
            frame, bad = await self._bench.run(block.count(b"\n"), decode)
        self._consume(block)
        if self._wanted is not None:
            self._wanted -= frame.height
        return Chunk(split, frame, self._at, bad)

    def _consume(self, block: bytes) -> None:
        self._kept = self._kept[len(block) :]
        self._at += len(block)

    async def close(self) -> None:
        """Stop reading; unread input is left to other processes."""
        self._incoming.close()


def build_standard_input(source: nodes.Source, surroundings: RunContext) -> StandardInput:
    """Build the source that the plan describes."""
    return StandardInput(source, surroundings)
