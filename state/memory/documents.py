"""Documents of a state in memory: its frames are blobs, and a document holds the rest.

A state of runs is its frames; of each, the rows after the first `skip`, except for deleted rows,
whose numbers are in a blob. A table is its log and the numbers of the rows that were removed from
the log. So a checkpoint writes only what was added or merged since the previous one: rows move from
frame to frame a few times and then stay.

A frame is a list of blobs, mostly one.

    {"format": "frames", "groups": [0, 128], "key_groups": 128, "clock_us": 12000000,
     "late": 3, "unfilled": 0, "states": {
       "windows": {"shape": "runs", "key": ["k"],
                   "frames": [{"frame": [BLOB], "skip": 10, "gone": null}]},
       "keys": {"shape": "table", "group": null, "now_us": 12000000,
                "frames": [{"frame": [BLOB], "skip": 0, "gone": null}], "removed": null}}}

`to_plain` and `to_typed` convert documents between typed structs and plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec
from msgspec import field

from headrace.core.api.snapshots import Blob, DamagedSnapshot, SnapshotStore
from headrace.core.api.state import Document, Redistribution
from headrace.state.memory.entries import FrozenEntries
from headrace.state.memory.frame_blobs import Blobs, FrameBlobs
from headrace.state.memory.sorted_run import RunSnapshot, build_deletion_mask
from headrace.state.memory.sorted_runs import FrozenRuns
from headrace.state.memory.table_log import FrozenTable

if TYPE_CHECKING:
    import polars as pl


Typed = TypeVar("Typed", bound=msgspec.Struct)


def to_plain(document: msgspec.Struct) -> Document:
    """Return the document as plain data, as JSON has it."""
    built = msgspec.to_builtins(document)
    assert isinstance(built, Mapping)
    return built


def to_typed(document: object, kind: type[Typed]) -> Typed:
    """Convert plain data to a typed document. Raises DamagedSnapshot."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise DamagedSnapshot(f"wanted the state of a step, got another: {error}") from error


class BlobName(msgspec.Struct):
    """A blob, named as by `Blob.to_document`."""

    blob: str = field(name="blob")
    bytes: int = field(name="bytes")


FrameBlobNames: TypeAlias = tuple[BlobName, ...]
"""Names of the blobs of one frame."""


class FrameSegment(msgspec.Struct):
    """Rows of a frame after the first `skip`, except those whose numbers are in `gone`."""

    frame: FrameBlobNames = field(name="frame")
    skip: int = field(name="skip")
    gone: FrameBlobNames | None = field(default=None, name="gone")


class RunsDocument(msgspec.Struct, tag_field="shape", tag="runs"):
    """Document of a state of runs."""

    key: tuple[str, ...] = field(name="key")
    frames: list[FrameSegment] = field(name="frames")


class TableDocument(msgspec.Struct, tag_field="shape", tag="table"):
    """Document of a table."""

    group: tuple[str, ...] | None = field(name="group")
    now_us: int = field(name="now_us")
    frames: list[FrameSegment] = field(name="frames")
    removed: FrameBlobNames | None = field(name="removed")


class EntriesDocument(msgspec.Struct, tag_field="shape", tag="entries"):
    """Document of entries."""

    spread: Redistribution = field(name="spread")
    rows: FrameBlobNames | None = field(name="rows")


class StepDocument(msgspec.Struct, tag_field="format", tag="frames"):
    """Document of all state of a subtask of a step."""

    groups: tuple[int, int] = field(name="groups")
    key_groups: int = field(name="key_groups")
    clock_us: int = field(name="clock_us")
    late: int = field(name="late")
    unfilled: int = field(name="unfilled")
    states: dict[str, RunsDocument | TableDocument | EntriesDocument] = field(name="states")


def persist_frozen_state(
    kept: FrozenRuns | FrozenTable | FrozenEntries, store: SnapshotStore, blobs: FrameBlobs
) -> RunsDocument | TableDocument | EntriesDocument:
    """Put a frozen state into the store and return its document."""
    if isinstance(kept, FrozenEntries):
        rows = None if kept.rows is None else to_blob_names(blobs.put(kept.rows, store))
        return EntriesDocument(kept.redistribution, rows)
    if isinstance(kept, FrozenRuns):
        return RunsDocument(kept.key, [_persist_segment(part, store, blobs) for part in kept.parts])
    pieces = [_persist_segment(RunSnapshot(frame), store, blobs) for frame in kept.frames]
    removed = (
        to_blob_names(blobs.put(_concat_removed_rows(kept), store)) if kept.removed_rows else None
    )
    return TableDocument(kept.group, kept.now_us, pieces, removed)


def load_frozen_state(
    document: RunsDocument | TableDocument | EntriesDocument,
    store: SnapshotStore,
    blobs: FrameBlobs,
) -> FrozenRuns | FrozenTable | FrozenEntries:
    """Read back the frozen state of a document. Raises DamagedSnapshot."""
    if isinstance(document, EntriesDocument):
        rows = None if document.rows is None else blobs.read(to_blobs(document.rows), store)
        return FrozenEntries(document.spread, rows)
    parts = tuple(_load_segment(piece, store, blobs) for piece in document.frames)
    if isinstance(document, RunsDocument):
        return FrozenRuns(document.key, parts)
    frames = tuple(part.live_rows for part in parts)
    removed: tuple[pl.Series, ...] = ()
    if document.removed is not None:
        removed = (blobs.read(to_blobs(document.removed), store)["row"],)
    return FrozenTable(frames, removed, document.now_us, document.group)


def _persist_segment(part: RunSnapshot, store: SnapshotStore, blobs: FrameBlobs) -> FrameSegment:
    gone = (
        None if part.deletion_mask is None else (part.deletion_mask == 1).arg_true().to_frame("row")
    )
    frame = to_blob_names(blobs.put(part.all_rows, store))
    return FrameSegment(
        frame, part.skip, None if gone is None else to_blob_names(blobs.put(gone, store))
    )


def _load_segment(piece: FrameSegment, store: SnapshotStore, blobs: FrameBlobs) -> RunSnapshot:
    whole = blobs.read(to_blobs(piece.frame), store)
    if piece.gone is None:
        return RunSnapshot(whole, piece.skip)
    return RunSnapshot(
        whole,
        piece.skip,
        build_deletion_mask(whole, blobs.read(to_blobs(piece.gone), store)["row"]),
    )


def to_blob_names(blobs: Blobs) -> FrameBlobNames:
    """Return the names of a frame's blobs for a document."""
    return tuple(BlobName(blob.hash, blob.bytes) for blob in blobs)


def to_blobs(names: FrameBlobNames) -> Blobs:
    """Return the blobs that a document names."""
    return tuple(Blob(name.blob, name.bytes) for name in names)


def _concat_removed_rows(table: FrozenTable) -> pl.DataFrame:
    import polars as pl

    return pl.concat(table.removed_rows).to_frame("row")
