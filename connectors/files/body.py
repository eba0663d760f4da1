"""What makes the bytes of one file out of rows: text that may be compressed, or Parquet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.connectors.files.compression import packed
from headrace.connectors.files.options import Compression
from headrace.connectors.formats import BytesEncoder

if TYPE_CHECKING:
    import polars as pl


class Body(Protocol):
    """A file while it is made. What `put`, `rest` and `end` return, in that order, is the file."""

    @property
    def held(self) -> int:
        """About how many bytes of memory it takes."""
        ...

    def put(self, frame: pl.DataFrame) -> bytes:
        """The bytes that are ready with these rows; some may come later."""
        ...

    def rest(self) -> bytes:
        """All that is still to come of these rows: frees memory, and costs a few bytes."""
        ...

    def end(self) -> bytes:
        """What is still missing when no row is to come."""
        ...


STREAM = 1 << 20
"""So much text is worth a compressed stream: below, what it takes to begin one shows."""

Bodies: TypeAlias = Callable[[], Body]
"""Begins a file."""


class Text:
    """Records in a format that carries bytes, perhaps compressed.

    Compressed streams one behind the other are one file. So text gathers until it is worth a stream
    of its own, and no compressor, which takes a megabyte, is kept for each of a thousand files.
    """

    def __init__(self, encoder: BytesEncoder, compression: Compression) -> None:
        self._encoder = encoder
        self._compression = compression
        self._head = encoder.header()
        self._gathered: list[bytes] = []
        self.held = 0

    def put(self, frame: pl.DataFrame) -> bytes:
        """The records; above the first, the header."""
        data = self._head + self._encoder.encode(frame)
        self._head = b""
        if self._compression == "none":
            return data
        self._gathered.append(data)
        self.held += len(data)
        return self.rest() if self.held >= STREAM else b""

    def rest(self) -> bytes:
        """What has gathered, as a compressed stream."""
        data = b"".join(self._gathered)
        self._gathered.clear()
        self.held = 0
        return packed(data, self._compression) if data else b""

    def end(self) -> bytes:
        """The last stream."""
        return self.rest()
