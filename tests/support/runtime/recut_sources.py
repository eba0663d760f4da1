"""The shipped connectors, with their sources' rows cut again: by one, at random, not at all.

The output must not depend on how rows are cut into batches, and a connector alone never cuts an
input as small as a test's. The bad records of a chunk come after its rows.

A position within a chunk is the start of the chunk, and the number of its rows read so far.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import (
    Chunk,
    ReaderFactory,
    SourceCoordinator,
    SourceEvent,
    SplitReader,
)
from headrace.core.api.splits import Position, Progress, Split
from headrace.core.api.state import Document
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, Connectors

Cut = Literal["one", "all", "random"]
CUTS: tuple[Cut, ...] = ("one", "all", "random")


def recut(connectors: Connectors, cut: Cut, seed: int) -> Connectors:
    """Return the same connectors; their sources cut the chunks that they read."""
    chance = random.Random(seed)
    return {name: _recut(connector, cut, chance) for name, connector in connectors.items()}


def _recut(connector: Connector, cut: Cut, chance: random.Random) -> Connector:
    side = connector.source
    if side is None or side.open is None or side.open_readers is None:
        return connector
    opens, opens_readers = side.open, side.open_readers

    def source(node: nodes.Source, surroundings: RunContext) -> SourceCoordinator:
        return CutSource(opens(node, surroundings))

    def readers(
        node: nodes.Source, surroundings: RunContext, link: CoordinatorLink
    ) -> ReaderFactory:
        return CutReaders(opens_readers(node, surroundings, link), cut, chance)

    return replace(connector, source=replace(side, open=source, open_readers=readers))


def sizes(rows: int, cut: Cut, chance: random.Random) -> Iterator[int]:
    """Draw the sizes of the pieces of this number of rows."""
    while rows > 0:
        size = {"one": 1, "all": rows, "random": chance.randint(1, rows)}[cut]
        yield size
        rows -= size


@dataclass(frozen=True, slots=True)
class CutSource:
    """A source that cuts the chunks of another one."""

    source: SourceCoordinator

    async def discover_splits(self, first: bool) -> Sequence[Split]:
        """Return the other source's splits."""
        return await self.source.discover_splits(first)

    async def restore(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """Restore the other source's positions: a cut position contains one."""
        return splits

    @property
    def discovery_interval_s(self) -> float | None:
        """The interval of the other source."""
        return self.source.discovery_interval_s

    async def describe_for_workers(self) -> Document:
        """Return the description of the other source."""
        return await self.source.describe_for_workers()

    async def answer(self, request: Document) -> Document:
        """Have the other source answer."""
        return await self.source.answer(request)

    async def on_checkpoint_complete(self, splits: Mapping[Split, Progress]) -> None:
        """Publish nothing."""

    async def close(self) -> None:
        """Close the other source."""
        await self.source.close()


@dataclass(frozen=True, slots=True)
class CutReaders:
    """The readers of another source, whose chunks are cut."""

    readers: ReaderFactory
    cut: Cut
    chance: random.Random

    @property
    def is_ordered(self) -> bool:
        """Whether the other source is ordered."""
        return self.readers.is_ordered

    def create_reader(self) -> SplitReader:
        """Create a reader that cuts the other's chunks."""
        return CutReading(self.readers.create_reader(), self.cut, self.chance)

    async def close(self) -> None:
        """Close the other readers."""
        await self.readers.close()


@dataclass(slots=True)
class CutReading:
    """A split reader that cuts the chunks of another one."""

    reading: SplitReader
    cut: Cut
    chance: random.Random
    waiting: deque[Chunk] = field(default_factory=deque)
    begun: dict[Split, tuple[Position, int]] = field(default_factory=dict)
    """The start of the next chunk of a split, and the number of its rows read before."""

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Assign the splits to the other reader."""
        for split, position in splits:
            self.begun[split] = (None, 0) if position is None else json.loads(str(position))
        self.reading.assign([(split, self.begun[split][0]) for split, _ in splits], last=last)

    def pause(self, splits: Collection[Split]) -> None:
        """Pause the splits in the other reader."""
        self.reading.pause(splits)

    def list_exhausted(self) -> Mapping[Split, float]:
        """Return the other reader's; it is called only when no piece waits."""
        return {} if self.waiting else self.reading.list_exhausted()

    def measure_lags(self) -> Mapping[Split, int]:
        """Return those of the other reader."""
        return self.reading.measure_lags()

    def measure_busy_s(self) -> float:
        """Return the time of the other reader."""
        return self.reading.measure_busy_s()

    async def fetch(self) -> SourceEvent | None:
        """Return the next piece."""
        if not self.waiting:
            arrival = await self.reading.fetch()
            if not isinstance(arrival, Chunk):
                return arrival
            self.waiting.extend(self._pieces(arrival))
        return self.waiting.popleft()

    def _pieces(self, chunk: Chunk) -> Iterator[Chunk]:
        begin, at = self.begun[chunk.split]
        for size in sizes(chunk.frame.height - at, self.cut, self.chance):
            rows = chunk.frame.slice(at, size)
            at += size
            yield replace(chunk, frame=rows, bad_records=(), position=json.dumps([begin, at]))
        self.begun[chunk.split] = chunk.position, 0
        yield replace(chunk, frame=chunk.frame.clear(), position=json.dumps([chunk.position, 0]))

    async def close(self) -> None:
        """Close the other reader."""
        await self.reading.close()
