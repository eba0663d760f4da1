"""Rows of a checkpoint's step state, read in chunks, so that no state is in memory as a whole.

State of the memory backend is read blob by blob. Of a table, the keys are read first, to find the
rows of the log that count, and then the rows. A database and run files are read as the `rocksdb`
backend reads them, in chunks too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import KEY, Document, StateDescriptor
from headrace.core.api.state_backend import StateBackend
from headrace.core.types.key_groups import hash_keys
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.documents import (
    FrameSegment,
    FrameStateDocument,
    RunsDocument,
    StepDocument,
    TableDocument,
    to_typed,
)
from headrace.state.memory.frame_blobs import FrameBlobNames, decode_frame
from headrace.state.memory.row_filters import filter_unexpired
from headrace.state.memory.sorted_run import build_deletion_mask
from headrace.state.rocks.sorted_runs import FrozenSpillingRuns
from headrace.state.rocks.step_snapshot import FrozenSpillingState
from headrace.state.rocks.thawed_snapshot import ThawedRocksSnapshot

if TYPE_CHECKING:
    import polars as pl

RowChunks: TypeAlias = "Iterator[tuple[pl.DataFrame, bool]]"
"""Rows, and, for a state of runs, whether they belong to the same frame as the rows before them."""

HASHES_PER_PASS = 1 << 20
"""Number of hashes compared per pass, which takes ten times their memory."""

ReportBytes: TypeAlias = Callable[[int], None]


class StateRows(Protocol):
    """Rows of one state of a checkpoint."""

    @property
    def descriptor(self) -> StateDescriptor:
        """Shape of the state."""
        ...

    def read_chunks(self) -> RowChunks:
        """Yield the rows. Raises SnapshotError."""
        ...


def open_state_rows(
    document: Document,
    store: SnapshotStore,
    backend: StateBackend,
    report: ReportBytes = lambda bytes: None,
) -> Mapping[str, StateRows]:
    """Open the states of a step's document; `report` gets the number of bytes of each read.

    Raises SnapshotError.
    """
    if document.get("format") == "frames":
        states = to_typed(document, StepDocument).states
        return {name: FrameRows(state, store, report) for name, state in states.items()}
    thawed = backend.thaw(document, store)
    assert isinstance(thawed, ThawedRocksSnapshot)
    return {
        name: SpillingRows(state, thawed.key_groups, report)
        for name, state in thawed.states.items()
    }


@dataclass(frozen=True, slots=True)
class FrameRows:
    """Rows of a state that was stored as frames."""

    document: FrameStateDocument
    store: SnapshotStore
    report_bytes: ReportBytes

    @property
    def descriptor(self) -> StateDescriptor:
        """Shape of the state."""
        return self.document.descriptor

    def read_chunks(self) -> RowChunks:
        """Yield the rows, blob by blob."""
        state = self.document
        if isinstance(state, RunsDocument):
            for piece in state.frames:
                yield from self._read_segment(piece)
        elif isinstance(state, TableDocument):
            yield from self._read_log(state)
        elif state.rows is not None:
            yield from ((rows, False) for rows in self._read_frames(state.rows))

    def _read_segment(self, piece: FrameSegment) -> RowChunks:
        """Yield the live rows of a frame."""
        deleted_rows = None if piece.gone is None else self._read_numbers(piece.gone)
        start, goes_on = 0, False
        for rows in self._read_frames(piece.frame):
            height, skip = rows.height, min(max(0, piece.skip - start), rows.height)
            if deleted_rows is not None:
                here = _slice_numbers(deleted_rows, start, start + height)
                rows = rows.filter(build_deletion_mask(rows, here) == 0) if len(here) else rows
                skip -= int((here < skip).sum())
            yield rows.slice(skip), goes_on
            start, goes_on = start + height, True

    def _read_log(self, state: TableDocument) -> RowChunks:
        """Yield the rows of a log that count."""
        log = tuple(blob for piece in state.frames for blob in piece.frame)
        if not log:
            return
        deleted_rows, start = self._find_superseded(log), 0
        if state.removed is not None:
            deleted_rows = (
                deleted_rows.append(self._read_numbers(state.removed).cast(deleted_rows.dtype))
                .unique()
                .sort()
            )
        for rows in self._read_frames(log):
            here = _slice_numbers(deleted_rows, start, start + rows.height)
            start += rows.height
            rows = rows.filter(build_deletion_mask(rows, here) == 0) if len(here) else rows
            yield filter_unexpired(rows, state.now_us), True

    def _find_superseded(self, log: FrameBlobNames) -> pl.Series:
        """Return the ascending numbers of the rows whose key occurs again later in the log.

        Most keys are ruled out by their hash alone; the keys themselves are compared only for equal
        hashes.
        """
        import polars as pl

        twice = _find_duplicates(
            pl.concat([hash_keys(rows[KEY]) for rows in self._read_frames(log, [KEY])])
        )
        if not len(twice):
            return twice
        start, keys = 0, []
        for part in self._read_frames(log, [KEY]):
            keys.append(part[KEY][_slice_numbers(twice, start, start + part.height)])
            start += part.height
        rows = pl.DataFrame([pl.concat(keys), twice])
        return rows.filter(~rows[KEY].is_last_distinct())[twice.name]

    def _read_frames(
        self, names: FrameBlobNames, columns: list[str] | None = None
    ) -> Iterator[pl.DataFrame]:
        for name in names:
            yield decode_frame(self.store.read(name.to_blob()), columns)
            self.report_bytes(0 if columns else name.bytes)

    def _read_numbers(self, names: FrameBlobNames) -> pl.Series:
        import polars as pl

        return pl.concat(list(self._read_frames(names)))["row"]


@dataclass(frozen=True, slots=True)
class SpillingRows:
    """Rows of a state that was stored partly on disk."""

    state: FrozenSpillingState
    key_groups: int
    report_bytes: ReportBytes

    @property
    def descriptor(self) -> StateDescriptor:
        """Shape of the state."""
        return self.state.descriptor

    def read_chunks(self) -> RowChunks:
        """Yield the rows; the bytes of run files are reported."""
        state = self.state
        if not isinstance(state, FrozenSpillingRuns):
            yield from ((rows, False) for rows in state.read_chunks(None, self.key_groups))
            return
        yield from ((rows, False) for rows in state.memory.read_chunks(None, self.key_groups))
        for spilled in state.run_files:
            rows = state.read_file(spilled)
            yield rows, False
            self.report_bytes(int(rows.estimated_size()))


def _slice_numbers(numbers: pl.Series, start: int, stop: int) -> pl.Series:
    """Return the numbers within the range, counted from its start; `numbers` is ascending."""
    low, high = numbers.search_sorted(start), numbers.search_sorted(stop)
    return numbers.slice(low, high - low) - start


def _find_duplicates(hashes: pl.Series) -> pl.Series:
    """Return the ascending positions of hashes that occur more than once, in several passes."""
    import polars as pl

    rows = pl.int_range(len(hashes), dtype=pl.UInt32, eager=True)
    parts = hashes.len() // HASHES_PER_PASS + 1
    found = []
    for part in range(parts):
        inside = hashes % parts == part if parts > 1 else None
        some = hashes if inside is None else hashes.filter(inside)
        twice = some.is_duplicated()
        if twice.any():
            found.append((rows if inside is None else rows.filter(inside)).filter(twice))
    return pl.concat(found).sort() if found else rows.clear()
