"""What a state in memory is stored as: its frames are blobs, and a document says the rest.

A state of runs is its frames, of each so many rows from its end on, without those that were taken
from in between, whose numbers are in a blob; a table is its log and the numbers of the rows that
were removed from it. So what is written is what was added, and what was merged since: rows move
from frame to frame a few times, and then rest.

A frame is the blobs of its parts, most often one.

    {"format": "frames", "groups": [0, 128], "key_groups": 128, "clock_us": 12000000,
     "late": 3, "unfilled": 0, "states": {
       "windows": {"shape": "runs", "key": ["k"],
                   "frames": [{"frame": [BLOB], "skip": 10, "gone": null}]},
       "keys": {"shape": "table", "group": null, "now_us": 12000000,
                "frames": [{"frame": [BLOB], "skip": 0, "gone": null}], "removed": null}}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import field

from headrace.core.snapshots import Blob, SnapshotStore
from headrace.core.state import Spread
from headrace.state.entries import FrozenEntries
from headrace.state.framing import Blobs, FrameBlobs
from headrace.state.log import FrozenTable
from headrace.state.run import Part, marks
from headrace.state.runs import FrozenRuns

if TYPE_CHECKING:
    import polars as pl


class BlobName(msgspec.Struct):
    """A blob, as `Blob.document` names it."""

    blob: str = field(name="blob")
    bytes: int = field(name="bytes")


Named: TypeAlias = tuple[BlobName, ...]
"""A frame, as the blobs that it is."""


class Piece(msgspec.Struct):
    """The rows of a frame behind its first ones, but for those whose numbers are in another."""

    frame: Named = field(name="frame")
    skip: int = field(name="skip")
    gone: Named | None = field(default=None, name="gone")


class RunsDocument(msgspec.Struct, tag_field="shape", tag="runs"):
    """A state of runs."""

    key: tuple[str, ...] = field(name="key")
    frames: list[Piece] = field(name="frames")


class TableDocument(msgspec.Struct, tag_field="shape", tag="table"):
    """A table."""

    group: tuple[str, ...] | None = field(name="group")
    now_us: int = field(name="now_us")
    frames: list[Piece] = field(name="frames")
    removed: Named | None = field(name="removed")


class EntriesDocument(msgspec.Struct, tag_field="shape", tag="entries"):
    """Entries."""

    spread: Spread = field(name="spread")
    rows: Named | None = field(name="rows")


class StepDocument(msgspec.Struct, tag_field="format", tag="frames"):
    """All that a step keeps."""

    groups: tuple[int, int] = field(name="groups")
    key_groups: int = field(name="key_groups")
    clock_us: int = field(name="clock_us")
    late: int = field(name="late")
    unfilled: int = field(name="unfilled")
    states: dict[str, RunsDocument | TableDocument | EntriesDocument] = field(name="states")


def document_of(
    kept: FrozenRuns | FrozenTable | FrozenEntries, store: SnapshotStore, blobs: FrameBlobs
) -> RunsDocument | TableDocument | EntriesDocument:
    """Have a frozen state in the store."""
    if isinstance(kept, FrozenEntries):
        rows = None if kept.rows is None else named(blobs.put(kept.rows, store))
        return EntriesDocument(kept.spread, rows)
    if isinstance(kept, FrozenRuns):
        return RunsDocument(kept.key, [_piece(part, store, blobs) for part in kept.parts])
    pieces = [_piece(Part(frame), store, blobs) for frame in kept.frames]
    removed = named(blobs.put(_numbers(kept), store)) if kept.removed else None
    return TableDocument(kept.group, kept.now_us, pieces, removed)


def frozen_of(
    document: RunsDocument | TableDocument | EntriesDocument,
    store: SnapshotStore,
    blobs: FrameBlobs,
) -> FrozenRuns | FrozenTable | FrozenEntries:
    """The frozen state that a document tells of. Raises DamagedSnapshot."""
    if isinstance(document, EntriesDocument):
        rows = None if document.rows is None else blobs.read(blobs_of(document.rows), store)
        return FrozenEntries(document.spread, rows)
    parts = tuple(_part(piece, store, blobs) for piece in document.frames)
    if isinstance(document, RunsDocument):
        return FrozenRuns(document.key, parts)
    frames = tuple(part.frame for part in parts)
    removed: tuple[pl.Series, ...] = ()
    if document.removed is not None:
        removed = (blobs.read(blobs_of(document.removed), store)["row"],)
    return FrozenTable(frames, removed, document.now_us, document.group)


def _piece(part: Part, store: SnapshotStore, blobs: FrameBlobs) -> Piece:
    gone = None if part.gone is None else (part.gone == 1).arg_true().to_frame("row")
    frame = named(blobs.put(part.whole, store))
    return Piece(frame, part.skip, None if gone is None else named(blobs.put(gone, store)))


def _part(piece: Piece, store: SnapshotStore, blobs: FrameBlobs) -> Part:
    whole = blobs.read(blobs_of(piece.frame), store)
    if piece.gone is None:
        return Part(whole, piece.skip)
    return Part(whole, piece.skip, marks(whole, blobs.read(blobs_of(piece.gone), store)["row"]))


def named(blobs: Blobs) -> Named:
    """How a document names the blobs of a frame."""
    return tuple(BlobName(blob.hash, blob.bytes) for blob in blobs)


def blobs_of(names: Named) -> Blobs:
    """The blobs that a document names."""
    return tuple(Blob(name.blob, name.bytes) for name in names)


def _numbers(table: FrozenTable) -> pl.DataFrame:
    import polars as pl

    return pl.concat(table.removed).to_frame("row")
