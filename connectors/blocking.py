"""Ends that are a matter of a disk: synchronous inside, called in threads."""

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
    """`Source` whose discovery waits for a disk."""

    @property
    def rediscover_s(self) -> float | None:
        """How often splits are discovered anew."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether a split that is read later holds no earlier rows than one before it."""
        ...

    def discover(self) -> Sequence[Split]:
        """All the splits there are now."""
        ...

    def reading(self) -> Reading:
        """What one subtask reads with."""
        ...


class BlockingSink(Protocol):
    """`Sink` whose commits wait for a disk."""

    def check(self) -> None:
        """Whether output can go there at all."""
        ...

    def writer(self, subtask: int, begun: Sequence[Document] = ()) -> Writer:
        """What one subtask writes with."""
        ...

    def commit(self, handle: Handle) -> None:
        """Make prepared output visible."""
        ...

    def abort(self, handle: Handle) -> None:
        """Remove prepared output that is not to be seen."""
        ...


@dataclass(frozen=True, slots=True)
class SourceInThreads:
    """`Source` of one that waits for a disk."""

    source: BlockingSource
    bench: Bench

    @property
    def rediscover_s(self) -> float | None:
        """As the source says."""
        return self.source.rediscover_s

    @property
    def ordered(self) -> bool:
        """As the source says."""
        return self.source.ordered

    async def discover(self, first: bool) -> Sequence[Split]:
        """Look."""
        return await self.bench.blocking(self.source.discover)

    async def resumed(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """From where they were left."""
        return splits

    def reading(self) -> Reading:
        """What one subtask reads with."""
        return self.source.reading()

    async def published(self, splits: Mapping[Split, Progress]) -> None:
        """Nobody looks."""

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True)
class SinkInThreads:
    """`Sink` of one that waits for a disk."""

    sink: BlockingSink
    bench: Bench

    async def check(self) -> None:
        """Look whether output can go there."""
        await self.bench.blocking(self.sink.check)

    def writer(self, subtask: int, begun: Sequence[Document] = ()) -> Writer:
        """What one subtask writes with."""
        return self.sink.writer(subtask, begun)

    async def commit(self, handle: Handle) -> None:
        """Make it visible."""
        await self.bench.blocking(partial(self.sink.commit, handle))

    async def abort(self, handle: Handle) -> None:
        """Remove it."""
        await self.bench.blocking(partial(self.sink.abort, handle))

    async def close(self) -> None:
        """Nothing is open."""
