"""The contract of a source: split discovery, and readers of splits.

A source has two halves, which may be in two processes (`coordinator_link`). A `SourceCoordinator`
is opened once for an attempt and discovers splits. A `ReaderFactory` is opened in each process that
runs subtasks of the source, and creates a `SplitReader` for each. All are asynchronous, because
they wait. A `RecordReader` is synchronous and can be pickled, because Spark's executors use it
unchanged. A batch run reads by `BatchSplitReader`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.core.api.splits import Position, Progress, Split
from headrace.core.api.state import Document
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

DEFAULT_MAX_RECORD = 256 * 2**20
"""The largest record in bytes, unless `settings.max_record` is given."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that could not be read: the error, the record's position, and its text."""

    error: str
    position: Position
    raw: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive records of a split: their rows, the bad records, and the position after them."""

    split: Split
    frame: pl.DataFrame
    position: Position
    bad_records: tuple[BadRecord, ...] = ()
    identity: str | None = None
    """The identity of what was read up to the position, to compare with when reading resumes."""
    list_positions: Callable[[], Sequence[Position]] | None = field(
        default=None, compare=False, repr=False
    )
    """Returns the positions of the rows: it is called only if one of them turns out to be bad."""

    def locate_rows(self, rows: Sequence[int]) -> list[Position]:
        """Return the positions of these rows; None if the reader cannot tell."""
        found = self.list_positions() if rows and self.list_positions is not None else ()
        is_known = len(found) == self.frame.height
        return [found[row] if is_known else None for row in rows]

    def with_rows(
        self, frame: pl.DataFrame, passes: pl.Series, bad_records: Sequence[BadRecord]
    ) -> Chunk:
        """Return the chunk with these rows, made of those that pass, and with more bad records."""
        bad = (*self.bad_records, *bad_records)
        if passes.all():
            return replace(self, frame=frame, bad_records=bad)

        def list_positions() -> Sequence[Position]:
            return self.locate_rows(passes.arg_true().to_list())

        return replace(self, frame=frame, bad_records=bad, list_positions=list_positions)


@dataclass(frozen=True, slots=True)
class SplitFinished:
    """The end of a split: nothing more will ever be read from it."""

    split: Split


@dataclass(frozen=True, slots=True)
class SplitTime:
    """The event time of a split, apart from its rows: its watermark; None: it is idle.

    A watermark that is behind that of the rows changes nothing.
    """

    split: Split
    watermark_us: int | None


SourceEvent: TypeAlias = Chunk | SplitFinished | SplitTime
"""One result of fetching from a `SplitReader`."""


@dataclass(frozen=True, slots=True)
class ParquetFileInfo:
    """A Parquet file that any Parquet reader may read in place of its connector.

    Its columns have exactly the types that the source declares, and no nulls in columns declared
    not null.
    """

    path: str
    rows: int
    size: int
    modified_ns: int
    """The time of the last write, taken before the file was first opened."""


@dataclass(frozen=True, slots=True)
class BatchSplit:
    """Consecutive records of a split that one task of a batch run reads; it can be pickled.

    Every read yields the same rows, because both ends of the range are fixed beforehand.
    """

    split: Split
    record_range: object
    """The range of records, in the connector's own terms."""
    size: int
    """About how many bytes are to be read."""
    parquet: ParquetFileInfo | None = None
    """The whole file, if a reader other than the connector may read it as well."""


class BatchSplitReader(Protocol):
    """The reading side of a connector in a batch run."""

    async def plan_splits(self, count: int) -> Sequence[BatchSplit]:
        """Cut all that is there to read into batch splits: splits in order, each from its start.

        The result has about `count` batch splits or more, if there is enough to read. Raises
        ConnectorError.
        """
        ...

    def read(self, piece: BatchSplit) -> Iterator[tuple[int, Chunk]]:
        """Yield the chunks of a batch split in order, each with the number of its first record.

        Record numbers increase within a split, across all of its batch splits. The caller's thread
        blocks while it waits for a chunk; it runs no event loop.
        """
        ...


class RecordReader(Protocol):
    """Reads a split from a position to its end. Synchronous; it can be pickled."""

    def read(self, split: Split, position: Position) -> Iterator[Chunk]:
        """Yield the chunks in order; closing the iterator closes the files it has open."""
        ...


class SourceCoordinator(Protocol):
    """The coordinator's half of a source, opened once for an attempt."""

    @property
    def discovery_interval_s(self) -> float | None:
        """The interval at which to look for new splits; None: there will be no new ones."""
        ...

    async def discover_splits(self, first: bool) -> Sequence[Split]:
        """Return all splits that exist now, in the order to read them.

        `first`: the job, including the checkpoint it resumes from, has never discovered splits.
        """
        ...

    async def restore(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """Return the progress to resume from, given that of the restored checkpoint.

        Called before splits are discovered. Raises ConnectorError if reading cannot resume there.
        """
        ...

    async def describe_for_workers(self) -> Document:
        """Return what each `ReaderFactory` must know; called once splits are discovered."""
        ...

    async def answer(self, request: Document) -> Document:
        """Answer a request of a `ReaderFactory`. Raises ConnectorError."""
        ...

    async def on_checkpoint_complete(self, splits: Mapping[Split, Progress]) -> None:
        """Publish the progress of a complete checkpoint, for tools that monitor the job.

        A failure to publish it does not fail the job.
        """
        ...

    async def close(self) -> None:
        """End the attempt; all readers of the source are closed before."""
        ...


class ReaderFactory(Protocol):
    """The worker's half of a source: opened in a process for all subtasks of the source there."""

    @property
    def is_ordered(self) -> bool:
        """Whether splits are ordered by time: no split holds rows earlier than the split before."""
        ...

    def create_reader(self) -> SplitReader:
        """Create the reader of one subtask. It opens nothing before its first fetch."""
        ...

    async def close(self) -> None:
        """Release what the readers share; all of them are closed before."""
        ...


class SplitReader(Protocol):
    """Reads the splits of one subtask."""

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Add splits, each to be read from its position. Does not wait.

        `last`: no more splits will be assigned.
        """
        ...

    def pause(self, splits: Collection[Split]) -> None:
        """Pause exactly these splits until the next call; all others resume.

        Rows that are already being fetched may still arrive.
        """
        ...

    def list_exhausted(self) -> Mapping[Split, float]:
        """Return the splits with nothing to read for now, and since when, in the loop's time.

        A split that is paused, or whose rows are fetched but not yet taken, is not exhausted.
        """
        ...

    def measure_lags(self) -> Mapping[Split, int]:
        """Return the lag of each split for which it is known: the number of records left to read.

        Records that were fetched and not yet taken count as left.
        """
        ...

    def measure_busy_s(self) -> float:
        """Return the time spent reading and decoding so far, including work under way.

        Waiting for data does not count. The reader does one thing at a time.
        """
        ...

    async def fetch(self) -> SourceEvent | None:
        """Return the next chunk, or end, of any split; None: nothing will ever follow."""
        ...

    async def close(self) -> None:
        """Release files and connections."""
        ...
