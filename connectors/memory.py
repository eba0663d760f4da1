"""Rows from memory and into memory: for tests and simulations, not for pipelines of users.

It is a real connector behind the same contracts as the others: splits, positions, output that is
seen only when it is committed. A test names its data; the YAML refers to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.connectors.threaded import Threaded
from headrace.core.contracts import (
    Chunk,
    Connector,
    Reading,
    SinkSide,
    SourceSide,
    Surroundings,
    Writer,
)
from headrace.core.messages import Handle, Position, Split
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.values import Words
from headrace.core.plan import nodes
from headrace.core.types import Schema

if TYPE_CHECKING:
    import polars as pl


class MemoryOptions(Part):
    """Which data."""

    data: Words


@dataclass(slots=True)
class Memory:
    """Named data: splits of frames to read, and what has been committed."""

    inputs: dict[str, dict[str, list[pl.DataFrame]]] = field(default_factory=dict)
    """By name, the splits, each a list of chunks."""
    outputs: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    """By name, what was committed, in that order."""
    prepared: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    written: dict[str, list[tuple[float, pl.DataFrame]]] = field(default_factory=dict)
    """By name, what came to a writer and when, on the loop's clock."""

    def connector(self) -> Connector:
        """The connector over this data."""
        return Connector(
            "memory",
            "Rows of a test.",
            source=SourceSide(MemoryOptions, open=self._source),
            sink=SinkSide(MemoryOptions, open=self._sink),
        )

    def _source(self, source: nodes.Source, surroundings: Surroundings) -> MemorySource:
        options = source.options
        assert isinstance(options, MemoryOptions)
        return MemorySource(source, self.inputs[options.data], surroundings)

    def _sink(self, sink: nodes.Sink, schema: Schema, surroundings: Surroundings) -> MemorySink:
        options = sink.options
        assert isinstance(options, MemoryOptions)
        return MemorySink(self, str(options.data))


@dataclass(slots=True)
class MemorySource:
    """Reads the chunks of the splits."""

    source: nodes.Source
    splits: dict[str, list[pl.DataFrame]]
    surroundings: Surroundings

    def discover(self) -> Sequence[Split]:
        """Every split."""
        return [Split(self.source.name, name) for name in self.splits]

    @property
    def rediscover_s(self) -> None:
        """There are never others."""
        return None

    def reading(self) -> Reading:
        """Reads a chunk of each split in turn."""
        return Threaded(self, self.surroundings)

    def read(self, split: Split, position: Position) -> Iterator[Chunk]:
        """The chunks from that number on."""
        first = position if isinstance(position, int) else 0
        for number, frame in enumerate(self.splits[split.name][first:], first + 1):
            yield Chunk(split, frame.select(self.source.columns), number)


@dataclass(slots=True)
class MemorySink:
    """Commits whole batches under a name."""

    memory: Memory
    name: str

    def check(self) -> None:
        """Memory takes everything."""

    def writer(self, subtask: int) -> Writer:
        """A list of batches."""
        return MemoryWriter(self, subtask)

    def commit(self, handle: Handle) -> None:
        """What was prepared is output; a second time it is so already."""
        key = str(handle["key"])
        frames = self.memory.prepared.pop(key, [])
        self.memory.outputs.setdefault(self.name, []).extend(frames)

    def abort(self, handle: Handle) -> None:
        """What was prepared is gone."""
        self.memory.prepared.pop(str(handle["key"]), None)


@dataclass(slots=True)
class MemoryWriter:
    """The batches of one subtask."""

    sink: MemorySink
    subtask: int
    frames: list[pl.DataFrame] = field(default_factory=list)
    prepares: int = 0

    async def write(self, frame: pl.DataFrame) -> None:
        """Keep a batch."""
        self.frames.append(frame)
        written = self.sink.memory.written.setdefault(self.sink.name, [])
        written.append((asyncio.get_running_loop().time(), frame))

    async def prepare(self) -> Handle | None:
        """Lay the batches aside for a commit."""
        if not self.frames:
            return None
        key = f"{self.sink.name}/{self.subtask}/{self.prepares}"
        self.sink.memory.prepared[key] = self.frames
        self.frames = []
        self.prepares += 1
        return {"key": key}

    async def close(self) -> None:
        """Forget what was not prepared."""
        self.frames = []
