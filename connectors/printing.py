"""Sinks that print: rows are emitted as they come, so there is nothing left to commit."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from headrace.connectors.output import StandardOutput
from headrace.connectors.table import Table
from headrace.core.contracts import Surroundings, Writer
from headrace.core.messages import Handle
from headrace.core.plan import nodes
from headrace.core.state import Document
from headrace.core.types import Schema

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True)
class Printing:
    """A `BlockingSink` on standard output; `make` encodes batches to bytes, one at a time."""

    columns: tuple[str, ...]
    make: Callable[[pl.DataFrame], bytes]
    surroundings: Surroundings
    head: bytes = b""
    """The bytes before the first row."""
    _out: StandardOutput = field(default_factory=StandardOutput)
    _printing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def check(self) -> None:
        """Raise ConnectorError if standard output is closed."""
        self._out.check()

    def writer(self, subtask: int, begun: Sequence[Document] = ()) -> Writer:
        """Return a writer that shares this sink's output with all other subtasks."""
        return Printer(self)

    def commit(self, handle: Handle) -> None:
        """Do nothing: printed rows are visible already."""

    def abort(self, handle: Handle) -> None:
        """Do nothing: printed rows cannot be taken back."""

    async def put(self, frame: pl.DataFrame) -> None:
        """Print a whole batch of rows; ask for the end of the job once the pipe is closed."""
        rows = frame.select(self.columns)
        bench = self.surroundings.bench
        async with self._printing:
            data = self.head + await bench.run(rows.height, partial(self.make, rows))
            self.head = b""
            is_read = await bench.blocking(partial(self._out.put, data))
        if not is_read:
            self.surroundings.stop()


@dataclass(frozen=True, slots=True)
class Printer:
    """A `SinkWriter` that prints the rows of one subtask."""

    sink: Printing

    async def write(self, frame: pl.DataFrame) -> None:
        await self.sink.put(frame)

    async def prepare(self) -> Handle | None:
        """Return None: printed rows need no commit."""
        return None

    def kept(self) -> Document | None:
        """Return None: the next writer needs no state."""
        return None

    async def close(self) -> None:
        """Do nothing: no resource is open."""


def console(schema: Schema, surroundings: Surroundings) -> Printing:
    """Return a sink that prints a table; on a terminal, the table fits its width."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    room = shutil.get_terminal_size().columns if on_terminal else None
    styled = on_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    table = Table(schema, room, bold=styled)
    return Printing(schema.names, lambda rows: table.lines(rows).encode(), surroundings)


def stdout(sink: nodes.Sink, schema: Schema, surroundings: Surroundings) -> Printing:
    """Return a sink that prints records in the sink's format."""
    from headrace.connectors.formats import encoder

    encodes = encoder(sink, schema)
    return Printing(schema.names, encodes.encode, surroundings, encodes.header())
