"""Sources and sinks that wait for a disk: synchronous inside, called in threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from headrace.core.bench import KernelExecutor
from headrace.core.contracts import SinkWriter, SplitReader
from headrace.core.messages import Handle, Progress, Split
from headrace.core.state import Document


class BlockingSource(Protocol):
    """A `SourceConnector` whose discovery waits for a disk."""

    @property
    def discovery_interval_s(self) -> float | None:
        """Seconds between two discoveries of splits."""
        ...

    @property
    def is_ordered(self) -> bool:
        """Whether a split that is read later holds no earlier rows than one before it."""
        ...

    def discover_splits(self) -> Sequence[Split]:
        """List the splits that exist now."""
        ...

    def create_reader(self) -> SplitReader:
        """Return the split reader of one subtask."""
        ...


class BlockingSink(Protocol):
    """A `SinkConnector` whose commits wait for a disk."""

    def check(self) -> None:
        """Raise ConnectorError if output cannot be written there at all."""
        ...

    def create_writer(self, subtask: int, begun: Sequence[Document] = ()) -> SinkWriter:
        """Return the writer of one subtask."""
        ...

    def commit(self, handle: Handle) -> None:
        """Commit prepared output."""
        ...

    def abort(self, handle: Handle) -> None:
        """Remove prepared output that will not be committed."""
        ...


@dataclass(frozen=True, slots=True)
class ThreadedSource:
    """A `SourceConnector` that calls a `BlockingSource` in threads."""

    source: BlockingSource
    kernel_executor: KernelExecutor

    @property
    def discovery_interval_s(self) -> float | None:
        return self.source.discovery_interval_s

    @property
    def is_ordered(self) -> bool:
        return self.source.is_ordered

    async def discover_splits(self, first: bool) -> Sequence[Split]:
        """List the splits, in a thread."""
        return await self.kernel_executor.run_blocking(self.source.discover_splits)

    async def restore(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """Return the stored positions unchanged."""
        return splits

    def create_reader(self) -> SplitReader:
        return self.source.create_reader()

    async def on_checkpoint_complete(self, splits: Mapping[Split, Progress]) -> None:
        """Do nothing: positions are not published anywhere."""

    async def close(self) -> None:
        """Do nothing: no resource is open."""


@dataclass(frozen=True, slots=True)
class ThreadedSink:
    """A `SinkConnector` that calls a `BlockingSink` in threads."""

    sink: BlockingSink
    kernel_executor: KernelExecutor

    async def check(self) -> None:
        """Raise ConnectorError if output cannot be written there."""
        await self.kernel_executor.run_blocking(self.sink.check)

    def create_writer(self, subtask: int, begun: Sequence[Document] = ()) -> SinkWriter:
        return self.sink.create_writer(subtask, begun)

    async def commit(self, handle: Handle) -> None:
        """Commit prepared output, in a thread."""
        await self.kernel_executor.run_blocking(partial(self.sink.commit, handle))

    async def abort(self, handle: Handle) -> None:
        """Remove prepared output, in a thread."""
        await self.kernel_executor.run_blocking(partial(self.sink.abort, handle))

    async def close(self) -> None:
        """Do nothing: no resource is open."""
