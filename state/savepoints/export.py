"""Export of a checkpoint to a savepoint: states as Parquet, everything else as in the manifest.

The checkpoint and the job that took it are not changed: the export only reads files. A job that
runs meanwhile needs the processor, so rows are processed in large batches by Polars, which does not
hold the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.core.keygroups import groups_of, key_group
from headrace.core.snapshots import Manifest, RefusedSnapshot, SnapshotStore, blobs_in
from headrace.core.state import KEY, UNTIL, Document, Shape, StateBackend
from headrace.state.documents import plain
from headrace.state.savepoints import names
from headrace.state.savepoints.columns import GROUP, packed, sql_type
from headrace.state.savepoints.document import (
    KIND,
    RUNS,
    ColumnDocument,
    FileDocument,
    PartDocument,
    StateDocument,
    name_of,
)
from headrace.state.savepoints.pieces import Part, part_of
from headrace.state.savepoints.writing import Writing

if TYPE_CHECKING:
    import polars as pl

FILE_BYTES = 1 << 25
"""Size in memory of the rows that are collected for one file."""


class NotYetVisible(RefusedSnapshot):
    """A checkpoint has output that may not be committed: a savepoint cannot commit it."""


Tell: TypeAlias = Callable[[int, int], None]
"""Called now and then with the bytes done and the total bytes; an exception that it raises ends the
export.
"""


def export(
    document: Manifest,
    store: SnapshotStore,
    backend: StateBackend,
    to: Writing,
    said: Mapping[str, object],
    tell: Tell = lambda done, of: None,
) -> Manifest:
    """Write the states of a checkpoint whose output is all committed; returns the savepoint's
    document.

    `said` has further keys of that document. Raises SnapshotError.
    """
    _check_visible(document)
    about: Any = document
    done = Done(sum(blob.bytes for blob in blobs_in(about["states"])), tell)

    def part(step: str, document: Document) -> Document:
        with done.doing(document):
            return plain(_part(part_of(document, store, backend, done.more), step, to))

    states = {
        step: [[part(step, document) for document in subtask] for subtask in subtasks]
        for step, subtasks in about["states"].items()
    }
    return {"kind": KIND, **said, **about, "states": states}


def invisible(document: Manifest) -> list[str]:
    """Return the sinks of a checkpoint whose output may not be committed."""
    said: Any = document
    return [sink for sink, kept in said["sinks"].items() if kept["handles"]]


def _check_visible(document: Manifest) -> None:
    said: Any = document
    if waiting := invisible(document):
        number = said["number"]
        raise NotYetVisible(
            f"checkpoint {number} has output of {', '.join(waiting)} that may not be committed yet",
            "a run resumed from it commits that output; an older checkpoint has none: JOB@N",
        )


@dataclass(slots=True)
class Done:
    """Progress of the export: the bytes read so far, of a total."""

    of: int
    tell: Tell
    bytes: int = 0

    def more(self, bytes: int) -> None:
        """Add bytes read; bytes read from a database are only counted when all of it was read."""
        self.bytes = min(self.of, self.bytes + bytes)
        self.tell(self.bytes, self.of)

    @contextmanager
    def doing(self, document: Document) -> Iterator[None]:
        """Count all blobs that the document names as read when the block ends."""
        before = self.bytes
        yield
        self.bytes = before + sum(blob.bytes for blob in blobs_in(document))
        self.tell(self.bytes, self.of)


def _part(part: Part, step: str, to: Writing) -> PartDocument:
    states = {}
    for name in sorted(part.names):
        rows = Rows(part, step, name, to)
        for frame, goes_on in part.pieces(name):
            rows.add(frame, goes_on=goes_on)
        states[name] = rows.written()
    groups, counts = (part.groups.start, part.groups.stop), part.counts
    return PartDocument(
        groups, part.key_groups, part.clock_us, counts.late, counts.unfilled, states
    )


@dataclass(slots=True)
class Rows:
    """Writer of the rows of a state into files."""

    part: Part
    step: str
    name: str
    to: Writing
    shape: Shape = field(init=False)
    schema: Mapping[str, pl.DataType] | None = None
    timed: bool = False
    _waiting: list[pl.DataFrame] = field(default_factory=list)
    _frames: list[int] = field(default_factory=list)
    _bytes: int = 0
    _files: list[FileDocument] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shape = self.part.shape(self.name)

    def add(self, frame: pl.DataFrame, *, goes_on: bool) -> None:
        """Add rows; `goes_on`: they belong to the same frame as the rows before them."""
        if not frame.height:
            return
        count = int(frame.estimated_size()) // FILE_BYTES + 1
        rows = -(-frame.height // count)
        for start in range(0, frame.height, rows):
            self._take(frame.slice(start, rows), goes_on=goes_on or start > 0)

    def written(self) -> StateDocument:
        """Write the remaining rows, and return the document of the state."""
        self._flush()
        schema = self.schema or {}
        return StateDocument(
            name_of(self.shape),
            self.shape.key,
            self.shape.spread,
            sum(file.rows for file in self._files),
            self.timed,
            [ColumnDocument(name, sql_type(type), str(type)) for name, type in schema.items()],
            self._files,
        )

    def _take(self, frame: pl.DataFrame, *, goes_on: bool) -> None:
        frame = self._canonical(frame)
        if name_of(self.shape) != RUNS or (goes_on and self._frames):
            self._frames[:] = [*self._frames[:-1], sum(self._frames[-1:]) + frame.height]
        else:
            self._frames.append(frame.height)
        self._waiting.append(frame)
        self._bytes += int(frame.estimated_size())
        if self._bytes >= FILE_BYTES:
            self._flush()

    def _canonical(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with the columns of the file, in their order."""
        import polars as pl

        if self.shape.is_table:
            if UNTIL not in frame.columns:
                frame = frame.with_columns(pl.lit(None, dtype=pl.Int64).alias(UNTIL))
            self.timed |= frame[UNTIL].null_count() < frame.height
        if self.shape.spread is None:
            frame = frame.insert_column(0, self._groups(frame).alias(GROUP))
        if self.schema is None:
            self.schema = dict(frame.schema)
        if dict(frame.schema) != self.schema:
            raise ValueError(f"wanted the columns {self.schema}, got {frame.schema}")
        return frame[list(self.schema)]

    def _groups(self, frame: pl.DataFrame) -> pl.Series:
        if self.shape.key is None:
            return groups_of(frame[KEY], self.part.key_groups)
        return key_group(frame, self.shape.key, self.part.key_groups)

    def _flush(self) -> None:
        import polars as pl

        if not self._waiting:
            return
        whole = pl.concat(self._waiting) if len(self._waiting) > 1 else self._waiting[0]
        folder = names.state(self.step, self.name)
        number, key_groups = len(self._files) + 1, self.part.key_groups
        name = names.file(folder, self.part.groups, number, key_groups)
        data = packed(whole)
        sha256 = self.to.write(name, data)
        self._files.append(FileDocument(name, data.nbytes, sha256, whole.height, self._frames))
        self._waiting, self._frames, self._bytes = [], [], 0
