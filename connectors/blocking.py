"""Sources and sinks that wait for a disk: synchronous inside, called in threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from headrace.core.bench import Bench
from headrace.core.contracts import Reading, Writer
from headrace.core.messages import Handle, Progress, Split
from headrace.core.state import Document


class BlockingSource(Protocol):
    """A `SourceConnector` whose discovery waits for a disk."""

    @property
    def rediscover_s(self) -> float | None:
        """Seconds between two discoveries of splits."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether a split that is read later holds no earlier rows than one before it."""
        ...

    def discover(self) -> Sequence[Split]:
        """List the splits that exist now."""
        ...

    def reading(self) -> Reading:
        """Return the split reader of one subtask."""
        ...


class BlockingSink(Protocol):
    """A `SinkConnector` whose commits wait for a disk."""

    def check(self) -> None:
        """Raise ConnectorError if output cannot be written there at all."""
        ...

    def writer(self, subtask: int, begun: Sequence[Document] = ()) -> Writer:
        """Return the writer of one subtask."""
        ...

    def commit(self, handle: Handle) -> None:
        """Commit prepared output."""
        ...

    def abort(self, handle: Handle) -> None:
        """Remove prepared output that will not be committed."""
        ...


@dataclass(frozen=True, slots=True)
class SourceInThreads:
    """A `SourceConnector` that calls a `BlockingSource` in threads."""

    source: BlockingSource
    bench: Bench

    @property
    def rediscover_s(self) -> float | None:
        return self.source.rediscover_s

    @property
    def ordered(self) -> bool:
        return self.source.ordered

    async def discover(self, first: bool) -> Sequence[Split]:
        """List the splits, in a thread."""
        return await self.bench.blocking(self.source.discover)

    async def resumed(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """Return the stored positions unchanged."""
        return splits

    def reading(self) -> Reading:
        return self.source.reading()

    async def published(self, splits: Mapping[Split, Progress]) -> None:
        """Do nothing: positions are not published anywhere."""

    async def close(self) -> None:
        """Do nothing: no resource is open."""


@dataclass(frozen=True, slots=True)
class SinkInThreads:
    """A `SinkConnector` that calls a `BlockingSink` in threads."""

    sink: BlockingSink
    bench: Bench

    async def check(self) -> None:
        """Raise ConnectorError if output cannot be written there."""
        await self.bench.blocking(self.sink.check)

    def writer(self, subtask: int, begun: Sequence[Document] = ()) -> Writer:
        return self.sink.writer(subtask, begun)

    async def commit(self, handle: Handle) -> None:
        """Commit prepared output, in a thread."""
        await self.bench.blocking(partial(self.sink.commit, handle))

    async def abort(self, handle: Handle) -> None:
        """Remove prepared output, in a thread."""
        await self.bench.blocking(partial(self.sink.abort, handle))

    async def close(self) -> None:
        """Do nothing: no resource is open."""
