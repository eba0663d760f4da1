"""What the other folders implement, so that core knows none of them: what runs of a connector.

The document knows it by its record (`connector`). Behind that are two small protocols a side. A
reader and an encoder are synchronous and can be pickled, because Spark's executors use them
unchanged; a source and a writer are asynchronous, because they wait.
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

    from headrace.core.bench import Bench


class Notes(Protocol):
    """What a source or sink notes about a job, so that no crash forgets it; by name.

    Unlike what a checkpoint says, it is there as soon as it was written, and outlives the
    checkpoints: whoever begins the job anew finds it. It waits for a disk.
    """

    def read(self, name: str) -> Document | None:
        """What was written last, if anything was. Raises SnapshotError."""
        ...

    def write(self, name: str, document: Document) -> None:
        """Note it in the place of what was there; it is durable then. Raises SnapshotError."""
        ...


class NoNotes:
    """Of a run that keeps nothing."""

    def read(self, name: str) -> Document | None:
        """Nothing."""
        return None

    def write(self, name: str, document: Document) -> None:
        """Forget it."""


@dataclass(frozen=True, slots=True)
class Commits:
    """When output that was prepared is committed: at the next checkpoint, if all goes well."""

    every_s: float | None
    """How long it is from one checkpoint to the next; None: only the end takes one."""
    timeout_s: float
    """How long a checkpoint may take."""
    restart_s: float
    """The longest pause before another attempt."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a source or sink is told about the run that it is part of."""

    folder: Path
    """The folder of the pipeline: relative paths start there."""
    job: str
    """The job's id: 32 hexadecimal digits, made at its first start."""
    bench: Bench
    """Where what takes long, or waits for a disk, is done."""
    limit: int | None = None
    """How many rows to read of a source, in all."""
    stop: Callable[[], None] = lambda: None
    """Ask for the end of the job, as a user would: nobody wants its output any more."""
    archive: Bench | None = None
    """Where snapshots are written: that may take minutes, and must keep no kernel waiting."""
    continues: bool = False
    """Whether the job is to go on where another one was left: then a sink may not have its output
    in the place of that one's, of which it would be the rest."""
    pipeline: str = ""
    """The pipeline's name."""
    notes: Notes = field(default_factory=NoNotes)
    tell: Callable[[str], None] = lambda line: None
    """Tell the user something, in a line, that goes on without them."""
    commits: Commits | None = None
    """When output is committed; None: at the end, for no checkpoints are taken."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that could not be read: what was wrong, where it starts, and its text."""

    error: str
    position: Position
    raw: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some records of a split: the rows, what could not be read, and where reading goes on."""

    split: Split
    frame: pl.DataFrame
    position: Position
    bad: tuple[BadRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """A split has come to its end: nothing more will ever be read of it."""

    split: Split


Arrival: TypeAlias = Chunk | Ended
"""What comes of a reading."""


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """A file of Parquet that means the same to whoever reads it.

    Its columns are just of the types that the source declares, and null nowhere where they must not
    be.
    """

    path: str
    rows: int
    size: int
    changed_ns: int
    """When it was written last, as it was seen before anybody looked into it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of a split that follow each other, which a batch reads at once; it can be pickled.

    Whoever reads it, and as often as that may be, gets the same rows: where it begins and ends was
    settled before.
    """

    split: Split
    at: object
    """Which records of it, as its connector knows them."""
    size: int
    """About how many bytes there are to be read."""
    parquet: ParquetFile | None = None
    """The whole file, where others than its connector may read it as well."""


class PieceReader(Protocol):
    """The reading side of a connector within a batch."""

    async def pieces(self, many: int) -> Sequence[Piece]:
        """All that is there to be read, the splits in their order, and each from head to end.

        There are at least about so many pieces where there is enough for that. Raises
        ConnectorError.
        """
        ...

    def read(self, piece: Piece) -> Iterator[tuple[int, Chunk]]:
        """The chunks of a piece, in order; its own thread waits for them, which has no loop.

        Each with the number of its first record: records count on from there, and so all have other
        numbers than those before them in the split, and greater ones.
        """
        ...


class Reader(Protocol):
    """Reads a split from a position to its end. Synchronous, and it can be pickled."""

    def read(self, split: Split, position: Position) -> Iterator[Chunk]:
        """The chunks, in order; closing the iterator closes what it has open."""
        ...


class Encoder(Protocol):
    """Makes bytes of rows, each row ending in a line end. It can be pickled."""

    def encode(self, frame: pl.DataFrame) -> bytes:
        """The bytes of these rows."""
        ...


class Source(Protocol):
    """The reading side of a connector within a run."""

    @property
    def rediscover_s(self) -> float | None:
        """How often splits are discovered anew; None where there are no others than at first."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether a split that is read later holds no earlier rows than one before it."""
        ...

    async def discover(self, first: bool) -> Sequence[Split]:
        """All the splits there are now, in the order to read them.

        `first`: the job has never asked before, also not in what it goes on from.
        """
        ...

    async def resumed(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """What a checkpoint says of its splits, as it is to be gone on from now."""
        ...

    def reading(self) -> Reading:
        """What one subtask reads with. It opens nothing before it is asked for a chunk."""
        ...

    async def published(self, splits: Mapping[Split, Progress]) -> None:
        """A checkpoint is complete that has these; for whoever looks from outside.

        That it cannot be told there is no failure of the job.
        """
        ...

    async def close(self) -> None:
        """The end of the attempt, behind that of all readings."""
        ...


class Reading(Protocol):
    """The splits of one subtask, being read."""

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Read these too, from their positions on; `last`: no more come. It waits for nothing."""
        ...

    def hold(self, splits: Collection[Split]) -> None:
        """Give nothing of these splits, and of these only, until the next time this is said.

        What is on its way already may still come.
        """
        ...

    def exhausted(self) -> Mapping[Split, float]:
        """The splits that have nothing to give for now, each since when on the loop's clock.

        One that is held, or whose rows only wait to be taken, is not among them.
        """
        ...

    def lags(self) -> Mapping[Split, int]:
        """How many records there are that it has not given, of splits of which it knows."""
        ...

    def worked_s(self) -> float:
        """How long it has worked to make what it gives, also while it does: reading and decoding.

        Not how long it waited for what to make it of. It works at one thing at a time.
        """
        ...

    async def next(self) -> Arrival | None:
        """What comes next of one of the splits, or None when nothing will ever come any more."""
        ...

    async def close(self) -> None:
        """Let go of files and connections."""
        ...


class Sink(Protocol):
    """The writing side of a connector within a run."""

    async def check(self) -> None:
        """Whether output can go there at all; raises ConnectorError before anything is read.

        All that a checkpoint names has been committed before, and nobody will ask for that again.
        What else this job has prepared there belongs to no checkpoint, and is removed.
        """
        ...

    def writer(self, subtask: int, begun: Sequence[Document] = ()) -> Writer:
        """What one subtask writes with; `begun` is what those of the last checkpoint kept.

        They may have been of more subtasks, or of fewer.
        """
        ...

    async def commit(self, handle: Handle) -> None:
        """Make prepared output visible; may be asked twice for the same handle.

        Its writer may have been closed by then. The next barrier comes when all that a checkpoint
        names has been committed, and nobody will ask for that again.
        """
        ...

    async def abort(self, handle: Handle) -> None:
        """Remove prepared output that is not to be seen."""
        ...

    async def close(self) -> None:
        """The end of the attempt, behind that of all writers."""
        ...


class Writer(Protocol):
    """Output of one subtask, invisible until it is committed."""

    async def write(self, frame: pl.DataFrame) -> None:
        """Take rows. A batch of changes has the column `_delete`."""
        ...

    async def prepare(self) -> Handle | None:
        """Make all that was written durable; what a commit needs, or None if there is nothing.

        It may be prepared more than once before the first commit, and is committed in that order.
        """
        ...

    def kept(self) -> Document | None:
        """What the writer of the next attempt begins with, asked for behind `prepare`."""
        ...

    async def close(self) -> None:
        """The end: what was written since the last prepare is dropped."""
        ...


class Table(Protocol):
    """What a lookup asks, within a run: one for all subtasks of its step."""

    @property
    def keys_per_call(self) -> int:
        """How many keys it is asked for at once, at most."""
        ...

    async def check(self) -> None:
        """Whether it is there, with all its columns. Raises ConnectorError."""
        ...

    async def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """The rows of these keys, none of which is null, and each of which is there once.

        They have the columns that are added, of their types, and before them `FOUND_AT`, the row in
        `keys` that each is of; keys without a row are left out. Raises ConnectorError, and is
        cancelled when it takes too long.
        """
        ...

    async def close(self) -> None:
        """Let go of files and connections."""
        ...


FOUND_AT = "__at"
"""The column by which a table says which key a row is of."""
ROW_ERROR = "__error"
"""The column, if it is there, in which a table says what is wrong with a row, of those that are."""


class ConnectorError(Exception):
    """The outside world will not do it: what, where, and what to do. Not a defect of ours.

    `exit_status` is 2 where the pipeline asks for what is not there, 3 where it is refused because
    of what is there already, 1 otherwise. `final`: another attempt would end in the same way.
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
        self.final = final
