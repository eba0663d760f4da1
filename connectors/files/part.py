"""One output file while it is written: bytes are buffered and flushed to disk in bulk."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.connectors.files.body import Body
from headrace.connectors.files.disk import append, sync
from headrace.connectors.files.failing import telling
from headrace.connectors.files.names import hidden
from headrace.core.contracts import ConnectorError

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True)
class Part:
    """A hidden file. `put` only uses memory; `flush` and `finish` wait for the disk."""

    folder: str
    """The sink's folder."""
    path: str
    """The part's path within it, once it is committed."""
    body: Body
    since_s: float
    rows: int = 0
    size: int = 0
    """Bytes of the file, on disk or buffered."""
    waiting: list[bytes] = field(default_factory=list)
    on_disk: bool = False

    @property
    def hidden(self) -> str:
        """The path of the hidden file."""
        return os.path.join(self.folder, hidden(self.path))

    def put(self, frame: pl.DataFrame) -> int:
        """Add rows; return the number of bytes encoded by now."""
        self.rows += frame.height
        return self._gather(self.body.put(frame))

    def rest(self) -> int:
        """Encode all rows, so that none are held back; return the number of bytes."""
        return self._gather(self.body.rest())

    def _gather(self, data: bytes) -> int:
        if data:
            self.waiting.append(data)
            self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """Write the buffered bytes to disk."""
        with telling(f"write {self.hidden}"):
            if not self.on_disk:
                os.makedirs(os.path.dirname(self.hidden), exist_ok=True)
            try:
                append(self.hidden, self.waiting, new=not self.on_disk)
            except FileExistsError:
                raise ConnectorError(
                    f"{self.hidden} already exists",
                    "another sink, or another run, writes into this folder: each needs its own",
                ) from None
            except OSError:
                self.on_disk = True
                raise
        self.on_disk = True
        self.waiting.clear()

    def finish(self) -> None:
        """Write the end of the file, and wait until the file is durable."""
        self._gather(self.body.end())
        self.flush()
        with telling(f"write {self.hidden}"):
            sync(self.hidden)
