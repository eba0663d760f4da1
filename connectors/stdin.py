"""Standard input as a source: one split, read once, by one subtask."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from headrace.connectors.files import BLOCK
from headrace.connectors.files.reader import LONGEST, begun, first_records
from headrace.connectors.formats import decoder
from headrace.connectors.formats.contract import Decoder
from headrace.connectors.incoming import Incoming
from headrace.core.contracts import Arrival, Chunk, ConnectorError, Ended, Reading, Surroundings
from headrace.core.messages import Position, Split
from headrace.core.plan import nodes
from headrace.core.waiting import Waiting

NAME = "stdin"


@dataclass(frozen=True, slots=True)
class Stdin:
    """A `BlockingSource` over a file descriptor."""

    source: nodes.Source
    surroundings: Surroundings
    descriptor: int = 0
    block: int = BLOCK
    rediscover_s: None = None
    ordered: bool = False

    def discover(self) -> Sequence[Split]:
        """List the one split. Raises ConnectorError if standard input is closed."""
        # Once it is closed, its descriptor may belong to another file.
        if sys.stdin is None:
            raise ConnectorError("standard input is closed", exit_status=2)
        return [Split(self.source.name, NAME)]

    def reading(self) -> Reading:
        """Return a split reader, which reads records only in the subtask that has the split."""
        return Records(self)


class Records:
    """A `SplitReader` of whole records as they arrive; of none, in a subtask without the split."""

    def __init__(self, source: Stdin) -> None:
        bench = source.surroundings.bench
        self._incoming = Incoming(source.descriptor, source.block, bench)
        self._bench = bench
        self._split: Split | None = None
        self._again = False
        self._decoder: Decoder = decoder(source.source)
        self._wanted = source.surroundings.limit
        self._begun = not self._decoder.has_header
        self._kept = b""
        self._at = 0
        self._ended = False
        self._waiting_since: float | None = None
        self._working = Waiting()

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Read the one split if it is assigned here; other subtasks end at once."""
        for split, position in splits:
            self._split, self._again = split, bool(position)

    def hold(self, splits: Collection[Split]) -> None:
        """Do nothing: the only split of a source is never ahead of another."""

    def exhausted(self) -> Mapping[Split, float]:
        """Return the split while input is awaited."""
        if self._split is None or self._waiting_since is None:
            return {}
        return {self._split: self._waiting_since}

    def lags(self) -> Mapping[Split, int]:
        """Return nothing: the amount of pending input is unknown."""
        return {}

    def worked_s(self) -> float:
        """Return the seconds spent decoding."""
        return self._working.seconds

    async def next(self) -> Arrival | None:
        """Return the records that have arrived, waiting for at least one."""
        if self._again:
            raise ConnectorError("standard input cannot be read a second time")
        split, wanted = self._split, self._wanted
        if split is None:
            return None
        while wanted is None or wanted > 0:
            if block := self._block():
                return await self._decoded(split, block)
            if self._ended:
                break
            await self._gather()
        self._split = None
        return Ended(split)

    async def _gather(self) -> None:
        """Wait for more bytes."""
        if len(self._kept) > LONGEST:
            message = f"a record is longer than {LONGEST >> 20} MB"
            raise ConnectorError(message, split=NAME, position=self._at)
        self._waiting_since = asyncio.get_running_loop().time()
        try:
            data = await self._incoming.get()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            message = f"cannot read standard input: {why}"
            raise ConnectorError(message, split=NAME, position=self._at) from None
        self._waiting_since = None
        self._kept += data
        self._ended = not data

    def _block(self) -> bytes:
        """Return the whole records in the buffer, after removing the header at the start."""
        if not self._begun and (header := self._whole(1)):
            self._decoder = begun(self._decoder, header, NAME)
            self._begun = True
            self._take(header)
        return self._whole(self._wanted) if self._begun else b""

    def _whole(self, wanted: int | None) -> bytes:
        cut = self._decoder.cut
        whole = self._kept if self._ended else self._kept[: cut(self._kept)]
        return whole if wanted is None or not whole else first_records(whole, wanted, cut)

    async def _decoded(self, split: Split, block: bytes) -> Chunk:
        """Decode the block; it is consumed only then, as the caller may be cancelled."""
        decode = partial(self._decoder.decode, block, self._at)
        with self._working:
            frame, bad = await self._bench.run(block.count(b"\n"), decode)
        self._take(block)
        if self._wanted is not None:
            self._wanted -= frame.height
        return Chunk(split, frame, self._at, bad)

    def _take(self, block: bytes) -> None:
        self._kept = self._kept[len(block) :]
        self._at += len(block)

    async def close(self) -> None:
        """Stop reading; unread input is left to other processes."""
        self._incoming.close()


def open_stdin(source: nodes.Source, surroundings: Surroundings) -> Stdin:
    """Build the source that the plan describes."""
    return Stdin(source, surroundings)
