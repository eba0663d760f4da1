"""Adapters of sources and sinks that wait for a disk: synchronous inside, called in threads.

The splits of a subtask are read in turn, a chunk of each, so no split waits for another's end. The
next chunk is made while the last one is processed, also across splits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from headrace.core.api.coordinator_link import StandaloneCoordinator
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import Chunk, RecordReader, SourceEvent, SplitFinished, SplitReader
from headrace.core.api.splits import Handle, Position, Progress, Split
from headrace.core.api.state import Document
from headrace.core.api.stopwatch import Stopwatch
from headrace.core.types.lazy_dataclass import dataclass


class BlockingSource(Protocol):
    """A `SourceCoordinator` whose discovery waits for a disk."""

    @property
    def discovery_interval_s(self) -> float | None:
        """Seconds between two discoveries of splits."""
        ...

    def discover_splits(self) -> Sequence[Split]:
        """List the splits that exist now."""
        ...

    def check_progress(self, splits: Mapping[Split, Progress]) -> None:
        """Raise ConnectorError if reading cannot resume there."""
        ...


class BlockingSink(Protocol):
    """A `SinkCoordinator` whose commits wait for a disk."""

    def check(self) -> None:
        """Raise ConnectorError if output cannot be written there at all."""
        ...

    def describe_for_workers(self) -> Document:
        """Return what each `WriterFactory` must know."""
        ...

    def commit(self, handle: Handle) -> None:
        """Commit prepared output."""
        ...

    def abort(self, handle: Handle) -> None:
        """Remove prepared output that will not be committed."""
        ...

    def end_lost_writers(self, subtasks: Collection[int]) -> None:
        """Remove what writers whose process is gone have left uncommitted."""
        ...


@dataclass(frozen=True, slots=True)
class ThreadedSource(StandaloneCoordinator):
    """A `SourceCoordinator` that calls a `BlockingSource` in threads."""

    source: BlockingSource
    kernel_executor: KernelExecutor

    @property
    def discovery_interval_s(self) -> float | None:
        return self.source.discovery_interval_s

    async def discover_splits(self, first: bool) -> Sequence[Split]:
        """List the splits, in a thread."""
        return await self.kernel_executor.run_blocking(self.source.discover_splits)

    async def restore(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """Return the stored positions unchanged, checked in a thread."""
        await self.kernel_executor.run_blocking(partial(self.source.check_progress, splits))
        return splits

    async def on_checkpoint_complete(self, splits: Mapping[Split, Progress]) -> None:
        """Do nothing: positions are not published anywhere."""

    async def close(self) -> None:
        """Do nothing: no resource is open."""


@dataclass(frozen=True, slots=True)
class ThreadedSink(StandaloneCoordinator):
    """A `SinkCoordinator` that calls a `BlockingSink` in threads."""

    sink: BlockingSink
    kernel_executor: KernelExecutor

    async def check(self) -> None:
        """Raise ConnectorError if output cannot be written there."""
        await self.kernel_executor.run_blocking(self.sink.check)

    async def describe_for_workers(self) -> Document:
        """Return what writers must know, found in a thread."""
        return await self.kernel_executor.run_blocking(self.sink.describe_for_workers)

    async def commit(self, handle: Handle) -> None:
        """Commit prepared output, in a thread."""
        await self.kernel_executor.run_blocking(partial(self.sink.commit, handle))

    def on_commits_recorded(self) -> None:
        """Do nothing: no resource waits for it."""

    async def abort(self, handle: Handle) -> None:
        """Remove prepared output, in a thread."""
        await self.kernel_executor.run_blocking(partial(self.sink.abort, handle))

    async def end_lost_writers(self, subtasks: Collection[int]) -> None:
        """Remove what these writers have left, in a thread."""
        await self.kernel_executor.run_blocking(partial(self.sink.end_lost_writers, subtasks))

    async def close(self) -> None:
        """Do nothing: no resource is open."""


@dataclass(frozen=True, slots=True)
class SimpleReaderFactory:
    """A `ReaderFactory` whose readers share no resource."""

    make_reader: Callable[[], SplitReader]
    is_ordered: bool = False

    def create_reader(self) -> SplitReader:
        return self.make_reader()

    async def close(self) -> None:
        """Do nothing: no resource is open."""


class ThreadedSplitReader:
    """A `SplitReader` over a `RecordReader`. With `in_order`, it reads split after split."""

    def __init__(
        self, reader: RecordReader, run_context: RunContext, *, in_order: bool = False
    ) -> None:
        self._reader = reader
        self._kernel_executor = run_context.kernel_executor
        self._in_order = in_order
        self._last = False
        self._held: Collection[Split] = ()
        self._open: deque[tuple[Split, Iterator[Chunk]]] = deque()
        self._made: deque[SourceEvent] = deque()
        self._making: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._working = Stopwatch()

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Read these splits after the others."""
        self._open.extend((split, self._reader.read(split, at)) for split, at in splits)
        self._last = last
        self._changed.set()

    def pause(self, splits: Collection[Split]) -> None:
        """Return nothing of these splits until the next call; chunks already made wait."""
        self._held = splits
        self._changed.set()

    def list_exhausted(self) -> Mapping[Split, float]:
        """Return none: a reader is never idle before the end of its split."""
        return {}

    def measure_lags(self) -> Mapping[Split, int]:
        """Return none: a reader does not know how many records are left."""
        return {}

    def measure_busy_s(self) -> float:
        """Return the seconds that the reader has worked in its thread or waited for one."""
        return self._working.seconds

    async def fetch(self) -> SourceEvent | None:
        """Return the chunk made ahead, and start making the next one."""
        while True:
            arrival = self._pop_ready()
            self._start_next()
            if arrival is not None:
                return arrival
            if self._last and not self._made and not self._open and self._making is None:
                return None
            await self._changed.wait()
            self._changed.clear()

    def _pop_ready(self) -> SourceEvent | None:
        """Return the first chunk made whose split is not held."""
        for at, arrival in enumerate(self._made):
            if arrival.split not in self._held:
                del self._made[at]
                return arrival
        return None

    def _start_next(self) -> None:
        """Start making the next chunk, unless one is ready or being made already.

        Raises the error of the last one.
        """
        if self._making is not None and self._making.done():
            making, self._making = self._making, None
            making.result()
        if self._making is not None or any(a.split not in self._held for a in self._made):
            return
        if self._rotate_to_readable():
            self._making = asyncio.create_task(self._make_chunk())
            self._making.add_done_callback(lambda _: self._changed.set())

    def _rotate_to_readable(self) -> bool:
        """Move the next split that is not held to the front; return whether there is one."""
        for _ in range(len(self._open)):
            if self._open[0][0] not in self._held:
                return True
            if self._in_order:
                return False
            self._open.rotate(-1)
        return False

    async def _make_chunk(self) -> None:
        """Make the next chunk, and before it the ends of splits that have no more."""
        while self._rotate_to_readable():
            split, chunks = self._open[0]
            with self._working:
                chunk: Chunk | None = await self._kernel_executor.run_blocking(
                    partial(next, chunks, None)
                )
            if chunk is not None:
                self._made.append(chunk)
                if not self._in_order:
                    self._open.rotate(-1)
                return
            self._open.popleft()
            self._made.append(SplitFinished(split))

    async def close(self) -> None:
        """Wait for the thread, and close the readers' open files."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)
        for _, chunks in self._open:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
        self._open.clear()
