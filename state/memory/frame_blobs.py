"""Frames as bytes, and as blobs of a snapshot store.

A frame of state never changes, so once stored it is only named again by its blobs; which blobs
these are is recorded for as long as the frame lives. The bytes are uncompressed Arrow IPC in
Arrow's older layout. A million rows of a key, two numbers and a random text take 0.09 s of CPU to
write, hash included, and 0.03 s to read, for 87 MB; with LZ4 0.25 s and 0.11 s, for 58 MB; with
zstd 0.48 s and 0.12 s, for 28 MB. The newer layout copies texts again, which takes 0.10 s more.
"""

from __future__ import annotations

import io
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, field

from headrace.core.api.snapshots import Blob, DamagedSnapshot, SnapshotStore
from headrace.core.types.frames import write_arrow

if TYPE_CHECKING:
    import polars as pl


def encode_frame(frame: pl.DataFrame) -> memoryview:
    """Encode a frame as bytes; decoding returns exactly the same types."""
    to = io.BytesIO()
    write_arrow(frame, to)
    return to.getbuffer()


def decode_frame(data: bytes, columns: list[str] | None = None) -> pl.DataFrame:
    """Decode a frame, or some of its columns. Raises DamagedSnapshot."""
    import polars as pl

    try:
        return pl.read_ipc_stream(data, columns=columns)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DamagedSnapshot(f"wanted a frame of state, got {len(data)} bytes: {error}") from error


T = TypeVar("T")
R = TypeVar("R")


BLOB_PATTERN = r"\A[0-9a-f]{32}\Z"
"""The pattern of a blob's name, which is the name of its file."""


class BlobName(msgspec.Struct):
    """A blob, named as by `Blob.to_document`."""

    blob: Annotated[str, Meta(pattern=BLOB_PATTERN)] = field(name="blob")
    bytes: Annotated[int, Meta(ge=0)] = field(name="bytes")

    @classmethod
    def from_blob(cls, blob: Blob) -> BlobName:
        """Return the name of a blob."""
        return cls(blob.hash, blob.bytes)

    def to_blob(self) -> Blob:
        """Return the blob of this name."""
        return Blob(self.blob, self.bytes)


FrameBlobNames: TypeAlias = Annotated[tuple[BlobName, ...], Meta(min_length=1)]
"""Names of the blobs of one frame: one, or several for a large frame."""

MAX_BLOB_BYTES = 1 << 24
"""Maximum size of the part of a frame that becomes one blob. Encoding needs that much memory in
addition to the frame, and copying the bytes holds the interpreter's lock: 30 ms for 100 MB, 4 ms
for 16 MB.
"""

CONCURRENT_PARTS = 2
"""Number of parts of a frame that are written or read at a time: one is encoded while the other
waits for the disk.
"""


class FrameBlobs:
    """Record of the blobs that hold each stored frame; safe for use by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stored_frames: dict[int, tuple[weakref.ref[pl.DataFrame], FrameBlobNames]] = {}

    def put(self, frame: pl.DataFrame, store: SnapshotStore) -> FrameBlobNames:
        """Put the frame into the store unless it is there already, and name its blobs."""
        known = self._stored_frames.get(id(frame))
        # No short cut: the store retains only the blobs that `has` was called for.
        if (
            known is not None
            and known[0]() is frame
            and all([store.has(name.to_blob()) for name in known[1]])
        ):
            return known[1]
        names = _map_concurrently(
            lambda part: BlobName.from_blob(store.put(encode_frame(part))),
            list(_split_frame(frame)),
        )
        self._record(frame, names)
        return names

    def read(self, names: FrameBlobNames, store: SnapshotStore) -> pl.DataFrame:
        """Read the frame that these blobs hold. Raises DamagedSnapshot."""
        import polars as pl

        parts = _map_concurrently(lambda name: decode_frame(store.read(name.to_blob())), names)
        frame = pl.concat(parts, rechunk=True) if len(parts) > 1 else parts[0]
        self._record(frame, names)
        return frame

    def _record(self, frame: pl.DataFrame, names: FrameBlobNames) -> None:
        number = id(frame)

        def forget(gone: weakref.ref[pl.DataFrame]) -> None:
            # Another frame may have the same id by now.
            known = self._stored_frames.get(number)
            if known is not None and known[0] is gone:
                self._stored_frames.pop(number, None)

        with self._lock:
            self._stored_frames[number] = weakref.ref(frame, forget), names


def _split_frame(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Split the frame into parts of at most about MAX_BLOB_BYTES; yields at least one."""
    count = int(frame.estimated_size()) // MAX_BLOB_BYTES + 1
    rows = -(-frame.height // count)
    yield frame.head(rows)
    yield from (frame.slice(start, rows) for start in range(rows, frame.height, rows or 1))


def _map_concurrently(work: Callable[[T], R], parts: Sequence[T]) -> tuple[R, ...]:
    """Apply `work` to each part, several at a time."""
    if len(parts) == 1:
        return (work(parts[0]),)
    with ThreadPoolExecutor(CONCURRENT_PARTS) as pool:
        return tuple(pool.map(work, parts))
