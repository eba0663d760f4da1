"""The parts of a sink's output: their bytes, their encoding, and their folders.

Bytes are buffered and flushed to disk in bulk. A part is text that may be compressed, or Parquet.
The folders of `partition_by` are named as Hive and Spark name them, except for the empty text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.connectors.files.compression import compress
from headrace.connectors.files.disk import append_bytes, sync_path
from headrace.connectors.files.errors import translate_errors
from headrace.connectors.files.names import format_folder, format_hidden_path
from headrace.connectors.files.options import Compression
from headrace.connectors.formats.contract import BytesEncoder
from headrace.core.api.failures import ConnectorError
from headrace.core.types.data_types import STRING, Schema
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


class OutputBody(Protocol):
    """A file being encoded: the bytes that `add`, `flush` and `finish` return, in that order."""

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


@dataclass(slots=True)
class OutputPart:
    """A hidden file.

    `add` and `encode_rest` only use memory; `flush` and `finish` wait for the disk.
    """

    folder: str
    """The sink's folder."""
    path: str
    """The part's path within it, once it is committed."""
    body: OutputBody
    opened_at_s: float
    rows: int = 0
    size: int = 0
    """Bytes of the file, on disk or buffered."""
    buffers: list[bytes] = field(default_factory=list)
    on_disk: bool = False

    @property
    def hidden_path(self) -> str:
        """The path of the hidden file."""
        return os.path.join(self.folder, format_hidden_path(self.path))

    def add(self, frame: pl.DataFrame) -> int:
        """Add rows; return the number of bytes encoded by now."""
        self.rows += frame.height
        return self._buffer(self.body.add(frame))

    def encode_rest(self) -> int:
        """Encode all rows, so that none are held back; return the number of bytes."""
        return self._buffer(self.body.flush())

    def _buffer(self, data: bytes) -> int:
        if data:
            self.buffers.append(data)
            self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """Write the buffered bytes to disk."""
        with translate_errors(f"write {self.hidden_path}"):
            if not self.on_disk:
                os.makedirs(os.path.dirname(self.hidden_path), exist_ok=True)
            try:
                append_bytes(self.hidden_path, self.buffers, new=not self.on_disk)
            except FileExistsError:
                raise ConnectorError(
                    f"{self.hidden_path} already exists",
                    "another sink, or another run, writes into this folder: each needs its own",
                ) from None
            except OSError:
                self.on_disk = True
                raise
        self.on_disk = True
        self.buffers.clear()

    def finish(self) -> None:
        """Write the end of the file, and wait until the file is durable."""
        self._buffer(self.body.finish())
        self.flush()
        with translate_errors(f"write {self.hidden_path}"):
            sync_path(self.hidden_path)


FolderDivision: TypeAlias = "Callable[[pl.DataFrame], Iterator[tuple[str, pl.DataFrame]]]"


def make_folder_division(schema: Schema, columns: Sequence[str]) -> FolderDivision:
    """Return a function that divides a batch by folder and drops the folders' columns.

    Values are formatted as by `cast(... as string)`, which is also what Spark writes.
    """
    if not columns:
        return _keep_undivided
    import polars as pl

    from headrace.core.expressions.casts import build_cast_form

    types = {field.name: field.type for field in schema}
    shown = [
        pl.col(name)
        if types[name] == STRING
        else build_cast_form(types[name], STRING)(pl.col(name))
        for name in columns
    ]
    marks = [f"__folder{at}" for at in range(len(columns))]
    exprs = [expr.alias(mark) for expr, mark in zip(shown, marks, strict=True)]

    def spread(frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
        marked = frame.with_columns(exprs).drop(columns)
        parts = marked.partition_by(marks, as_dict=True, include_key=False, maintain_order=True)
        for values, part in parts.items():
            pairs = zip(columns, values, strict=True)
            yield "/".join(format_folder(column, value) for column, value in pairs), part

    return spread


def _keep_undivided(frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    yield "", frame
