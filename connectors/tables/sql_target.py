"""The table that a SQL sink writes: its columns and unique keys, and whether rows fit it.

Values are never converted by headrace: a column takes the values of a type if the database reads
all of them without loss. What does not fit is reported with the statements that would mend it.

Tests: tests/connectors/tables/test_sql_target.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.api.failures import ConnectorError
from headrace.core.plan import nodes
from headrace.core.types.data_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Decimal,
    Schema,
    Time,
    Type,
)
from headrace.core.types.elements import DELETE
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import psycopg

TYPE_NAMES: dict[Type, tuple[str, ...]] = {
    BOOLEAN: ("boolean",),
    TINYINT: ("smallint", "integer", "bigint"),
    SMALLINT: ("smallint", "integer", "bigint"),
    INT: ("integer", "bigint"),
    BIGINT: ("bigint",),
    FLOAT: ("real", "double precision"),
    DOUBLE: ("double precision",),
    STRING: ("text", "character varying", "character", "citext", "uuid", "json", "jsonb", "inet"),
    BINARY: ("bytea",),
    DATE: ("date",),
    TIMESTAMP: ("timestamp with time zone", "timestamp without time zone"),
    TIMESTAMP_NTZ: ("timestamp without time zone",),
}
"""The database's types that take all values of a type; the first is that of a created table."""
NESTED_NAMES = ("jsonb", "json", "text")
TIME_NAMES = ("time without time zone",)
INTEGER_DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 19}
PRECISION = re.compile(r"\((\d+)(?:,(-?\d+))?\)")
NULLS_NOT_DISTINCT_VERSION = 150000
"""The server version since which a unique index may take nulls for equal."""

FIND_TABLE = """
SELECT c.oid, n.nspname, c.relkind
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = pg_catalog.to_regclass(%s)
"""
FIND_COLUMNS = """
SELECT a.attname,
  CASE WHEN t.typtype = 'd' THEN pg_catalog.format_type(t.typbasetype, t.typtypmod)
    ELSE pg_catalog.format_type(a.atttypid, a.atttypmod) END,
  t.typtype = 'e', a.attnotnull OR t.typnotnull, a.atthasdef OR a.attidentity <> '',
  a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
FIND_UNIQUE_KEYS = """
SELECT
  ARRAY (
    SELECT a.attname::text FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
  ),
  coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false)
FROM pg_catalog.pg_index i
WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate
  AND i.indpred IS NULL AND i.indexprs IS NULL
"""
FIND_MISSING_PRIVILEGES = """
SELECT privilege FROM unnest(%s::text[]) privilege
WHERE NOT pg_catalog.has_table_privilege(%s::pg_catalog.regclass, privilege)
"""


@dataclass(frozen=True, slots=True)
class SinkRows:
    """The rows that a sink writes: their columns, and the key by which they replace others."""

    columns: Schema
    key: tuple[str, ...] = ()
    has_deletes: bool = False


def build_sink_rows(sink: nodes.Sink, schema: Schema) -> SinkRows:
    """Build the description of the rows that a sink writes."""
    columns = Schema(tuple(field for field in schema if field.name != DELETE))
    return SinkRows(columns, sink.key, len(columns) < len(schema))


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of the table."""

    name: str
    type: str
    is_enum: bool
    is_not_null: bool
    has_default: bool
    is_computed: bool


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table of the database."""

    schema: str
    name: str
    columns: tuple[TableColumn, ...]
    unique_keys: dict[frozenset[str], bool]
    """The columns of each unique index, and whether it takes nulls for equal."""

    @property
    def quoted_name(self) -> str:
        """The name in a statement."""
        return quote_table(self.schema, self.name)

    def list_not_null(self, rows: SinkRows) -> list[str]:
        """Return the columns of the rows in which the table accepts no null."""
        strict = {column.name for column in self.columns if column.is_not_null}
        if rows.key and not self.unique_keys.get(frozenset(rows.key)):
            strict.update(rows.key)  # a null in a unique index is no duplicate of another null
        return [name for name in rows.columns.names if name in strict]


def quote(name: str) -> str:
    """Return a name in a statement.

    >>> quote('a "b"')
    '"a ""b\"""'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_table(schema: str | None, table: str) -> str:
    """Return the name of a table in a statement."""
    return f"{quote(schema)}.{quote(table)}" if schema else quote(table)


def list_names(names: tuple[str, ...] | list[str]) -> str:
    """Return names in a statement, separated by commas."""
    return ", ".join(map(quote, names))


def find_table(cursor: psycopg.Cursor, schema: str | None, name: str) -> TargetTable | None:
    """Return the table as the database describes it, if it exists. Raises ConnectorError."""
    found = cursor.execute(FIND_TABLE, (quote_table(schema, name),)).fetchone()
    if found is None:
        return None
    oid, found_schema, kind = found
    if kind not in ("r", "p"):
        message = f'"{name}" is no table: it is a view, or something else'
        raise ConnectorError(message, "name the table itself", exit_status=2, final=True)
    columns = [TableColumn(*row) for row in cursor.execute(FIND_COLUMNS, (oid,)).fetchall()]
    unique_keys: dict[frozenset[str], bool] = {}
    for key, equal_nulls in cursor.execute(FIND_UNIQUE_KEYS, (oid,)).fetchall():
        unique_keys[frozenset(key)] = equal_nulls or unique_keys.get(frozenset(key), False)
    return TargetTable(found_schema, name, tuple(columns), unique_keys)


def check_privileges(cursor: psycopg.Cursor, table: TargetTable, rows: SinkRows) -> None:
    """Check that the user may write the table. Raises ConnectorError."""
    wanted = ["INSERT", *(["SELECT", "UPDATE"] if rows.key else [])]
    wanted += ["DELETE"] if rows.has_deletes else []
    cursor.execute(FIND_MISSING_PRIVILEGES, (wanted, table.quoted_name))
    missing = [row[0] for row in cursor.fetchall()]
    if missing:
        words = ", ".join(missing)
        hint = f"GRANT {words} ON {table.quoted_name} TO the user of the pipeline"
        message = f'the user lacks the privilege {words} on "{table.name}"'
        raise ConnectorError(message, hint, exit_status=2, final=True)


def format_column_type(type: Type) -> str:
    """Return the type of a column of a created table.

    >>> format_column_type(BIGINT), format_column_type(Decimal(10, 2))
    ('bigint', 'numeric(10,2)')
    """
    match type:
        case Decimal(precision, scale):
            return f"numeric({precision},{scale})"
        case Time():
            return TIME_NAMES[0]
    return TYPE_NAMES.get(type, NESTED_NAMES)[0]


def format_creation(name: str, rows: SinkRows, version: int) -> str:
    """Return the statement that creates a table for rows; `name` is quoted.

    >>> from headrace.core.types.data_types import Field
    >>> rows = SinkRows(Schema((Field("id", BIGINT, nullable=False), Field("n", INT))), ("id",))
    >>> format_creation("t", rows, 160000)
    'CREATE TABLE IF NOT EXISTS t ("id" bigint NOT NULL, "n" integer, PRIMARY KEY ("id"))'
    """
    parts = [
        f"{quote(field.name)} {format_column_type(field.type)}"
        f"{'' if field.nullable else ' NOT NULL'}"
        for field in rows.columns
    ]
    if rows.key:
        equal_nulls = _has_nullable_key(rows) and version >= NULLS_NOT_DISTINCT_VERSION
        kind = "UNIQUE NULLS NOT DISTINCT" if equal_nulls else "PRIMARY KEY"
        parts.append(f"{kind} ({list_names(rows.key)})")
    return f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(parts)})"


def _has_nullable_key(rows: SinkRows) -> bool:
    return any(field.nullable for field in rows.columns if field.name in rows.key)


def check_table(table: TargetTable, rows: SinkRows, version: int) -> None:
    """Check that the table takes such rows. Raises ConnectorError, with what would mend it."""
    problems = [*_check_columns(table, rows), *_check_key(table, rows, version)]
    if problems:
        messages, hints = zip(*problems, strict=True)
        message = f'table "{table.name}": {"; ".join(messages)}'
        raise ConnectorError(message, "; ".join(hints), exit_status=2, final=True)


def _check_columns(table: TargetTable, rows: SinkRows) -> Iterator[tuple[str, str]]:
    there = {column.name: column for column in table.columns}
    alter = f"ALTER TABLE {table.quoted_name}"
    for field in rows.columns:
        name, wanted = quote(field.name), format_column_type(field.type)
        column = there.get(field.name)
        if column is None:
            yield f"it has no column {name}", f"{alter} ADD COLUMN {name} {wanted}"
        elif column.is_computed:
            yield f"{name} is computed by the database", f"drop {name} in a step before"
        elif not takes_values(column, field.type):
            message = f"{name} is {column.type}, and {field.type} in the rows"
            yield message, f"{alter} ALTER COLUMN {name} TYPE {wanted}, or cast it in a step before"
    for column in table.columns:
        needed = column.is_not_null and not column.has_default
        if needed and rows.columns.get(column.name) is None:
            name = quote(column.name)
            message = f"{name} is not null and has no default, and the rows have no such column"
            yield message, f"add it in a step before, or {alter} ALTER COLUMN {name} DROP NOT NULL"


def _check_key(table: TargetTable, rows: SinkRows, version: int) -> Iterator[tuple[str, str]]:
    if rows.key and frozenset(rows.key) not in table.unique_keys:
        key = list_names(rows.key)
        equal_nulls = _has_nullable_key(rows) and version >= NULLS_NOT_DISTINCT_VERSION
        nulls = " NULLS NOT DISTINCT" if equal_nulls else ""
        hint = f"CREATE UNIQUE INDEX ON {table.quoted_name} ({key}){nulls}"
        yield f"it has no unique index on ({', '.join(rows.key)}), the key of the rows", hint


def takes_values(column: TableColumn, type: Type) -> bool:
    """Whether a column takes all values of a type."""
    name = PRECISION.sub("", column.type)
    if type in INTEGER_DIGITS and name == "numeric":
        return _takes_digits(column.type, INTEGER_DIGITS[type], 0)
    match type:
        case Decimal(precision, scale):
            return name == "numeric" and _takes_digits(column.type, precision - scale, scale)
        case Time():
            return name in TIME_NAMES
    return name in TYPE_NAMES.get(type, NESTED_NAMES) or (type == STRING and column.is_enum)


def _takes_digits(numeric: str, before_point: int, scale: int) -> bool:
    """Whether a numeric type takes numbers with these digits before and after the point.

    >>> _takes_digits("numeric(10,2)", 8, 2), _takes_digits("numeric(10,2)", 9, 0)
    (True, False)
    >>> _takes_digits("numeric", 30, 8)
    True
    """
    found = PRECISION.search(numeric)
    if found is None:
        return True
    precision, there = int(found[1]), int(found[2] or 0)
    return there >= scale and precision - there >= before_point
