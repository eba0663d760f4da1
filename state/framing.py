"""Frames as bytes and as blobs of a snapshot store.

A frame of state is never changed, so whoever stored it once names its blob from then on; which one
that is, is remembered for as long as the frame lives. The bytes are Arrow IPC, not compressed, in
Arrow's older layout. A million rows of a key, two numbers and a text of noise take 0.09 s of CPU to
write, hash included, and 0.03 to read, for 87 MB; with LZ4 0.25 and 0.11, for 58 MB; with zstd 0.48
and 0.12, for 28 MB. In the newer layout texts are gathered anew, which takes 0.10 more.
"""

from __future__ import annotations

import io
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from headrace.core.snapshots import Blob, DamagedSnapshot, SnapshotStore

if TYPE_CHECKING:
    import polars as pl


def encoded(frame: pl.DataFrame) -> memoryview:
    """The frame as bytes; it comes back with the very same types."""
    import polars as pl

    to = io.BytesIO()
    frame.write_ipc_stream(to, compat_level=pl.CompatLevel.oldest())
    return to.getbuffer()


def decoded(data: bytes, columns: list[str] | None = None) -> pl.DataFrame:
    """The frame that was encoded, or some of its columns. Raises DamagedSnapshot."""
    import polars as pl

    try:
        return pl.read_ipc_stream(data, columns=columns)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DamagedSnapshot(f"wanted a frame of state, got {len(data)} bytes: {error}") from error


T = TypeVar("T")
R = TypeVar("R")

Blobs: TypeAlias = tuple[Blob, ...]
"""Those of one frame: one, or more of a large one."""

PART_BYTES = 1 << 24
"""So much of a frame becomes a blob. Its bytes need memory beside the frame, and to copy them holds
the interpreter's lock: 100 MB for 30 ms, 16 MB for 4."""

TOGETHER = 2
"""So many parts of a frame are written or read at a time: one is packed, one waits for the disk."""


class FrameBlobs:
    """Which frames are stored as which blobs. Threads use it at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[int, tuple[weakref.ref[pl.DataFrame], Blobs]] = {}

    def put(self, frame: pl.DataFrame, store: SnapshotStore) -> Blobs:
        """Have the frame in the store."""
        known = self._known.get(id(frame))
        # All of them are asked for: the store spares those that are.
        if known is not None and known[0]() is frame and all([store.has(b) for b in known[1]]):
            return known[1]
        blobs = _each(lambda part: store.put(encoded(part)), list(_parts(frame)))
        self._remember(frame, blobs)
        return blobs

    def read(self, blobs: Blobs, store: SnapshotStore) -> pl.DataFrame:
        """The frame that these blobs are. Raises DamagedSnapshot."""
        import polars as pl

        parts = _each(lambda blob: decoded(store.read(blob)), blobs)
        frame = pl.concat(parts, rechunk=True) if len(parts) > 1 else parts[0]
        self._remember(frame, blobs)
        return frame

    def _remember(self, frame: pl.DataFrame, blobs: Blobs) -> None:
        number = id(frame)

        def forget(gone: weakref.ref[pl.DataFrame]) -> None:
            # Its number may be that of another frame meanwhile.
            known = self._known.get(number)
            if known is not None and known[0] is gone:
                self._known.pop(number, None)

        with self._lock:
            self._known[number] = weakref.ref(frame, forget), blobs


def _parts(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The frame in parts that are not too large, of which there is one at least."""
    count = int(frame.estimated_size()) // PART_BYTES + 1
    rows = -(-frame.height // count)
    yield frame.head(rows)
    yield from (frame.slice(start, rows) for start in range(rows, frame.height, rows or 1))


def _each(work: Callable[[T], R], parts: Sequence[T]) -> tuple[R, ...]:
    """What comes of each part, of which several may be worked on at a time."""
    if len(parts) == 1:
        return (work(parts[0]),)
    with ThreadPoolExecutor(TOGETHER) as pool:
        return tuple(pool.map(work, parts))
