"""Standard input as a source: one split, read once, by one subtask.

Bytes are buffered until they are requested. A single line is therefore passed on at once, and under
load the buffered bytes make a large block. The event loop waits, not a thread, so a source that
waits for input can be stopped.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from headrace.connectors.files.connector import BLOCK_BYTES
from headrace.connectors.files.text_reader import (
    begin_decoder,
    build_record_size_error,
    cut_before_large_record,
    cut_first_records,
)
from headrace.connectors.formats.contract import Decoder
from headrace.connectors.formats.factories import build_decoder
from headrace.connectors.formats.lines import LineBlock
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import Chunk, SourceEvent, SplitFinished
from headrace.core.api.splits import Position, Progress, Split
from headrace.core.api.stopwatch import Stopwatch
from headrace.core.plan import nodes
from headrace.core.types.lazy_dataclass import dataclass

READ_BYTES = 1 << 18


class PipeReader:
    """Reads a file descriptor and leaves it open at the end: it belongs to the process."""

    def __init__(self, descriptor: int, max_bytes: int, executor: KernelExecutor) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._kernel_executor = executor
        self._waits = True
        self._gathered = bytearray()
        self._ended = False
        self._failed: OSError | None = None
        self._listening = False
        self._something = asyncio.Event()

    async def read(self) -> bytes:
        """Return the buffered bytes, waiting for at least one; no bytes mean the end of input."""
        if not self._gathered:
            self._start_listening()
            if not self._waits:
                return await self._kernel_executor.run_blocking(
                    partial(os.read, self._descriptor, self._max_bytes)
                )
            await self._something.wait()
        if self._failed and not self._gathered:
            raise self._failed
        data = bytes(self._gathered)
        self._gathered.clear()
        if not self._ended:
            self._something.clear()
            self._start_listening()
        return data

    def close(self) -> None:
        """Stop buffering input."""
        if self._listening:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._listening = False

    def _start_listening(self) -> None:
        if self._waits and not self._listening and not self._ended:
            try:
                asyncio.get_running_loop().add_reader(self._descriptor, self._on_readable)
            except PermissionError:
                # A regular file or /dev/null: the event loop cannot wait for it.
                self._waits = False
            else:
                self._listening = True

    def _on_readable(self) -> None:
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            data, self._failed = b"", error
        self._gathered += data
        self._ended = not data
        if self._ended or len(self._gathered) >= self._max_bytes:
            self.close()
        self._something.set()


SPLIT_NAME = "stdin"


@dataclass(frozen=True, slots=True)
class StandardInput:
    """A `BlockingSource` over standard input."""

    name: str
    discovery_interval_s: None = None

    def discover_splits(self) -> Sequence[Split]:
        """List the one split. Raises ConnectorError if standard input is closed."""
        # Once it is closed, its descriptor may belong to another file.
        if sys.stdin is None:
            raise ConnectorError("standard input is closed", exit_status=2)
        return [Split(self.name, SPLIT_NAME)]

    def check_progress(self, splits: Mapping[Split, Progress]) -> None:
        """Do nothing: a run that reads standard input takes no checkpoints."""


class StdinSplitReader:
    """A `SplitReader` of whole records as they arrive; of none, in a subtask without the split."""

    def __init__(
        self,
        source: nodes.Source,
        run_context: RunContext,
        descriptor: int = 0,
        block: int = BLOCK_BYTES,
    ) -> None:
        executor = run_context.kernel_executor
        self._incoming = PipeReader(descriptor, block, executor)
        self._kernel_executor = executor
        self._split: Split | None = None
        self._again = False
        self._decoder: Decoder = build_decoder(source)
        self._wanted = run_context.row_limit
        self._max_record = source.max_record
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
        if len(self._kept) > self._max_record:
            raise self._build_size_error()
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
        data = cut_before_large_record(whole, self._max_record, cut)
        if whole and not data:
            raise self._build_size_error()
        return data if wanted is None or not data else cut_first_records(data, wanted, cut)

    def _build_size_error(self) -> ConnectorError:
        return build_record_size_error(SPLIT_NAME, self._at, self._max_record)

    async def _decode(self, split: Split, block: bytes) -> Chunk:
        """Decode the block; it is consumed only then, as the caller may be cancelled."""
        decode = partial(self._decoder.decode, block, self._at)
        with self._working:
            frame, bad = await self._kernel_executor.run(block.count(b"\n"), decode)
        find = partial(LineBlock(block, self._at).list_positions, bad)
        self._consume(block)
        if self._wanted is not None:
            self._wanted -= frame.height
        return Chunk(split, frame, self._at, bad, list_positions=find)

    def _consume(self, block: bytes) -> None:
        self._kept = self._kept[len(block) :]
        self._at += len(block)

    async def close(self) -> None:
        """Stop reading; unread input is left to other processes."""
        self._incoming.close()
