"""Export of a checkpoint to a savepoint: states as Parquet, everything else as in the manifest.

The checkpoint and the job that took it are not changed: the export only reads files. A job that
runs meanwhile needs the processor, so rows are processed in large batches by Polars, which does not
hold the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.core.api.snapshots import Manifest, RefusedSnapshot, SnapshotStore, find_blobs
from headrace.core.api.state import EXPIRY, Document, StateDescriptor
from headrace.core.api.state_backend import StateBackend
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.documents import (
    RUNS,
    StepHeader,
    get_shape_name,
    to_plain,
    to_typed,
)
from headrace.state.memory.row_filters import add_expiry_column, compute_state_groups
from headrace.state.savepoints import names
from headrace.state.savepoints.checkpoint_rows import StateRows, open_state_rows
from headrace.state.savepoints.document import (
    SAVEPOINT_KIND,
    ColumnDocument,
    FileDocument,
    StateDocument,
    StepStateDocument,
)
from headrace.state.savepoints.parquet_frames import GROUP_COLUMN, encode_parquet, get_sql_type
from headrace.state.savepoints.writer import SavepointWriter

if TYPE_CHECKING:
    import polars as pl

TARGET_FILE_BYTES = 1 << 25
"""Size in memory of the rows that are collected for one file."""


class OutputNotCommitted(RefusedSnapshot):
    """A checkpoint has output that may not be committed: a savepoint cannot commit it."""


ReportProgress: TypeAlias = Callable[[int, int], None]
"""Called now and then with the bytes done and the total bytes; an exception that it raises ends the
export.
"""


def export_checkpoint(
    document: Manifest,
    store: SnapshotStore,
    backend: StateBackend,
    to: SavepointWriter,
    origin: Mapping[str, object],
    report: ReportProgress = lambda done, of: None,
) -> Manifest:
    """Write the states of a checkpoint whose output is all committed; returns the savepoint's
    document.

    `origin` has further keys of that document. Raises SnapshotError.
    """
    _check_committed(document)
    about: Any = document
    done = ExportProgress(sum(blob.bytes for blob in find_blobs(about["states"])), report)

    def part(step: str, document: Document) -> Document:
        with done.track(document):
            states = open_state_rows(document, store, backend, done.add)
            return to_plain(_export_step(to_typed(document, StepHeader), states, step, to))

    states = {
        step: [[part(step, document) for document in subtask] for subtask in subtasks]
        for step, subtasks in about["states"].items()
    }
    return {"kind": SAVEPOINT_KIND, **origin, **about, "states": states}


def find_uncommitted_sinks(document: Manifest) -> list[str]:
    """Return the sinks of a checkpoint whose output may not be committed."""
    content: Any = document
    return [sink for sink, sink_document in content["sinks"].items() if sink_document["handles"]]


def _check_committed(document: Manifest) -> None:
    content: Any = document
    if waiting := find_uncommitted_sinks(document):
        number = content["number"]
        raise OutputNotCommitted(
            f"checkpoint {number} has output of {', '.join(waiting)} that may not be committed yet",
            "a run resumed from it commits that output; an older checkpoint has none: JOB@N",
        )


@dataclass(slots=True)
class ExportProgress:
    """Progress of the export: the bytes read so far, of a total."""

    total_bytes: int
    report: ReportProgress
    done_bytes: int = 0

    def add(self, bytes: int) -> None:
        """Add bytes read; bytes read from a database are only counted when all of it was read."""
        self.done_bytes = min(self.total_bytes, self.done_bytes + bytes)
        self.report(self.done_bytes, self.total_bytes)

    @contextmanager
    def track(self, document: Document) -> Iterator[None]:
        """Count all blobs that the document names as read when the block ends."""
        before = self.done_bytes
        yield
        self.done_bytes = before + sum(blob.bytes for blob in find_blobs(document))
        self.report(self.done_bytes, self.total_bytes)


def _export_step(
    header: StepHeader, states: Mapping[str, StateRows], step: str, to: SavepointWriter
) -> StepStateDocument:
    done = {}
    for name, state in sorted(states.items()):
        rows = StateFileWriter(header, step, name, state.descriptor, to)
        for frame, goes_on in state.read_chunks():
            rows.add(frame, goes_on=goes_on)
        done[name] = rows.finish()
    h = header
    return StepStateDocument(
        h.groups, h.key_groups, h.clock_us, h.late, h.unfilled, done, metrics=h.metrics
    )


@dataclass(slots=True)
class StateFileWriter:
    """Writer of the rows of a state into files."""

    header: StepHeader
    step: str
    name: str
    shape: StateDescriptor
    writer: SavepointWriter
    schema: Mapping[str, pl.DataType] | None = None
    has_expiry: bool = False
    _buffer: list[pl.DataFrame] = field(default_factory=list)
    _frames: list[int] = field(default_factory=list)
    _bytes: int = 0
    _files: list[FileDocument] = field(default_factory=list)

    def add(self, frame: pl.DataFrame, *, goes_on: bool) -> None:
        """Add rows; `goes_on`: they belong to the same frame as the rows before them."""
        if not frame.height:
            return
        count = int(frame.estimated_size()) // TARGET_FILE_BYTES + 1
        rows = -(-frame.height // count)
        for start in range(0, frame.height, rows):
            self._add_chunk(frame.slice(start, rows), goes_on=goes_on or start > 0)

    def finish(self) -> StateDocument:
        """Write the remaining rows, and return the document of the state."""
        self._flush()
        schema = self.schema or {}
        return StateDocument(
            get_shape_name(self.shape),
            self.shape.key,
            self.shape.redistribution,
            sum(file.rows for file in self._files),
            self.has_expiry,
            [ColumnDocument(name, get_sql_type(type), str(type)) for name, type in schema.items()],
            self._files,
        )

    def _add_chunk(self, frame: pl.DataFrame, *, goes_on: bool) -> None:
        frame = self._normalize(frame)
        if get_shape_name(self.shape) != RUNS or (goes_on and self._frames):
            self._frames[:] = [*self._frames[:-1], sum(self._frames[-1:]) + frame.height]
        else:
            self._frames.append(frame.height)
        self._buffer.append(frame)
        self._bytes += int(frame.estimated_size())
        if self._bytes >= TARGET_FILE_BYTES:
            self._flush()

    def _normalize(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with the columns of the file, in their order."""
        if self.shape.is_table:
            if EXPIRY not in frame.columns:
                frame = add_expiry_column(frame)
            self.has_expiry |= frame[EXPIRY].null_count() < frame.height
        if self.shape.redistribution is None:
            groups = compute_state_groups(frame, self.shape.key, self.header.key_groups)
            frame = frame.insert_column(0, groups.alias(GROUP_COLUMN))
        if self.schema is None:
            self.schema = dict(frame.schema)
        if dict(frame.schema) != self.schema:
            raise ValueError(f"wanted the columns {self.schema}, got {frame.schema}")
        return frame[list(self.schema)]

    def _flush(self) -> None:
        import polars as pl

        if not self._buffer:
            return
        whole = pl.concat(self._buffer) if len(self._buffer) > 1 else self._buffer[0]
        folder = names.get_state_folder(self.step, self.name)
        number, key_groups = len(self._files) + 1, self.header.key_groups
        name = names.build_file_name(folder, range(*self.header.groups), number, key_groups)
        data = encode_parquet(whole)
        sha256 = self.writer.write(name, data)
        self._files.append(FileDocument(name, data.nbytes, sha256, whole.height, self._frames))
        self._buffer, self._frames, self._bytes = [], [], 0
