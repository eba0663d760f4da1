"""The coordinator's half of a SQL sink: checks the table, and commits what writers have staged.

What is staged, and how it is committed, is in `sql_staging`; the worker's half is in `sql_writer`.

Tests: tests/connectors/tables/test_sql_sink.py, tests/connectors/tables/test_sql_sink_kill.py.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from headrace.connectors.tables.postgres_database import PostgresDatabase, build_database
from headrace.connectors.tables.sql_sink_options import SqlSink
from headrace.connectors.tables.sql_staging import (
    StagedHandle,
    StagingNote,
    StagingTable,
    commit_parts,
    delete_of_subtask,
    delete_parts,
    drop_if_unused,
    drop_staging,
    name_staging,
    parse_handle,
)
from headrace.connectors.tables.sql_target import (
    SinkRows,
    TargetTable,
    build_sink_rows,
    check_privileges,
    check_table,
    find_table,
    format_creation,
    quote_table,
)
from headrace.core.api.failures import ConnectorError
from headrace.core.api.run_context import JobNotes, NoJobNotes, RunContext
from headrace.core.api.sinks import SinkCoordinator
from headrace.core.api.snapshots import DamagedSnapshot
from headrace.core.api.splits import Handle
from headrace.core.api.state import Document
from headrace.core.api.stored_documents import MalformedDocument, convert_document
from headrace.core.errors import failpoints
from headrace.core.errors.problems import suggest_name
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import psycopg

STAGED_HINT = (
    "the rows of the checkpoint stay staged: the next run writes them, if the table takes them then"
)
CREATION_LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(7340572)"
"""Two jobs that create one table at the same time would fail."""
LIST_TABLES = (
    "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = coalesce(%s, current_schema())"
)


@dataclass(slots=True)
class TableSink:
    """The `SinkCoordinator` over a table."""

    name: str
    database: PostgresDatabase
    rows: SinkRows
    job: str
    notes: JobNotes
    _table: TargetTable | None = None
    _is_checked: bool = False
    """Whether the staging table is one that this half has created."""
    _committed: list[UUID] = field(default_factory=list)
    """The parts whose commit may be repeated."""
    _unrepeatable: list[UUID] = field(default_factory=list)
    """The parts whose commit is recorded, and whose marks are not removed yet."""

    @property
    def options(self) -> SqlSink:
        """The options of the sink."""
        return self.database.options

    async def describe(self) -> str:
        """Describe the table, and change nothing. Raises ConnectorError if rows do not fit it."""
        await self.database.run(self._find_table)
        return f"{self.options.url}, table {self.options.table}"

    async def check(self) -> None:
        """Check that the table takes the rows, and create the staging table, without rows."""
        note = await self._read_note()
        staging = await self.database.run(self._create_table)
        new = StagingNote(staging.table.schema, staging.name)
        if note != new:
            write = partial(self.notes.write, self._note_name, msgspec.to_builtins(new))
            await self.database.kernel_executor.run_blocking(write)
        await self.database.run(partial(_prepare_staging, staging, note))
        self._is_checked = True
        self._committed, self._unrepeatable = [], []

    @property
    def _note_name(self) -> str:
        return f"{self.name}.sql"

    async def _read_note(self) -> StagingNote | None:
        """Return the staging table of the attempt before. Raises SnapshotError."""
        name = self._note_name
        read = partial(self.notes.read, name)
        noted = await self.database.kernel_executor.run_blocking(read)
        try:
            return None if noted is None else convert_document(noted, StagingNote)
        except MalformedDocument as error:
            message = f"the note of {self.name} in the home of the job is damaged: {error}"
            hint = f"remove notes/{name}.json there: a staging table of an earlier job then stays"
            raise DamagedSnapshot(message, hint) from error

    def _find_table(self, cursor: psycopg.Cursor) -> TargetTable:
        """Return the table, if it takes the rows; it may be missing if it is to be created."""
        options, version = self.options, cursor.connection.info.server_version
        schema = str(options.schema_) if options.schema_ else None
        table = find_table(cursor, schema, str(options.table))
        if table is None:
            if options.create:
                return TargetTable(schema or "", str(options.table), (), {})
            raise self._build_missing_error(cursor, schema, version)
        check_table(table, self.rows, version)
        check_privileges(cursor, table, self.rows)
        return table

    def _build_missing_error(
        self, cursor: psycopg.Cursor, schema: str | None, version: int
    ) -> ConnectorError:
        name = self.options.table
        tables = [row[0] for row in cursor.execute(LIST_TABLES, (schema,)).fetchall()]
        statement = format_creation(quote_table(schema, str(name)), self.rows, version)
        near = suggest_name(name, tables)
        hint = f"{near + ' Or ' if near else ''}create: true creates it, as by {statement}"
        return ConnectorError(f'there is no table "{name}"', hint, exit_status=2, final=True)

    def _create_table(self, cursor: psycopg.Cursor) -> StagingTable:
        """Create the table if it is missing and to be created; return what is staged for it."""
        table = self._find_table(cursor)
        if not table.columns:
            cursor.execute(CREATION_LOCK)
            version = cursor.connection.info.server_version
            name = quote_table(table.schema or None, table.name)
            cursor.execute(format_creation(name, self.rows, version))
            table = self._find_table(cursor)
        self._table = table
        return StagingTable(table, name_staging(self.job, self.name), self.rows)

    async def describe_for_workers(self) -> Document:
        """Return the names of the tables, and the columns that must not be null."""
        if self._table is None:  # in an executor, which does not check the sink
            self._table = await self.database.run(self._find_table)
        staging = StagingTable(self._table, name_staging(self.job, self.name), self.rows)
        return {
            "handle": staging.build_handle(UUID(int=0), 1),
            "not_null": self._table.list_not_null(self.rows),
        }

    async def answer(self, request: Document) -> Document:
        """Reject the request: the worker's half sends none."""
        raise NotImplementedError(f"no request is expected, got {sorted(request)}")

    async def commit(self, handle: Handle) -> None:
        """Move staged rows to the table, unless an earlier commit of the handle has done so."""
        failpoints.failpoint("sink.committing")
        staged = parse_handle(handle)
        recorded = list(self._unrepeatable)
        try:
            await self.database.run(partial(self._commit, staged, recorded))
        except ConnectorError as error:
            if error.is_final:
                error.hint = error.hint or STAGED_HINT
            raise
        self._unrepeatable = self._unrepeatable[len(recorded) :]
        self._committed += staged.ids
        failpoints.failpoint("sink.committed")

    def _commit(
        self, handle: StagedHandle, unrepeatable: Sequence[UUID], cursor: psycopg.Cursor
    ) -> None:
        commit_parts(cursor, handle, unrepeatable)
        failpoints.failpoint("sink.applied")

    def on_commits_recorded(self) -> None:
        """Let the next commit remove the marks of those so far."""
        self._unrepeatable += self._committed
        self._committed = []

    async def abort(self, handle: Handle) -> None:
        """Delete staged rows."""
        staged = parse_handle(handle)
        await self.database.run(
            lambda cursor: delete_parts(cursor, staged.staging_table, staged.ids)
        )

    async def end_lost_writers(self, subtasks: Collection[int]) -> None:
        """Delete the staged rows of these subtasks."""
        staging = self._quote_staging()

        def delete_all(cursor: psycopg.Cursor) -> None:
            for subtask in subtasks:
                delete_of_subtask(cursor, staging, subtask)

        await self.database.run(delete_all)

    def _quote_staging(self) -> str:
        assert self._table is not None, "the sink was checked"
        return quote_table(self._table.schema, name_staging(self.job, self.name))

    async def close(self) -> None:
        """Drop the staging table if nothing in it is needed, and close the connections."""
        may_repeat = bool(self._committed) and not isinstance(self.notes, NoJobNotes)
        if self._is_checked and not may_repeat:
            with suppress(ConnectorError, TimeoutError):
                await self.database.run(partial(drop_if_unused, staging=self._quote_staging()))
        await self.database.close()


def _prepare_staging(
    staging: StagingTable, note: StagingNote | None, cursor: psycopg.Cursor
) -> None:
    if note is not None:
        drop_staging(cursor, quote_table(note.schema, note.staging))
    staging.recreate(cursor)


def build_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> SinkCoordinator:
    """Build the coordinator's half of the sink that the plan describes."""
    return _build_sink(sink, schema, run_context)


async def describe_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> str:
    """Describe the table. Raises ConnectorError if it does not take the rows."""
    opened = _build_sink(sink, schema, run_context)
    try:
        return await opened.describe()
    finally:
        await opened.close()


def _build_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> TableSink:
    return TableSink(
        str(sink.name),
        build_database(sink, run_context),
        build_sink_rows(sink, schema),
        run_context.job_id,
        run_context.notes,
    )
