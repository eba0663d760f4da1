"""One output file while it is written: bytes are buffered and flushed to disk in bulk."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.connectors.files.body import OutputBody
from headrace.connectors.files.disk import append_bytes, sync_path
from headrace.connectors.files.failing import translate_errors
from headrace.connectors.files.names import format_hidden_path
from headrace.core.contracts import ConnectorError

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True)
class OutputPart:
    """A hidden file. `put` only uses memory; `flush` and `finish` wait for the disk."""

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
