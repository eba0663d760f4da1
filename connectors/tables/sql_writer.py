"""The worker's half of a SQL sink: copies rows to the staging table.

Tests: tests/connectors/tables/test_sql_sink.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.connectors.tables.copied_rows import encode_rows
from headrace.connectors.tables.postgres_database import PostgresDatabase, build_database
from headrace.connectors.tables.sql_staging import (
    delete_parts,
    list_copied_columns,
    make_part_id,
    parse_handle,
)
from headrace.connectors.tables.sql_target import SinkRows, build_sink_rows, list_names
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.failures import ConnectorError
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkWriter, WriterFactory
from headrace.core.api.splits import Handle
from headrace.core.api.state import Document
from headrace.core.errors import failpoints
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema
from headrace.core.types.elements import DELETE
from headrace.core.types.frames import pick_columns
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl
    import psycopg

FLUSH_ROWS, FLUSH_BYTES = 50_000, 16 << 20
"""The rows, or their bytes, that are copied at once."""
CLOSE_TIMEOUT_S = 2.0
"""The time to wait at the end for rows that are being copied; the next attempt removes them too."""


@dataclass(slots=True)
class TableWriters:
    """The `WriterFactory` over a table."""

    database: PostgresDatabase
    rows: SinkRows
    handle: Handle
    """The handle of no part, as the coordinator's half describes it."""
    not_null: Sequence[str]

    def create_writer(self, subtask: int, states: Sequence[Document] = ()) -> SinkWriter:
        """Return a writer, which connects at its first rows."""
        return StagingWriter(self, subtask)

    def check_nulls(self, frame: pl.DataFrame) -> None:
        """Check that the table accepts the nulls of these rows. Raises ConnectorError."""
        import polars as pl

        # Of a deleted row, only the key is read.
        kept = frame.filter(~pl.col(DELETE)) if self.rows.has_deletes else frame
        for name in self.not_null:
            rows = frame if name in self.rows.key else kept
            if rows[name].null_count():
                table = self.database.options.table
                message = f'"{name}" is null in a row, and not in table "{table}"'
                hint = (
                    "where: ... IS NOT NULL in a step before drops such rows; or change the table"
                )
                if name in self.rows.key:
                    hint += ": a key with nulls needs UNIQUE NULLS NOT DISTINCT"
                raise ConnectorError(message, hint, final=True)

    async def close(self) -> None:
        """Close the connections."""
        await self.database.close()


class StagingWriter:
    """Copies the rows of one subtask to the staging table, while the next rows come."""

    def __init__(self, writers: TableWriters, subtask: int) -> None:
        self._writers = writers
        self._subtask = subtask
        self._part = make_part_id(subtask)
        self._staged_rows = 0
        self._frames: list[pl.DataFrame] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._copying: asyncio.Task[None] | None = None

    async def write(self, frame: pl.DataFrame) -> None:
        self._frames.append(frame)
        self._waiting_rows += frame.height
        self._waiting_bytes += int(frame.estimated_size())
        if self._waiting_rows >= FLUSH_ROWS or self._waiting_bytes >= FLUSH_BYTES:
            await self._start_copying()

    async def prepare(self) -> Handle | None:
        """Stage all rows; return the handle of the part."""
        await self._start_copying()
        await self._finish_copying()
        if not self._staged_rows:
            return None
        parts = [{"id": self._part.hex, "rows": self._staged_rows}]
        self._part, self._staged_rows = make_part_id(self._subtask), 0
        failpoints.failpoint("sink.prepared")
        return {**self._writers.handle, "parts": parts}

    def snapshot_state(self) -> None:
        """Return no state."""

    async def _start_copying(self) -> None:
        """Start to copy the waiting rows, when those before are copied."""
        await self._finish_copying()
        if self._waiting_rows:
            copy = partial(self._copy, self._frames, self._staged_rows)
            self._staged_rows += self._waiting_rows
            self._frames, self._waiting_rows, self._waiting_bytes = [], 0, 0
            self._copying = asyncio.create_task(self._writers.database.run(copy))

    async def _finish_copying(self) -> None:
        """Wait until the rows that are being copied are staged. Raises ConnectorError."""
        if self._copying is not None:
            copying, self._copying = self._copying, None
            await copying
            failpoints.failpoint("sink.flushed")

    def _copy(self, frames: Sequence[pl.DataFrame], first_row: int, cursor: psycopg.Cursor) -> None:
        import polars as pl

        rows, handle = self._writers.rows, parse_handle(self._writers.handle)
        names = (*rows.columns.names, *((DELETE,) if rows.has_deletes else ()))
        frame = pl.concat([pick_columns(each, names) for each in frames])
        self._writers.check_nulls(frame)
        text = encode_rows(frame, rows, self._part, first_row)
        columns = list_names(list_copied_columns(rows).names)
        options = "FORMAT csv, ENCODING 'UTF8'"
        copy_in = f"COPY {handle.staging_table} ({columns}) FROM STDIN ({options})"
        with cursor.copy(copy_in) as copy:
            copy.write(text)

    async def close(self) -> None:
        """Delete what was staged since the last `prepare`."""
        self._frames.clear()
        if self._copying is not None:
            await asyncio.wait([self._copying], timeout=CLOSE_TIMEOUT_S)
            self._copying.cancel()
            await asyncio.gather(self._copying, return_exceptions=True)
        if self._staged_rows:
            staging = parse_handle(self._writers.handle).staging_table
            with suppress(ConnectorError):
                await self._writers.database.run(
                    lambda cursor: delete_parts(cursor, staging, [self._part])
                )


def build_writers(
    sink: nodes.Sink, schema: Schema, run_context: RunContext, link: CoordinatorLink
) -> WriterFactory:
    """Build the worker's half of the sink that the plan describes."""
    handle: Any = link.description["handle"]
    not_null: Any = link.description["not_null"]
    rows = build_sink_rows(sink, schema)
    return TableWriters(build_database(sink, run_context), rows, handle, not_null)
