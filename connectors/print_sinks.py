"""Sinks that print: rows are emitted as they come, so there is nothing left to commit.

All rows are printed by the coordinator's half: whole batches, one after the other, after one header
or into one table. The writers, which may be in several processes, send it their rows and wait until
these are printed.
"""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

from headrace.connectors.standard_output import StandardOutput
from headrace.connectors.text_table import TextTable
from headrace.core.api.coordinator_link import CoordinatorLink, CoordinatorRequest
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkWriter
from headrace.core.api.splits import Handle
from headrace.core.api.state import Document
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True)
class PrintSink:
    """A `SinkCoordinator` on standard output; `format_data` formats what a writer has sent."""

    run_context: RunContext
    format_data: Callable[[bytes], bytes] = bytes
    header: bytes = b""
    """The bytes before the first row."""
    _output: StandardOutput = field(default_factory=StandardOutput)
    _print_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def check(self) -> None:
        """Raise ConnectorError if standard output is closed."""
        self._output.check()

    async def describe_for_workers(self) -> Document:
        """Return nothing."""
        return {}

    async def answer(self, request: Document) -> Document:
        """Print the rows of a writer; request the end of the job once the pipe is closed."""
        data, rows = request["data"], int(str(request["rows"]))
        assert isinstance(data, bytes)
        executor = self.run_context.kernel_executor
        async with self._print_lock:
            text = self.header + await executor.run(rows, partial(self.format_data, data))
            self.header = b""
            is_read = await executor.run_blocking(partial(self._output.write, text))
        if not is_read:
            self.run_context.request_stop()
        return {}

    async def commit(self, handle: Handle) -> None:
        """Do nothing: printed rows are visible already."""

    def on_commits_recorded(self) -> None:
        """Do nothing: there are no commits."""

    async def abort(self, handle: Handle) -> None:
        """Do nothing: printed rows cannot be taken back."""

    async def end_lost_writers(self, subtasks: Collection[int]) -> None:
        """Do nothing: printed rows cannot be taken back."""

    async def close(self) -> None:
        """Do nothing: no resource is open."""


@dataclass(frozen=True, slots=True)
class PrintWriters:
    """The `WriterFactory` of a sink that prints; `encode_rows` encodes one batch at a time."""

    columns: tuple[str, ...]
    encode_rows: Callable[[pl.DataFrame], bytes]
    kernel_executor: KernelExecutor
    request: CoordinatorRequest

    def create_writer(self, subtask: int, states: Sequence[Document] = ()) -> SinkWriter:
        """Return a writer."""
        return PrintWriter(self)

    async def close(self) -> None:
        """Do nothing: no resource is open."""


@dataclass(frozen=True, slots=True)
class PrintWriter:
    """A `SinkWriter` that has the rows of one subtask printed."""

    writers: PrintWriters

    async def write(self, frame: pl.DataFrame) -> None:
        """Encode a whole batch of rows, and wait until it is printed."""
        rows = frame.select(self.writers.columns)
        encode = partial(self.writers.encode_rows, rows)
        data = await self.writers.kernel_executor.run(rows.height, encode)
        await self.writers.request({"data": data, "rows": rows.height})

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
    return PrintSink(run_context, lambda data: table.format_rows(_decode_frame(data)).encode())


def build_console_writers(
    schema: Schema, run_context: RunContext, link: CoordinatorLink
) -> PrintWriters:
    """Return the writers of a sink that prints a table: its widths depend on the rows before."""
    return PrintWriters(schema.names, _encode_frame, run_context.kernel_executor, link.request)


def build_stdout_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> PrintSink:
    """Return a sink that prints records in the sink's format."""
    from headrace.connectors.formats.factories import build_encoder

    return PrintSink(run_context, header=build_encoder(sink, schema).header())


def build_stdout_writers(
    sink: nodes.Sink, schema: Schema, run_context: RunContext, link: CoordinatorLink
) -> PrintWriters:
    """Return the writers of a sink that prints records in the sink's format."""
    from headrace.connectors.formats.factories import build_encoder

    encoder = build_encoder(sink, schema)
    return PrintWriters(schema.names, encoder.encode, run_context.kernel_executor, link.request)


def _encode_frame(frame: pl.DataFrame) -> bytes:
    target = io.BytesIO()
    frame.write_ipc(target, compression="uncompressed")
    return target.getvalue()


def _decode_frame(data: bytes) -> pl.DataFrame:
    import polars as pl

    return pl.read_ipc(io.BytesIO(data))
