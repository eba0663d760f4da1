"""A source that a test feeds while the job runs; what was fed outlives the process."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.coordinator_link import CoordinatorLink, StandaloneCoordinator
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import (
    BadRecord,
    BatchSplit,
    Chunk,
    SourceEvent,
    SplitFinished,
    SplitReader,
    SplitTime,
)
from headrace.core.api.splits import Position, Progress, Split
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, SourceSide
from headrace.core.types.elements import MIN_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

FED = "fed"
"""The name of the connector."""
TURNS_BETWEEN = 5
"""The turns of the loop between two events of a reader that does not gather them."""


class FedOptions(DocumentModel):
    """There are no options: the source's name says what it reads."""


@dataclass(frozen=True, slots=True)
class FedTime:
    """A watermark of a split; None: it is idle."""

    watermark_us: int | None


FedEvent: TypeAlias = "pl.DataFrame | BadRecord | FedTime"


@dataclass(slots=True)
class FedInput:
    """The events of a source, by split; `is_gathered`: events at the same time become one batch."""

    splits: tuple[list[FedEvent], ...]
    no_rows: pl.DataFrame
    """A frame with its columns."""
    is_gathered: bool = True
    is_ended: bool = False
    _readers: list[FedReader] = field(default_factory=list)

    def feed(self, split: int, events: Sequence[FedEvent]) -> None:
        """Add events of a split."""
        self.splits[split].extend(events)
        self._wake_readers()

    def end(self) -> None:
        """End all splits."""
        self.is_ended = True
        self._wake_readers()

    def open_reader(self, source: nodes.Source) -> FedReader:
        """Return a reader, which is woken until it is closed."""
        reader = FedReader(source.name, self)
        self._readers.append(reader)
        return reader

    def remove_reader(self, reader: FedReader) -> None:
        """Forget a closed reader."""
        self._readers.remove(reader)

    def _wake_readers(self) -> None:
        for reader in self._readers:
            reader.wake()


@dataclass(frozen=True, slots=True)
class FedSource(StandaloneCoordinator):
    """Both halves of the source."""

    source: nodes.Source
    input: FedInput
    discovery_interval_s: float | None = None
    is_ordered: bool = False

    async def discover_splits(self, first: bool) -> Sequence[Split]:
        """List every split."""
        return [Split(self.source.name, str(at)) for at in range(len(self.input.splits))]

    async def restore(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """Return the stored positions: what was fed is still there."""
        return splits

    def create_reader(self) -> SplitReader:
        """Return a reader of some splits."""
        return self.input.open_reader(self.source)

    async def on_checkpoint_complete(self, splits: Mapping[Split, Progress]) -> None:
        """Do nothing: positions are not published anywhere."""

    async def close(self) -> None:
        """Do nothing: no resource is open."""


@dataclass(frozen=True, slots=True)
class FedBatchReader:
    """The reader of a batch run: everything that was fed, without the times between."""

    source: nodes.Source
    input: FedInput

    async def plan_splits(self, many: int) -> Sequence[BatchSplit]:
        """Return one batch split for each split."""
        names = (str(at) for at in range(len(self.input.splits)))
        return [BatchSplit(Split(self.source.name, name), None, 0) for name in names]

    def read(self, piece: BatchSplit) -> Iterator[tuple[int, Chunk]]:
        """Yield the events of a split, each with the number of its first row."""
        row = 0
        for at, event in enumerate(self.input.splits[int(piece.split.name)]):
            if isinstance(event, FedTime):
                continue
            if isinstance(event, BadRecord):
                yield row, Chunk(piece.split, self.input.no_rows, at + 1, (event,))
            else:
                yield row, Chunk(piece.split, event, at + 1)
                row += event.height


class FedReader:
    """A `SplitReader` that returns the next event of each split in turn, as they are fed."""

    def __init__(self, source: str, input: FedInput) -> None:
        self._source = source
        self._input = input
        self._open: deque[tuple[Split, int]] = deque()
        """The splits to read, each with the number of its next event."""
        self._last_read_s: dict[Split, float] = {}
        """The time at which the last event of a split was read."""
        self._fed_counts: dict[Split, int] = {}
        """The number of events that each split had when it was assigned."""
        self._is_last = False
        self._paused: Collection[Split] = ()
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Look for new events."""
        self._changed.set()

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Add splits to read."""
        for split, position in splits:
            self._open.append((split, position if isinstance(position, int) else 0))
            self._last_read_s[split] = asyncio.get_running_loop().time()
            self._fed_counts[split] = len(self._get_events(split))
        self._is_last = last
        self.wake()

    def pause(self, splits: Collection[Split]) -> None:
        """Return nothing of these splits until the next call."""
        self._paused = splits
        self.wake()

    def list_exhausted(self) -> Mapping[Split, float]:
        """Return the splits of which everything was read; a test may say that one is idle."""
        return {
            split: at_s
            for split, at_s in self._last_read_s.items()
            if (split, len(self._get_events(split))) in self._open and split not in self._paused
        }

    def measure_lags(self) -> Mapping[Split, int]:
        """Return the number of events left in each split."""
        return {split: len(self._get_events(split)) - at for split, at in self._open}

    def measure_busy_s(self) -> float:
        """Return 0: rows are already made."""
        return 0.0

    async def fetch(self) -> SourceEvent | None:
        """Return the next event of any split, waiting until there is one."""
        for _ in range(0 if self._input.is_gathered else TURNS_BETWEEN):
            await asyncio.sleep(0)
        while self._open or not self._is_last:
            for _ in range(len(self._open)):
                split, at = self._open.popleft()
                event = self._read_event(split, at)
                if not isinstance(event, SplitFinished):
                    self._open.append((split, at if event is None else at + 1))
                if event is not None:
                    return event
            await self._changed.wait()
            self._changed.clear()
        return None

    def _get_events(self, split: Split) -> list[FedEvent]:
        return self._input.splits[int(split.name)]

    def _read_event(self, split: Split, at: int) -> SourceEvent | None:
        events = self._get_events(split)
        if split in self._paused:
            return None
        if at == len(events):
            return SplitFinished(split) if self._input.is_ended else None
        event = events[at]
        is_idle = isinstance(event, FedTime) and event.watermark_us is None
        if is_idle and at + 1 < self._fed_counts[split]:
            # It is read again after a restart, and the split has ceased to be idle since.
            event, is_idle = FedTime(MIN_WATERMARK_US), False
        self._last_read_s[split] = -math.inf if is_idle else asyncio.get_running_loop().time()
        match event:
            case FedTime(watermark_us):
                return SplitTime(split, watermark_us)
            case BadRecord():
                return Chunk(split, self._input.no_rows, at + 1, (event,))
        return Chunk(split, event, at + 1)

    async def close(self) -> None:
        """Stop looking for new events."""
        self._input.remove_reader(self)


def build_fed_connector(inputs: Mapping[str, FedInput]) -> Connector:
    """Build the connector of the sources with these inputs."""

    def open_source(source: nodes.Source, context: RunContext) -> FedSource:
        return FedSource(source, inputs[source.name])

    def open_readers(source: nodes.Source, context: RunContext, link: CoordinatorLink) -> FedSource:
        return FedSource(source, inputs[source.name])

    def open_batch(source: nodes.Source, context: RunContext) -> FedBatchReader:
        return FedBatchReader(source, inputs[source.name])

    side = SourceSide(
        FedOptions, open=open_source, open_readers=open_readers, open_batch=open_batch
    )
    return Connector(FED, "Rows that a test feeds.", source=side)
