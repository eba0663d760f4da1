"""The staging table of a SQL sink: what is prepared, and the transaction that makes it final.

Each job has a staging table for each of its sinks, beside the table that it writes. Writers copy
rows there; those of one subtask between two barriers are a *part*. A commit moves the rows of its
parts to the table, and leaves a mark for each part, in one transaction. So a commit that is
repeated finds the mark, and does nothing; without rows and mark, it is refused. A mark is removed
once no commit of its part can be repeated.

The staging table has the columns of the rows with the types of the table, so a value that the table
cannot hold fails when it is copied, before any checkpoint names it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID, uuid4

import msgspec
from msgspec import Meta, field

from headrace.connectors.tables.sql_target import (
    SinkRows,
    TargetTable,
    list_names,
    quote,
    quote_table,
)
from headrace.core.api.failures import ConnectorError
from headrace.core.api.splits import Handle
from headrace.core.api.stored_documents import convert_document
from headrace.core.types.data_types import BIGINT, BOOLEAN, STRING, Field, Schema
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import psycopg

PART, ROW, DELETES = "headrace_part", "headrace_row", "headrace_delete"
"""The part of a row, its number in the part, and whether it deletes the row with its key."""
MARK = -1
"""The number of the row that marks a part as committed."""
IDS = "\0ids"
"""The place of the parts' ids in a statement; no name has such a character."""
SUBTASK_SHIFT = 96
"""The bits of a part's id after those of its subtask."""

Subtask = Annotated[int, Meta(ge=0)]


class StagedPart(msgspec.Struct):
    """The rows that one subtask wrote between two barriers."""

    id: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")] = field(name="id")
    rows: Annotated[int, Meta(ge=1)] = field(name="rows")


class StagedHandle(msgspec.Struct):
    """All that a commit must know: it may be made by a later run of a changed pipeline."""

    schema: str = field(name="schema")
    staging: str = field(name="staging")
    table: str = field(name="table")
    columns: list[str] = field(name="columns")
    key: list[str] = field(name="key")
    has_deletes: bool = field(name="deletes")
    has_equal_nulls: bool = field(name="equal_nulls")
    parts: list[StagedPart] = field(name="parts")

    @property
    def ids(self) -> list[UUID]:
        """The ids of the parts."""
        return [UUID(part.id) for part in self.parts]

    @property
    def staging_table(self) -> str:
        """The staging table in a statement."""
        return quote_table(self.schema, self.staging)


class StagingNote(msgspec.Struct):
    """The staging table of a sink, which a later job of the same home removes."""

    schema: str = field(name="schema")
    staging: str = field(name="staging")


def parse_handle(handle: Handle) -> StagedHandle:
    """Parse a handle. Raises MalformedDocument."""
    return convert_document(handle, StagedHandle)


def merge_handles(handles: Sequence[Handle]) -> Sequence[Handle]:
    """Merge the handles of all writers of a batch run, so that one transaction commits them."""
    if not handles:
        return ()
    parts = [part for handle in handles for part in parse_handle(handle).parts]
    return ({**handles[0], "parts": msgspec.to_builtins(parts)},)


def name_staging(job: str, sink: str) -> str:
    """Return the name of the staging table of a job's sink.

    >>> name_staging("4fd2", "out")
    'headrace_staging_46fc776d97102cd1'
    """
    return f"headrace_staging_{hashlib.sha256(f'{job} {sink}'.encode()).hexdigest()[:16]}"


def make_part_id(subtask: int) -> UUID:
    """Return a new id of a part; ids of a subtask are next to each other."""
    return UUID(int=subtask % (1 << 32) << SUBTASK_SHIFT | uuid4().int % (1 << SUBTASK_SHIFT))


@dataclass(frozen=True, slots=True)
class StagingTable:
    """The staging table of a sink, for a table and its rows."""

    table: TargetTable
    name: str
    rows: SinkRows

    @property
    def quoted_name(self) -> str:
        """The name in a statement."""
        return quote_table(self.table.schema, self.name)

    def recreate(self, cursor: psycopg.Cursor) -> None:
        """Create it without rows; what was in it belongs to no checkpoint."""
        drop_staging(cursor, self.quoted_name)
        columns = [f"NULL::uuid AS {PART}", f"NULL::bigint AS {ROW}"]
        columns += [f"NULL::boolean AS {DELETES}"] if self.rows.has_deletes else []
        columns += map(quote, self.rows.columns.names)
        name, of = self.quoted_name, self.table.quoted_name
        cursor.execute(f"CREATE TABLE {name} AS SELECT {', '.join(columns)} FROM {of} WITH NO DATA")
        cursor.execute(f"CREATE UNIQUE INDEX ON {name} ({PART}) WHERE {ROW} = {MARK}")

    def build_handle(self, part: UUID, rows: int) -> Handle:
        """Build the handle of a part."""
        equal_nulls = self.table.unique_keys.get(frozenset(self.rows.key), False)
        handle = StagedHandle(
            self.table.schema,
            self.name,
            self.table.name,
            list(self.rows.columns.names),
            list(self.rows.key),
            self.rows.has_deletes,
            equal_nulls,
            [StagedPart(part.hex, rows)],
        )
        document: dict[str, Any] = msgspec.to_builtins(handle)
        return document


def list_copied_columns(rows: SinkRows) -> Schema:
    """Return the columns that are copied to a staging table."""
    own = [Field(PART, STRING), Field(ROW, BIGINT)]
    own += [Field(DELETES, BOOLEAN)] if rows.has_deletes else []
    return Schema((*own, *rows.columns))


END_OTHERS = """
SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_locks
WHERE relation = pg_catalog.to_regclass(%s) AND pid <> pg_catalog.pg_backend_pid()
"""


def drop_staging(cursor: psycopg.Cursor, staging: str) -> None:
    """Drop a staging table, if it exists, and end the connections that still use it.

    They are of attempts that have ended, perhaps of a process that hangs.
    """
    cursor.execute(END_OTHERS, [staging])
    cursor.execute(f"DROP TABLE IF EXISTS {staging}")


def drop_if_unused(cursor: psycopg.Cursor, staging: str) -> None:
    """Drop a staging table, unless rows are in it."""
    if cursor.execute(f"SELECT 1 FROM {staging} WHERE {ROW} <> {MARK} LIMIT 1").fetchone() is None:
        drop_staging(cursor, staging)


def delete_parts(cursor: psycopg.Cursor, staging: str, ids: Sequence[UUID]) -> None:
    """Delete the rows of parts that will not be committed."""
    condition = f"{PART} = ANY ({IDS}) AND {ROW} <> {MARK}"
    _execute(cursor, f"DELETE FROM {staging} WHERE {condition}", ids)


def delete_of_subtask(cursor: psycopg.Cursor, staging: str, subtask: int) -> None:
    """Delete all rows of a subtask that are in no committed part."""
    first, last = UUID(int=subtask << SUBTASK_SHIFT), UUID(int=((subtask + 1) << SUBTASK_SHIFT) - 1)
    condition = f"{PART} BETWEEN '{first}' AND '{last}' AND {ROW} <> {MARK}"
    cursor.execute(f"DELETE FROM {staging} WHERE {condition}")


def _execute(cursor: psycopg.Cursor, statement: str, ids: Sequence[UUID]) -> None:
    """Execute a statement in which `IDS` stands for the ids of parts."""
    cursor.execute(statement.replace("%", "%%").replace(IDS, "%s"), [list(ids)])


def commit_parts(
    cursor: psycopg.Cursor, handle: StagedHandle, unrepeatable: Sequence[UUID] = ()
) -> None:
    """Move the rows of parts to the table, in the transaction of the cursor; once for each part.

    The marks of the parts `unrepeatable` are removed. Raises ConnectorError if the rows are not
    there.
    """
    import psycopg

    staging, ids = handle.staging_table, handle.ids
    try:
        # The first statement waits for another commit of the same parts, if one is under way.
        _execute(
            cursor,
            f"INSERT INTO {staging} ({PART}, {ROW}) SELECT unnest({IDS}), {MARK} "
            f"ON CONFLICT ({PART}) WHERE {ROW} = {MARK} DO NOTHING",
            ids,
        )
    except psycopg.errors.UndefinedTable:
        raise _build_loss_error(handle) from None
    if not cursor.rowcount:
        return
    if unrepeatable:
        condition = f"{PART} = ANY ({IDS}) AND {ROW} = {MARK}"
        _execute(cursor, f"DELETE FROM {staging} WHERE {condition}", unrepeatable)
    for statement in format_moves(handle):
        _execute(cursor, statement, ids)
    delete_parts(cursor, staging, ids)
    if cursor.rowcount != sum(part.rows for part in handle.parts):
        raise _build_loss_error(handle)


def _build_loss_error(handle: StagedHandle) -> ConnectorError:
    rows = sum(part.rows for part in handle.parts)
    message = (
        f'{rows:,} rows for table "{handle.table}" are lost: a checkpoint names them, and they are '
        f"not in {handle.staging_table}"
    )
    hint = "an earlier checkpoint or savepoint writes them again"
    return ConnectorError(message, hint, final=True)


def format_moves(handle: StagedHandle) -> list[str]:
    """Return the statements that apply staged rows to the table, in order.

    >>> handle = StagedHandle("s", "g", "t", ["a"], [], False, False, [])
    >>> [statement.replace(IDS, "?") for statement in format_moves(handle)]
    ['INSERT INTO "s"."t" ("a") SELECT "a" FROM "s"."g" \
WHERE headrace_part = ANY (?) AND headrace_row <> -1']
    """
    target, columns = quote_table(handle.schema, handle.table), list_names(handle.columns)
    rows = f"FROM {handle.staging_table} WHERE {PART} = ANY ({IDS}) AND {ROW} <> {MARK}"
    insert = f"INSERT INTO {target} ({columns})"
    if not handle.key:
        return [f"{insert} SELECT {columns} {rows}"]
    key = list_names(handle.key)
    last = f"SELECT DISTINCT ON ({key}) * {rows} ORDER BY {key}, {ROW} DESC"
    upserted = f" WHERE NOT {DELETES}" if handle.has_deletes else ""
    changed = [quote(name) for name in handle.columns if name not in handle.key]
    values = ", ".join(f"{name} = excluded.{name}" for name in changed)
    action = f"UPDATE SET {values}" if changed else "NOTHING"
    conflict = f"ON CONFLICT ({key}) DO {action}"
    upsert = f"{insert} SELECT {columns} FROM ({last}) l{upserted} {conflict}"
    return [*_format_deletes(handle, target, last), upsert]


def _format_deletes(handle: StagedHandle, target: str, last: str) -> list[str]:
    """Return the statements that delete rows: the index serves only keys without nulls."""
    if not handle.has_deletes:
        return []
    delete = f"DELETE FROM {target} t USING ({last}) l WHERE l.{DELETES}"
    names = [quote(name) for name in handle.key]
    equal = " AND ".join(f"t.{name} = l.{name}" for name in names)
    if not handle.has_equal_nulls:
        return [f"{delete} AND {equal}"]
    has_null = " OR ".join(f"l.{name} IS NULL" for name in names)
    alike = " AND ".join(f"t.{name} IS NOT DISTINCT FROM l.{name}" for name in names)
    return [f"{delete} AND {equal}", f"{delete} AND ({has_null}) AND {alike}"]
