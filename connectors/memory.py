"""Rows from memory and into memory: for tests and simulations, not for users' pipelines.

It is a real connector with the same contracts as the others: splits, positions, output that is
visible only once it is committed. A test names its data, and the YAML refers to the name.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Annotated, TypeAlias

from headrace.connectors.formats.opening import decoded
from headrace.connectors.formats.required import sound
from headrace.connectors.memory_table import MemoryTable, Shelf
from headrace.core.connector import Connector, LookupSide, SinkSide, SourceSide
from headrace.core.contracts import Arrival, Chunk, Ended, Piece, Reading, Surroundings, Writer
from headrace.core.messages import Handle, Position, Progress, Split
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.settings import positive
from headrace.core.pipeline.values import Flag, Words
from headrace.core.plan import nodes
from headrace.core.state import Document
from headrace.core.types import Schema

if TYPE_CHECKING:
    import polars as pl


Happening: TypeAlias = "pl.DataFrame | float"
"""Rows, or a pause in seconds."""


class MemoryOptions(Part):
    """The options: the name of the data, rediscovery interval, whether splits are ordered."""

    origin = ("data",)

    data: Words
    watch: Annotated[timedelta | None, positive] = None
    ordered: Flag = False


@dataclass(slots=True)
class Memory:
    """Named data: splits of frames to read, and what has been committed."""

    inputs: Mapping[str, Mapping[str, Sequence[Happening]]] = field(default_factory=dict)
    """The splits by the name of the data, each a list of chunks and pauses."""
    outputs: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    """Committed batches by the name of the data, in the order of their commits."""
    prepared: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)
    written: dict[str, list[tuple[float, pl.DataFrame]]] = field(default_factory=dict)
    """Batches that reached a writer, by name, each with its time on the loop's clock."""
    tables: Mapping[str, Shelf] = field(default_factory=dict)
    """Lookup tables by name."""

    def connector(self) -> Connector:
        """Build the connector that reads and writes this data."""
        return Connector(
            "memory",
            "Rows of a test.",
            source=SourceSide(MemoryOptions, open=self._source, pieces=self._pieces),
            sink=SinkSide(MemoryOptions, open=self._sink),
            lookup=LookupSide(MemoryOptions, open=self._table, look=self._look),
        )

    def _table(self, lookup: nodes.Lookup, surroundings: Surroundings) -> MemoryTable:
        options = lookup.options
        assert isinstance(options, MemoryOptions)
        return MemoryTable(lookup, self.tables[options.data])

    async def _look(self, lookup: nodes.Lookup, surroundings: Surroundings) -> str:
        return "it is there"

    def _source(self, source: nodes.Source, surroundings: Surroundings) -> MemorySource:
        options = source.options
        assert isinstance(options, MemoryOptions)
        every_s = options.watch.total_seconds() if options.watch else None
        return MemorySource(source, self.inputs[options.data], every_s, options.ordered)

    def _pieces(self, source: nodes.Source, surroundings: Surroundings) -> MemoryPieces:
        options = source.options
        assert isinstance(options, MemoryOptions)
        return MemoryPieces(source, self.inputs[options.data])

    def _sink(self, sink: nodes.Sink, schema: Schema, surroundings: Surroundings) -> MemorySink:
        options = sink.options
        assert isinstance(options, MemoryOptions)
        return MemorySink(self, str(options.data))


@dataclass(slots=True)
class MemorySource:
    """A `SourceConnector` over the named splits."""

    source: nodes.Source
    splits: Mapping[str, Sequence[Happening]]
    rediscover_s: float | None
    ordered: bool

    async def discover(self, first: bool) -> Sequence[Split]:
        """List every split."""
        return [Split(self.source.name, name) for name in self.splits]

    async def resumed(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """Return the stored positions unchanged."""
        return splits

    def reading(self) -> Reading:
        """Return a reader that takes a chunk of each split in turn."""
        return MemoryReading(self)

    async def published(self, splits: Mapping[Split, Progress]) -> None:
        """Do nothing: positions are not published anywhere."""

    async def close(self) -> None:
        """Do nothing: no resource is open."""


@dataclass(frozen=True, slots=True)
class MemoryPieces:
    """The batch reader of the splits: each split is one batch split, without its pauses."""

    source: nodes.Source
    splits: Mapping[str, Sequence[Happening]]

    async def pieces(self, many: int) -> Sequence[Piece]:
        """Return one batch split for each split."""
        return [Piece(Split(self.source.name, name), None, 0) for name in self.splits]

    def read(self, piece: Piece) -> Iterator[tuple[int, Chunk]]:
        """Yield the split's frames, each with the number of its first row."""
        schema, row = decoded(self.source), 0
        for at, happening in enumerate(self.splits[piece.split.name]):
            if not isinstance(happening, float | int):
                rows, bad = sound(happening.select(self.source.columns), schema, row)
                yield row, Chunk(piece.split, rows, at + 1, bad)
                row += happening.height


@dataclass(slots=True)
class _Open:
    """A split being read: its next event, and the time from which that event is due."""

    split: Split
    at: int
    due: float
    rows: int = 0
    dry_since: float = 0.0


class MemoryReading:
    """A `SplitReader` that returns a chunk of each split in turn, skipping splits in a pause."""

    def __init__(self, source: MemorySource) -> None:
        self._source = source
        self._schema = decoded(source.source)
        self._open: deque[_Open] = deque()
        self._last = False
        self._held: Collection[Split] = ()
        self._changed = asyncio.Event()

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Add splits to read."""
        now = asyncio.get_running_loop().time()
        for split, position in splits:
            at = position if isinstance(position, int) else 0
            self._open.append(_Open(split, at, now, self._rows(split, at)))
        self._last = last
        self._changed.set()

    def _rows(self, split: Split, at: int) -> int:
        """Count the rows before that event."""
        before = self._source.splits[split.name][:at]
        return sum(each.height for each in before if not isinstance(each, float | int))

    def hold(self, splits: Collection[Split]) -> None:
        """Return nothing of these splits until the next call."""
        self._held = splits
        self._changed.set()

    def exhausted(self) -> Mapping[Split, float]:
        """Return the splits that are in a pause, each with the time it began."""
        now = asyncio.get_running_loop().time()
        paused = [one for one in self._open if one.due > now and one.split not in self._held]
        return {one.split: one.dry_since for one in paused}

    def lags(self) -> Mapping[Split, int]:
        """Count the rows left in each split."""
        return {
            one.split: self._rows(one.split, len(self._source.splits[one.split.name])) - one.rows
            for one in self._open
        }

    def worked_s(self) -> float:
        """Return 0: rows are already made."""
        return 0.0

    async def next(self) -> Arrival | None:
        """Return the next chunk or end of a split, waiting for the earliest one due."""
        now = asyncio.get_running_loop().time
        while self._open or not self._last:
            for _ in range(len(self._open)):
                one = self._open.popleft()
                arrival = self._of(one, now())
                if not isinstance(arrival, Ended):
                    self._open.append(one)
                if arrival is not None:
                    return arrival
            due = (one.due for one in self._open if one.split not in self._held)
            await self._change(min(due, default=None))
        return None

    def _of(self, one: _Open, now: float) -> Arrival | None:
        """Return the next event of a split if it is due now."""
        happenings = self._source.splits[one.split.name]
        while one.due <= now and one.split not in self._held:
            if one.at == len(happenings):
                return Ended(one.split)
            happening = happenings[one.at]
            one.at += 1
            if not isinstance(happening, float | int):
                one.due = now
                return self._chunk(one, happening)
            one.dry_since, one.due = one.due, one.due + happening
        return None

    def _chunk(self, one: _Open, frame: pl.DataFrame) -> Chunk:
        rows, bad = sound(frame.select(self._source.source.columns), self._schema, one.rows)
        one.rows += frame.height
        return Chunk(one.split, rows, one.at, bad)

    async def _change(self, until: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._changed.wait()
        self._changed.clear()

    async def close(self) -> None:
        """Do nothing: no resource is open."""


@dataclass(slots=True)
class MemorySink:
    """A `SinkConnector` that commits whole batches under a name."""

    memory: Memory
    name: str

    async def check(self) -> None:
        """Remove output that was prepared and not committed; memory accepts any rows."""
        for key in [key for key in self.memory.prepared if key.startswith(f"{self.name}/")]:
            del self.memory.prepared[key]

    def writer(self, subtask: int, begun: Sequence[Document] = ()) -> Writer:
        """Return a writer that collects a list of batches."""
        return MemoryWriter(self, subtask)

    async def commit(self, handle: Handle) -> None:
        """Turn prepared batches into output; a second commit of the handle changes nothing."""
        key = str(handle["key"])
        frames = self.memory.prepared.pop(key, [])
        self.memory.outputs.setdefault(self.name, []).extend(frames)

    async def abort(self, handle: Handle) -> None:
        """Remove prepared batches."""
        self.memory.prepared.pop(str(handle["key"]), None)

    async def close(self) -> None:
        """Do nothing: no resource is open."""


@dataclass(slots=True)
class MemoryWriter:
    """A `SinkWriter` that holds the batches of one subtask."""

    sink: MemorySink
    subtask: int
    frames: list[pl.DataFrame] = field(default_factory=list)

    async def write(self, frame: pl.DataFrame) -> None:
        """Add a batch."""
        self.frames.append(frame)
        written = self.sink.memory.written.setdefault(self.sink.name, [])
        written.append((asyncio.get_running_loop().time(), frame))

    async def prepare(self) -> Handle | None:
        """Set the batches aside for a commit."""
        if not self.frames:
            return None
        key = f"{self.sink.name}/{self.subtask}/{next(self.sink.memory.numbers)}"
        self.sink.memory.prepared[key] = self.frames
        self.frames = []
        return {"key": key}

    def kept(self) -> Document | None:
        """Return None: keys are unique, so the next writer needs no state."""
        return None

    async def close(self) -> None:
        """Drop batches that were not prepared."""
        self.frames = []
