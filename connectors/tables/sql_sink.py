"""Tables of PostgreSQL as sinks: writers stage rows, and the coordinator's half commits them.

Both halves call psycopg in threads. What is staged, and how it is committed, is in `sql_staging`.

Tests: tests/connectors/tables/test_sql_sink.py, tests/connectors/tables/test_sql_sink_kill.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import msgspec

from headrace.connectors.tables.client_libraries import import_extra, run_in_thread
from headrace.connectors.tables.copied_rows import encode_rows
from headrace.connectors.tables.sql_engine import SqlQuery, create_engine, translate_error
from headrace.connectors.tables.sql_sink_options import POSTGRESQL, SqlSink
from headrace.connectors.tables.sql_staging import (
    StagedHandle,
    Staging,
    StagingNote,
    commit_parts,
    delete_of_subtask,
    delete_parts,
    drop_if_unused,
    drop_staging,
    list_copied_columns,
    make_part_id,
    name_staging,
    parse_handle,
)
from headrace.connectors.tables.sql_target import (
    SinkRows,
    TargetTable,
    check_privileges,
    check_table,
    find_table,
    format_creation,
    list_names,
    quote_table,
)
from headrace.connectors.tables.urls import mask_secrets
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import JobNotes, NoJobNotes, RunContext
from headrace.core.api.sinks import SinkCoordinator, SinkWriter, WriterFactory
from headrace.core.api.snapshots import DamagedSnapshot
from headrace.core.api.splits import Handle
from headrace.core.api.state import Document
from headrace.core.api.stored_documents import MalformedDocument, convert_document
from headrace.core.errors import failpoints
from headrace.core.errors.problems import suggest_name
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema
from headrace.core.types.elements import DELETE
from headrace.core.types.frames import pick_columns

if TYPE_CHECKING:
    import polars as pl
    import psycopg
    import sqlalchemy as sa

T = TypeVar("T")

FLUSH_ROWS, FLUSH_BYTES = 50_000, 16 << 20
"""The rows, or their bytes, that are copied at once."""
CONNECT_TIMEOUT_S = 30
TRANSIENT_STATES = ("08", "25P03", "40", "53", "55", "57")
"""The beginnings of the error codes after which another attempt may succeed."""
CREATION_LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(7340572)"
"""Two jobs that create one table at the same time would fail."""
LIST_TABLES = (
    "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = coalesce(%s, current_schema())"
)


@dataclass(slots=True)
class Database:
    """Transactions in a PostgreSQL database, each in a thread of its own."""

    options: SqlSink
    folder: Path
    kernel_executor: KernelExecutor
    _engine: sa.Engine | None = None
    _is_closed: bool = False

    async def run(self, work: Callable[[psycopg.Cursor], T]) -> T:
        """Run work in a transaction. Raises ConnectorError."""
        query = SqlQuery()
        return await run_in_thread(
            self.kernel_executor, partial(self._run, query, work), query.cancel
        )

    def _run(self, query: SqlQuery, work: Callable[[psycopg.Cursor], T]) -> T:
        with self._begin(query) as cursor:
            return work(cursor)

    @contextmanager
    def _begin(self, query: SqlQuery) -> Iterator[psycopg.Cursor]:
        import psycopg
        import sqlalchemy as sa

        engine = self._engine or self._create_engine()
        try:
            with engine.connect() as connection:
                raw: Any = connection.connection.dbapi_connection
                query.connection = raw
                try:
                    with raw.transaction(), raw.cursor() as cursor:
                        yield cursor
                finally:
                    query.is_finished = True
        except psycopg.Error as error:
            raise self._translate_error(error) from None
        except sa.exc.SQLAlchemyError as error:
            raise translate_error(error, self.options.url) from None
        finally:
            if self._is_closed:  # `close` could not close the connection while it was in use
                engine.dispose()

    def _create_engine(self) -> sa.Engine:
        import_extra("sqlalchemy", "the sql sink", "SQLAlchemy", "sql")
        import_extra("psycopg", "the sql sink", "psycopg", "sql")
        self._engine = create_engine(
            self.options.url,
            self.folder,
            driver=f"{POSTGRESQL}+psycopg",
            connect_args={"connect_timeout": CONNECT_TIMEOUT_S},
        )
        return self._engine

    def _translate_error(self, error: psycopg.Error) -> ConnectorError:
        """Translate an error of the database, as one line without secrets."""
        code = error.sqlstate or ""
        lines = str(error).strip().splitlines() or [type(error).__name__]
        found = error.diag.message_detail or _find_copied_value(error.diag.context or "")
        message = mask_secrets(
            ": ".join([lines[0], *filter(None, [found])]), self.options.url.secrets
        )
        final = bool(code) and not code.startswith(TRANSIENT_STATES)
        hint = ""
        if code == "42501" and " schema " in lines[0]:  # insufficient_privilege
            hint = (
                "the sink stages rows in a table of its own: "
                "GRANT CREATE ON SCHEMA to the user of the pipeline"
            )
        elif code.startswith("23"):  # a constraint, which only the table itself has
            hint = (
                "the rows of the checkpoint stay staged: they are written by the next run if the "
                "table takes them then"
            )
        return ConnectorError(f"the database says: {message}", hint, final=final)

    async def close(self) -> None:
        """Close idle connections; those in use are closed when their work ends."""
        self._is_closed = True
        if self._engine is not None:
            self._engine.dispose()


def _find_copied_value(context: str) -> str:
    """Return the column and the value of an error in COPY.

    >>> _find_copied_value('COPY staging, line 1, column n: "x"')
    'column n: "x"'
    """
    _, found, value = context.partition(", column ")
    return f"column {value}" if found and context.startswith("COPY ") else ""


@dataclass(slots=True)
class TableSink:
    """The `SinkCoordinator` over a table."""

    name: str
    database: Database
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

    def _create_table(self, cursor: psycopg.Cursor) -> Staging:
        """Create the table if it is missing and to be created; return what is staged for it."""
        table = self._find_table(cursor)
        if not table.columns:
            cursor.execute(CREATION_LOCK)
            version = cursor.connection.info.server_version
            name = quote_table(table.schema or None, table.name)
            cursor.execute(format_creation(name, self.rows, version))
            table = self._find_table(cursor)
        self._table = table
        return Staging(table, name_staging(self.job, self.name), self.rows)

    async def describe_for_workers(self) -> Document:
        """Return the names of the tables, and the columns that must not be null."""
        if self._table is None:  # in an executor, which does not check the sink
            self._table = await self.database.run(self._find_table)
        staging = Staging(self._table, name_staging(self.job, self.name), self.rows)
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
        await self.database.run(partial(self._commit, staged, recorded))
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


def _prepare_staging(staging: Staging, note: StagingNote | None, cursor: psycopg.Cursor) -> None:
    if note is not None:
        drop_staging(cursor, quote_table(note.schema, note.staging))
    staging.recreate(cursor)


@dataclass(slots=True)
class TableWriters:
    """The `WriterFactory` over a table."""

    database: Database
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
        copy_in = f"COPY {handle.staging_table} ({columns}) FROM STDIN (FORMAT csv)"
        with cursor.copy(copy_in) as copy:
            copy.write(text)

    async def close(self) -> None:
        """Delete what was staged since the last `prepare`."""
        self._frames.clear()
        if self._copying is not None:
            self._copying.cancel()
            await asyncio.gather(self._copying, return_exceptions=True)
        if self._staged_rows:
            staging = parse_handle(self._writers.handle).staging_table
            with suppress(ConnectorError):
                await self._writers.database.run(
                    lambda cursor: delete_parts(cursor, staging, [self._part])
                )


def build_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> SinkCoordinator:
    """Build the coordinator's half of the sink that the plan describes."""
    return _build_sink(sink, schema, run_context)


def _build_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> TableSink:
    return TableSink(
        str(sink.name),
        _build_database(sink, run_context),
        _build_rows(sink, schema),
        run_context.job_id,
        run_context.notes,
    )


async def describe_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> str:
    """Describe the table. Raises ConnectorError if it does not take the rows."""
    opened = _build_sink(sink, schema, run_context)
    try:
        return await opened.describe()
    finally:
        await opened.close()


def build_writers(
    sink: nodes.Sink, schema: Schema, run_context: RunContext, link: CoordinatorLink
) -> WriterFactory:
    """Build the worker's half of the sink that the plan describes."""
    handle: Any = link.description["handle"]
    not_null: Any = link.description["not_null"]
    database = _build_database(sink, run_context)
    return TableWriters(database, _build_rows(sink, schema), handle, not_null)


def _build_database(sink: nodes.Sink, run_context: RunContext) -> Database:
    assert isinstance(sink.options, SqlSink)
    return Database(sink.options, run_context.folder, run_context.kernel_executor)


def _build_rows(sink: nodes.Sink, schema: Schema) -> SinkRows:
    columns = Schema(tuple(field for field in schema if field.name != DELETE))
    return SinkRows(columns, sink.key, len(columns) < len(schema))
