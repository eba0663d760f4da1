"""Rows from memory and into memory: for tests and simulations, not for users' pipelines.

It is a real connector with the same contracts as the others: splits, positions, output that is
visible only once it is committed. A test names its data, and the YAML refers to the name.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from headrace.connectors.formats.bad_records import split_null_violations
from headrace.connectors.formats.factories import list_decoded_columns
from headrace.connectors.memory_lookup import LookupTableData, MemoryLookupTable
from headrace.core.api.coordinator_link import StandaloneCoordinator
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkWriter
from headrace.core.api.sources import BatchSplit, Chunk, SourceEvent, SplitFinished, SplitReader
from headrace.core.api.splits import Handle, Position, Progress, Split
from headrace.core.api.state import Document
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.values import Flag, Words, choice_of, positive_duration
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, LookupSide, SinkSide, SourceSide
from headrace.core.types.change_columns import ChangeForm
from headrace.core.types.data_types import Schema
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


MemoryEvent: TypeAlias = "pl.DataFrame | float"
"""Rows, or a pause in seconds."""


class MemoryOptions(DocumentModel):
    """The options: the name of the data, rediscovery interval, whether splits are ordered."""

    origin = ("data",)

    data: Words
    watch: Annotated[timedelta | None, positive_duration] = None
    ordered: Flag = False


class MemorySinkOptions(DocumentModel):
    """The options of a sink: the name of the data, and the form of changes."""

    origin = ("data",)

    data: Words
    changelog: Annotated[Literal["last", "full"], choice_of("last", "full")] = "last"


def _get_change_form(options: DocumentModel, format: str) -> ChangeForm | None:
    assert isinstance(options, MemorySinkOptions)
    return "full" if options.changelog == "full" else None


@dataclass(slots=True)
class InMemoryData:
    """Named data: splits of frames to read, and what has been committed."""

    inputs: Mapping[str, Mapping[str, Sequence[MemoryEvent]]] = field(default_factory=dict)
    """The splits by the name of the data, each a list of chunks and pauses."""
    outputs: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    """Committed batches by the name of the data, in the order of their commits."""
    prepared_batches: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    handle_numbers: Iterator[int] = field(default_factory=count)
    write_times: dict[str, list[tuple[float, pl.DataFrame]]] = field(default_factory=dict)
    """Batches that reached a writer, by name, each with its time on the loop's clock."""
    tables: Mapping[str, LookupTableData] = field(default_factory=dict)
    """Lookup tables by name."""

    def build_connector(self) -> Connector:
        """Build the connector that reads and writes this data."""
        return Connector(
            "memory",
            "Rows of a test.",
            source=SourceSide(
                MemoryOptions,
                open=self._open_source,
                open_readers=lambda source, run_context, _: self._open_source(source, run_context),
                open_batch=self._open_batch,
            ),
            sink=SinkSide(
                MemorySinkOptions,
                get_change_form=_get_change_form,
                open=self._open_sink,
                open_writers=lambda sink, schema, run_context, _: self._open_sink(
                    sink, schema, run_context
                ),
                takes_removed_rows=True,
            ),
            lookup=LookupSide(
                MemoryOptions, open=self._open_table, describe_external=self._describe_table
            ),
        )

    def _open_table(self, lookup: nodes.Lookup, run_context: RunContext) -> MemoryLookupTable:
        options = lookup.options
        assert isinstance(options, MemoryOptions)
        return MemoryLookupTable(lookup, self.tables[options.data])

    async def _describe_table(self, lookup: nodes.Lookup, run_context: RunContext) -> str:
        return "it is there"

    def _open_source(self, source: nodes.Source, run_context: RunContext) -> MemorySource:
        options = source.options
        assert isinstance(options, MemoryOptions)
        every_s = options.watch.total_seconds() if options.watch else None
        return MemorySource(source, self.inputs[options.data], every_s, options.ordered)

    def _open_batch(self, source: nodes.Source, run_context: RunContext) -> MemoryBatchReader:
        options = source.options
        assert isinstance(options, MemoryOptions)
        return MemoryBatchReader(source, self.inputs[options.data])

    def _open_sink(self, sink: nodes.Sink, schema: Schema, run_context: RunContext) -> MemorySink:
        options = sink.options
        assert isinstance(options, MemorySinkOptions)
        return MemorySink(self, str(options.data))


@dataclass(slots=True)
class MemorySource(StandaloneCoordinator):
    """Both halves of a source over the named splits."""

    source: nodes.Source
    splits: Mapping[str, Sequence[MemoryEvent]]
    discovery_interval_s: float | None
    is_ordered: bool

    async def discover_splits(self, first: bool) -> Sequence[Split]:
        """List every split."""
        return [Split(self.source.name, name) for name in self.splits]

    async def restore(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """Return the stored positions unchanged."""
        return splits

    def create_reader(self) -> SplitReader:
        """Return a reader that takes a chunk of each split in turn."""
        return MemorySplitReader(self)

    async def on_checkpoint_complete(self, splits: Mapping[Split, Progress]) -> None:
        """Do nothing: positions are not published anywhere."""

    async def close(self) -> None:
        """Do nothing: no resource is open."""


@dataclass(frozen=True, slots=True)
class MemoryBatchReader:
    """The batch reader of the splits: each split is one batch split, without its pauses."""

    source: nodes.Source
    splits: Mapping[str, Sequence[MemoryEvent]]

    async def plan_splits(self, many: int) -> Sequence[BatchSplit]:
        """Return one batch split for each split."""
        return [BatchSplit(Split(self.source.name, name), None, 0) for name in self.splits]

    def read(self, piece: BatchSplit) -> Iterator[tuple[int, Chunk]]:
        """Yield the split's frames, each with the number of its first row."""
        schema, row = list_decoded_columns(self.source), 0
        for at, happening in enumerate(self.splits[piece.split.name]):
            if not isinstance(happening, float | int):
                rows, bad = split_null_violations(
                    happening.select(self.source.decoded_columns), schema, row
                )
                yield row, Chunk(piece.split, rows, at + 1, bad)
                row += happening.height


@dataclass(slots=True)
class _OpenSplit:
    """A split being read: its next event, and the time from which that event is due."""

    split: Split
    next_event: int
    due_s: float
    row_count: int = 0
    idle_since_s: float = 0.0


class MemorySplitReader:
    """A `SplitReader` that returns a chunk of each split in turn, skipping splits in a pause."""

    def __init__(self, source: MemorySource) -> None:
        self._source = source
        self._schema = list_decoded_columns(source.source)
        self._open: deque[_OpenSplit] = deque()
        self._last = False
        self._held: Collection[Split] = ()
        self._changed = asyncio.Event()

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Add splits to read."""
        now = asyncio.get_running_loop().time()
        for split, position in splits:
            at = position if isinstance(position, int) else 0
            self._open.append(_OpenSplit(split, at, now, self._count_rows(split, at)))
        self._last = last
        self._changed.set()

    def _count_rows(self, split: Split, at: int) -> int:
        """Count the rows before that event."""
        before = self._source.splits[split.name][:at]
        return sum(each.height for each in before if not isinstance(each, float | int))

    def pause(self, splits: Collection[Split]) -> None:
        """Return nothing of these splits until the next call."""
        self._held = splits
        self._changed.set()

    def list_exhausted(self) -> Mapping[Split, float]:
        """Return the splits that are in a pause, each with the time it began."""
        now = asyncio.get_running_loop().time()
        paused = [one for one in self._open if one.due_s > now and one.split not in self._held]
        return {one.split: one.idle_since_s for one in paused}

    def measure_lags(self) -> Mapping[Split, int]:
        """Count the rows left in each split."""
        return {
            one.split: self._count_rows(one.split, len(self._source.splits[one.split.name]))
            - one.row_count
            for one in self._open
        }

    def measure_busy_s(self) -> float:
        """Return 0: rows are already made."""
        return 0.0

    async def fetch(self) -> SourceEvent | None:
        """Return the next chunk or end of a split, waiting for the earliest one due."""
        now = asyncio.get_running_loop().time
        while self._open or not self._last:
            for _ in range(len(self._open)):
                one = self._open.popleft()
                arrival = self._next_event(one, now())
                if not isinstance(arrival, SplitFinished):
                    self._open.append(one)
                if arrival is not None:
                    return arrival
            due = (one.due_s for one in self._open if one.split not in self._held)
            await self._wait_for_change(min(due, default=None))
        return None

    def _next_event(self, one: _OpenSplit, now: float) -> SourceEvent | None:
        """Return the next event of a split if it is due now."""
        happenings = self._source.splits[one.split.name]
        while one.due_s <= now and one.split not in self._held:
            if one.next_event == len(happenings):
                return SplitFinished(one.split)
            happening = happenings[one.next_event]
            one.next_event += 1
            if not isinstance(happening, float | int):
                one.due_s = now
                return self._make_chunk(one, happening)
            one.idle_since_s, one.due_s = one.due_s, one.due_s + happening
        return None

    def _make_chunk(self, one: _OpenSplit, frame: pl.DataFrame) -> Chunk:
        rows, bad = split_null_violations(
            frame.select(self._source.source.decoded_columns), self._schema, one.row_count
        )
        one.row_count += frame.height
        return Chunk(one.split, rows, one.next_event, bad)

    async def _wait_for_change(self, until: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._changed.wait()
        self._changed.clear()

    async def close(self) -> None:
        """Do nothing: no resource is open."""


@dataclass(slots=True)
class MemorySink(StandaloneCoordinator):
    """Both halves of a sink that commits whole batches under a name."""

    memory: InMemoryData
    name: str

    async def check(self) -> None:
        """Remove output that was prepared and not committed; memory accepts any rows."""
        for key in [key for key in self.memory.prepared_batches if key.startswith(f"{self.name}/")]:
            del self.memory.prepared_batches[key]

    def create_writer(self, subtask: int, begun: Sequence[Document] = ()) -> SinkWriter:
        """Return a writer that collects a list of batches."""
        return MemoryWriter(self, subtask)

    async def commit(self, handle: Handle) -> None:
        """Turn prepared batches into output; a second commit of the handle changes nothing."""
        key = str(handle["key"])
        frames = self.memory.prepared_batches.pop(key, [])
        self.memory.outputs.setdefault(self.name, []).extend(frames)

    def on_commits_recorded(self) -> None:
        """Do nothing: no resource waits for it."""

    async def abort(self, handle: Handle) -> None:
        """Remove prepared batches."""
        self.memory.prepared_batches.pop(str(handle["key"]), None)

    async def end_lost_writers(self, subtasks: Collection[int]) -> None:
        """Do nothing: all memory of another process is gone with it."""

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
        written = self.sink.memory.write_times.setdefault(self.sink.name, [])
        written.append((asyncio.get_running_loop().time(), frame))

    async def prepare(self) -> Handle | None:
        """Set the batches aside for a commit."""
        if not self.frames:
            return None
        key = f"{self.sink.name}/{self.subtask}/{next(self.sink.memory.handle_numbers)}"
        self.sink.memory.prepared_batches[key] = self.frames
        self.frames = []
        return {"key": key}

    def snapshot_state(self) -> Document | None:
        """Return None: keys are unique, so the next writer needs no state."""
        return None

    async def close(self) -> None:
        """Drop batches that were not prepared."""
        self.frames = []
