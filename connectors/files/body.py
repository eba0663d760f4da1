"""What makes the bytes of one file out of rows: text that may be compressed, or Parquet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.connectors.files.compression import HELD, packer
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


Bodies: TypeAlias = Callable[[], Body]
"""Begins a file."""


class Text:
    """Records in a format that carries bytes, perhaps compressed.

    Compressed streams one behind the other are one file, so a stream may end wherever it is worth
    the memory.
    """

    def __init__(self, encoder: BytesEncoder, compression: Compression) -> None:
        self._encoder = encoder
        self._compression = compression
        self._packer = packer(compression)
        self._head = encoder.header()

    @property
    def held(self) -> int:
        """What the compressor takes."""
        return HELD[self._compression] if self._packer else 0

    def put(self, frame: pl.DataFrame) -> bytes:
        """The records; above the first, the header."""
        data = self._head + self._encoder.encode(frame)
        self._head = b""
        self._packer = self._packer or packer(self._compression)
        return self._packer.compress(data) if self._packer else data

    def rest(self) -> bytes:
        """The end of a compressed stream; rows that come then begin another."""
        data = self._packer.flush() if self._packer else b""
        self._packer = None
        return data

    def end(self) -> bytes:
        """The end of the compressed stream."""
        return self.rest()
