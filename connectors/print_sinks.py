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

from headrace.connectors.standard_output import StandardOutput
from headrace.connectors.text_table import TextTable
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkWriter
from headrace.core.api.splits import Handle
from headrace.core.api.state import Document
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True)
class PrintSink:
    """A `BlockingSink` on standard output; `encode_rows` encodes one batch at a time."""

    columns: tuple[str, ...]
    encode_rows: Callable[[pl.DataFrame], bytes]
    run_context: RunContext
    header: bytes = b""
    """The bytes before the first row."""
    _output: StandardOutput = field(default_factory=StandardOutput)
    _print_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def check(self) -> None:
        """Raise ConnectorError if standard output is closed."""
        self._output.check()

    def create_writer(self, subtask: int, begun: Sequence[Document] = ()) -> SinkWriter:
        """Return a writer that shares this sink's output with all other subtasks."""
        return PrintWriter(self)

    def commit(self, handle: Handle) -> None:
        """Do nothing: printed rows are visible already."""

    def abort(self, handle: Handle) -> None:
        """Do nothing: printed rows cannot be taken back."""

    async def print_rows(self, frame: pl.DataFrame) -> None:
        """Print a whole batch of rows; ask for the end of the job once the pipe is closed."""
        rows = frame.select(self.columns)
        executor = self.run_context.kernel_executor
        async with self._print_lock:
            data = self.header + await executor.run(rows.height, partial(self.encode_rows, rows))
            self.header = b""
            is_read = await executor.run_blocking(partial(self._output.write, data))
        if not is_read:
            self.run_context.request_stop()


@dataclass(frozen=True, slots=True)
class PrintWriter:
    """A `SinkWriter` that prints the rows of one subtask."""

    sink: PrintSink

    async def write(self, frame: pl.DataFrame) -> None:
        await self.sink.print_rows(frame)

    async def prepare(self) -> Handle | None:
        """Return None: printed rows need no commit."""
        return None

    def snapshot_state(self) -> Document | None:
        """Return None: the next writer needs no state."""
        return None

    async def close(self) -> None:
        """Do nothing: no resource is open."""


def build_console_sink(schema: Schema, run_context: RunContext) -> PrintSink:
    """Return a sink that prints a table; on a terminal, the table fits its width."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    room = shutil.get_terminal_size().columns if on_terminal else None
    styled = on_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    table = TextTable(schema, room, bold=styled)
    return PrintSink(schema.names, lambda rows: table.format_rows(rows).encode(), run_context)


def build_stdout_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> PrintSink:
    """Return a sink that prints records in the sink's format."""
    from headrace.connectors.formats import build_encoder

    encodes = build_encoder(sink, schema)
    return PrintSink(schema.names, encodes.encode, run_context, encodes.header())
