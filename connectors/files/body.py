"""The content of one output file: text that may be compressed, or Parquet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.connectors.files.compression import compress
from headrace.connectors.files.options import Compression
from headrace.connectors.formats import BytesEncoder

if TYPE_CHECKING:
    import polars as pl


class OutputBody(Protocol):
    """A file being encoded: the bytes that `put`, `rest` and `end` return, in that order."""

    @property
    def buffered_bytes(self) -> int:
        """The approximate bytes of memory that it takes."""
        ...

    def add(self, frame: pl.DataFrame) -> bytes:
        """Add rows; return the bytes that are ready now."""
        ...

    def flush(self) -> bytes:
        """Return all remaining bytes of the rows: frees memory, and costs a few bytes of size."""
        ...

    def finish(self) -> bytes:
        """Return the last bytes of the file, after the last row."""
        ...


STREAM_BYTES = 1 << 20
"""Bytes of text in one compressed stream: with less, the cost of starting a stream shows."""

BodyFactory: TypeAlias = Callable[[], OutputBody]
"""Starts the content of a new file."""


class TextBody:
    """Records in a text format, possibly compressed.

    Concatenated compressed streams are one valid file. So text is buffered until it is worth a
    stream of its own, and none of a thousand open files keeps a compressor, which takes a megabyte.
    """

    def __init__(self, encoder: BytesEncoder, compression: Compression) -> None:
        self._encoder = encoder
        self._compression = compression
        self._head = encoder.header()
        self._gathered: list[bytes] = []
        self.buffered_bytes = 0

    def add(self, frame: pl.DataFrame) -> bytes:
        """Encode records, with the header before the first."""
        data = self._head + self._encoder.encode(frame)
        self._head = b""
        if self._compression == "none":
            return data
        self._gathered.append(data)
        self.buffered_bytes += len(data)
        return self.flush() if self.buffered_bytes >= STREAM_BYTES else b""

    def flush(self) -> bytes:
        """Return the buffered text as a compressed stream."""
        data = b"".join(self._gathered)
        self._gathered.clear()
        self.buffered_bytes = 0
        return compress(data, self._compression) if data else b""

    def finish(self) -> bytes:
        """Return the last stream."""
        return self.flush()
