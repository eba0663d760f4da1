"""The runtime contracts of a connector: the protocols that other folders implement for core.

A pipeline document refers to a connector by its record (`Connector`); the record opens the objects
described here. Reading a source takes a `SourceConnector`, one for an attempt, and a `SplitReader`
for each subtask; writing takes a `SinkConnector` and a `SinkWriter` for each subtask. These four
are asynchronous, because they wait. A `RecordReader` and an `Encoder` are synchronous and can be
pickled, because Spark's executors use them unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.core.messages import Handle, Position, Progress, Split
from headrace.core.state import Document

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.bench import KernelExecutor


class JobNotes(Protocol):
    """Small documents that a source or sink stores about its job, by name; no crash loses them.

    Unlike the contents of a checkpoint, a note is durable as soon as it is written, and it outlives
    the checkpoints: a job that starts from scratch still finds it. Both methods wait for a disk.
    """

    def read(self, name: str) -> Document | None:
        """Return the document written last under the name, or None. Raises SnapshotError."""
        ...

    def write(self, name: str, document: Document) -> None:
        """Replace the document of that name; durable on return. Raises SnapshotError."""
        ...


class NoJobNotes:
    """The notes of a run that stores nothing."""

    def read(self, name: str) -> Document | None:
        """Return None."""
        return None

    def write(self, name: str, document: Document) -> None:
        """Drop the document."""


@dataclass(frozen=True, slots=True)
class CommitTiming:
    """The times that bound how long prepared output may wait for its commit."""

    interval_s: float | None
    """The interval between checkpoints; None: the only checkpoint is taken at the end."""
    timeout_s: float
    """The longest time that a checkpoint may take."""
    max_restart_pause_s: float
    """The longest pause before the next attempt."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run that a source, sink or lookup table is opened for."""

    folder: Path
    """The folder of the pipeline; relative paths start there."""
    job_id: str
    """The job's id: 32 hexadecimal digits, made at its first start."""
    kernel_executor: KernelExecutor
    """Runs work that takes long or waits for a disk."""
    row_limit: int | None = None
    """The number of rows to read of each source; None: all."""
    request_stop: Callable[[], None] = lambda: None
    """Request the end of the job, as a user would: its output is no longer wanted."""
    snapshot_executor: KernelExecutor | None = None
    """Runs the writing of snapshots, which may take minutes and must not delay kernels."""
    is_resumed: bool = False
    """Whether the job resumes where an earlier one was left: its output is the rest of that job's
    output, so a sink must not replace what the earlier job wrote."""
    pipeline_name: str = ""
    """The pipeline's name."""
    notes: JobNotes = field(default_factory=NoJobNotes)
    notify_user: Callable[[str], None] = lambda line: None
    """Show the user one line of information; the run does not wait for an answer."""
    commit_timing: CommitTiming | None = None
    """The times between commits; None: no checkpoints are taken, output is committed at the end."""


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


@dataclass(frozen=True, slots=True)
class SplitFinished:
    """The end of a split: nothing more will ever be read from it."""

    split: Split


SourceEvent: TypeAlias = Chunk | SplitFinished
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


class Encoder(Protocol):
    """Encodes rows as bytes, each row ending in a line end. It can be pickled."""

    def encode(self, frame: pl.DataFrame) -> bytes:
        """Return the bytes of the rows."""
        ...


class SourceConnector(Protocol):
    """The reading side of a connector in a run. One is shared by all subtasks of an attempt."""

    @property
    def discovery_interval_s(self) -> float | None:
        """The interval at which to look for new splits; None: there will be no new ones."""
        ...

    @property
    def is_ordered(self) -> bool:
        """Whether splits are ordered by time: no split holds rows earlier than the split before."""
        ...

    async def discover_splits(self, first: bool) -> Sequence[Split]:
        """Return all splits that exist now, in the order to read them.

        `first`: the job, including the checkpoint it resumes from, has never discovered splits.
        """
        ...

    async def restore(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """Return the progress to resume from, given that of the restored checkpoint."""
        ...

    def create_reader(self) -> SplitReader:
        """Create the reader of one subtask. It opens nothing before its first fetch."""
        ...

    async def on_checkpoint_complete(self, splits: Mapping[Split, Progress]) -> None:
        """Publish the progress of a complete checkpoint, for tools that monitor the job.

        A failure to publish it does not fail the job.
        """
        ...

    async def close(self) -> None:
        """End the attempt; all readers of the source are closed before."""
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


class SinkConnector(Protocol):
    """The writing side of a connector in a run. One is shared by all subtasks of an attempt.

    Output is committed in two phases: at a barrier each writer prepares its output; when the
    checkpoint is complete, the sink commits all that was prepared for it.
    """

    async def check(self) -> None:
        """Check that output can be written, and remove what earlier attempts left uncommitted.

        Called before anything is read. By then all output of the restored checkpoint has been
        committed, and no commit of it will be repeated; other prepared output of this job belongs
        to no checkpoint. Raises ConnectorError.
        """
        ...

    def create_writer(self, subtask: int, states: Sequence[Document] = ()) -> SinkWriter:
        """Create the writer of one subtask.

        `states` has the states of all writers in the restored checkpoint; there may have been more
        or fewer of them than there are subtasks now.
        """
        ...

    async def commit(self, handle: Handle) -> None:
        """Make prepared output visible. Idempotent: a commit may be repeated after a failure.

        The writer of the output may be closed already. Before the next barrier arrives, all output
        of the checkpoint has been committed, and no commit of it will be repeated.
        """
        ...

    async def abort(self, handle: Handle) -> None:
        """Remove prepared output that must not become visible."""
        ...

    async def close(self) -> None:
        """End the attempt; all writers of the sink are closed before."""
        ...


class SinkWriter(Protocol):
    """Writes the output of one subtask, which stays invisible until it is committed."""

    async def write(self, frame: pl.DataFrame) -> None:
        """Write rows. A batch of changelog rows has the column `_delete`."""
        ...

    async def prepare(self) -> Handle | None:
        """Make all written rows durable; return the handle to commit them, None without rows.

        `prepare` may be called several times before the first commit; handles are committed in the
        order in which they were prepared.
        """
        ...

    def snapshot_state(self) -> Document | None:
        """Return the state that the writers of the next attempt start with; follows `prepare`."""
        ...

    async def close(self) -> None:
        """Drop the rows written since the last `prepare`, and release all resources."""
        ...


class LookupTable(Protocol):
    """The table of a lookup in a run. One is shared by all subtasks of its step."""

    @property
    def max_keys_per_call(self) -> int:
        """The largest number of keys in a call of `find`."""
        ...

    async def check(self) -> None:
        """Check that the table exists with all its columns. Raises ConnectorError."""
        ...

    async def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of these keys, which are distinct and not null.

        The first column is `LOOKUP_KEY_INDEX`, the index in `keys` of each row's key; then come the
        added columns, with their types. Keys without a row are left out. The call is cancelled when
        it takes too long. Raises ConnectorError.
        """
        ...

    async def close(self) -> None:
        """Release files and connections."""
        ...


LOOKUP_KEY_INDEX = "__at"
"""The column with the index of each row's key, in the result of a lookup table."""
ROW_ERROR = "__error"
"""The optional column with the error of each row, null for valid rows, in such a result."""


class ConnectorError(Exception):
    """An external system failed or refused: what failed, where, and a hint. Not a bug in headrace.

    `exit_status` is 2 if the pipeline names something that does not exist, 3 if existing data
    forbids the run, 1 otherwise. `final`: another attempt would fail in the same way.
    """

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        split: str | None = None,
        position: Position = None,
        exit_status: int = 1,
        final: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.split = split
        self.position = position
        self.exit_status = exit_status
        self.is_final = final
