"""The runtime of the `sql` lookup: a pool of connections, and one query for many keys.

SQLAlchemy blocks, so each query has a thread (`client_libraries`). A query that takes
too long is cancelled where the driver supports it (SQLite, PostgreSQL).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from datetime import UTC, date, datetime
from decimal import Decimal as Exact
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from headrace.connectors.tables.client_libraries import import_extra, run_in_thread
from headrace.connectors.tables.row_conversion import build_found_rows
from headrace.connectors.tables.sql_engine import SqlQuery, create_engine, translate_error
from headrace.connectors.tables.sql_options import SqlOptions
from headrace.core.api.failures import ConnectorError
from headrace.core.api.run_context import RunContext
from headrace.core.errors.problems import suggest_name
from headrace.core.plan import nodes
from headrace.core.types.data_types import (
    BOOLEAN,
    DATE,
    STRING,
    TIMESTAMP_TYPES,
    Type,
    is_numeric,
)
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.out_of_range_times import to_python_rows

if TYPE_CHECKING:
    import polars as pl
    import sqlalchemy as sa

T = TypeVar("T")
NUMBER_TYPES = (int, float, Exact)


@dataclass(slots=True)
class ReflectedTable:
    """The table as reflected from the database, and the query over it."""

    query: sa.Select[Any]
    key_columns: Sequence[sa.Column[Any]]
    key_converters: Sequence[Callable[[Any], Hashable]]
    """The conversion of each key column's values for the driver."""


@dataclass(slots=True)
class SqlTable:
    """A `LookupTable` over a database."""

    lookup: nodes.Lookup
    run_context: RunContext
    options: SqlOptions = field(init=False)
    _engine: sa.Engine | None = None
    _reflected: ReflectedTable | None = None
    _is_closed: bool = False

    def __post_init__(self) -> None:
        assert isinstance(self.lookup.options, SqlOptions)
        import_extra("sqlalchemy", "this lookup", "SQLAlchemy", "sql")
        self.options = self.lookup.options

    @property
    def max_keys_per_call(self) -> int:
        return self.options.keys_per_query

    async def check(self) -> None:
        """Reflect the table and its columns. Raises ConnectorError."""
        query = SqlQuery()
        await self._run_in_thread(query, partial(self._reflect, query))

    async def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Look up all keys with one query."""
        query = SqlQuery()
        rows = to_python_rows(keys)
        at, found = await self._run_in_thread(query, partial(self._query_rows, query, rows))
        return build_found_rows(at, found, self.lookup)

    async def close(self) -> None:
        """Close idle connections; those in use are closed when their query ends."""
        self._is_closed = True
        if self._engine is not None:
            self._engine.dispose()

    async def _run_in_thread(self, query: SqlQuery, work: Callable[[], T]) -> T:
        return await run_in_thread(self.run_context.kernel_executor, work, query.cancel)

    def _query_rows(
        self, query: SqlQuery, rows: Sequence[Sequence[Any] | None]
    ) -> tuple[list[int], list[Sequence[object]]]:
        """Query the rows of these keys; return the key number of each row, and the rows."""
        import sqlalchemy as sa

        table = self._reflected or self._reflect(query)
        row_numbers: dict[Hashable, int] = {}
        for at, row in enumerate(rows):
            if row is None:  # Python cannot represent its timestamp
                continue
            with suppress(ValueError, OverflowError):  # the column cannot hold such a value
                row_numbers[tuple(b(v) for b, v in zip(table.key_converters, row, strict=True))] = (
                    at
                )
        if len(table.key_columns) == 1:
            among = table.key_columns[0].in_([key[0] for key in row_numbers])  # type: ignore[index]
        else:
            among = sa.tuple_(*table.key_columns).in_(list(row_numbers))
        width = len(table.key_columns)
        places, found = list[int](), list[Sequence[object]]()
        with self._connect(query) as connection:
            for row in connection.execute(table.query.where(among)):
                # A database may match values that differ, for example in case.
                if (place := row_numbers.get(tuple(row[:width]))) is not None:
                    places.append(place)
                    found.append(row[width:])
        return places, found

    def _reflect(self, query: SqlQuery) -> ReflectedTable:
        """Reflect the table, and build the query."""
        import sqlalchemy as sa

        name = self.options.table.reveal()
        schema = self.options.schema_.reveal() if self.options.schema_ else None
        with self._connect(query) as connection:
            try:
                table = sa.Table(name, sa.MetaData(), schema=schema, autoload_with=connection)
            except sa.exc.NoSuchTableError:
                raise self._build_missing_table_error(sa.inspect(connection), schema) from None
        keys = [self._find_column(table, each.name) for each in self.lookup.key]
        for column, each in zip(keys, self.lookup.key, strict=True):
            self._check_comparable(column, each.value.type)
        added = [self._find_column(table, found.column) for found in self.lookup.columns]
        bound = [_make_converter(column) for column in keys]
        self._reflected = ReflectedTable(sa.select(*keys, *added), keys, bound)
        return self._reflected

    def _build_missing_table_error(self, inspector: Any, schema: str | None) -> ConnectorError:
        there = [*inspector.get_table_names(schema), *inspector.get_view_names(schema)]
        name = self.options.table
        hint = suggest_name(name, there) or _list_names("tables", there)
        return ConnectorError(
            f'there is no table "{name.printable}"', hint, exit_status=2, final=True
        )

    def _find_column(self, table: sa.Table, name: str) -> sa.Column[Any]:
        columns: Mapping[str, sa.Column[Any]] = {c.name: c for c in table.columns}
        if name in columns:
            return columns[name]
        hint = suggest_name(name, columns) or _list_names("columns", list(columns))
        message = f'the table "{self.options.table.printable}" has no column "{name}"'
        raise ConnectorError(message, hint, exit_status=2, final=True)

    def _check_comparable(self, column: sa.Column[Any], type: Type) -> None:
        """Raise ConnectorError if a key of that type can never equal the column."""
        kinds = _list_python_types(type)
        try:
            kind = column.type.python_type
        except NotImplementedError:
            return
        if issubclass(kind, kinds) or (kind is UUID and type == STRING):
            return
        message = f'"{column.name}" is {column.type} in the database, and {type} in on'
        raise ConnectorError(message, "cast it in on", exit_status=2, final=True)

    @contextmanager
    def _connect(self, query: SqlQuery) -> Iterator[sa.Connection]:
        import sqlalchemy as sa

        if self._engine is None:
            size = self.lookup.concurrency
            self._engine = create_engine(self.options.url, self.run_context.folder, pool_size=size)
        engine = self._engine
        pool = engine.pool
        try:
            with (
                engine.connect() as connection,
                query.use(connection.connection.dbapi_connection),
            ):
                yield connection
        except sa.exc.SQLAlchemyError as error:
            raise translate_error(error, self.options.url) from None
        finally:
            if self._is_closed:  # `close` could not close the connection while it was in use
                pool.dispose()


def _list_python_types(of: Type) -> tuple[type, ...]:
    """Return the Python types of columns that can equal a key of that type."""
    if is_numeric(of):
        return NUMBER_TYPES
    kinds: dict[Type, tuple[type, ...]] = {
        BOOLEAN: (bool, int),
        DATE: (date,),
        **dict.fromkeys(TIMESTAMP_TYPES, (datetime,)),
    }
    return kinds.get(of, (str,))


def _make_converter(column: sa.Column[Any]) -> Callable[[Any], Hashable]:
    try:
        kind = column.type.python_type
    except NotImplementedError:
        return _return_unchanged
    if kind is UUID:
        return UUID
    if issubclass(kind, datetime):
        return _to_aware_utc if getattr(column.type, "timezone", False) else _to_naive_utc
    return _return_unchanged


def _return_unchanged(value: Any) -> Hashable:
    return value  # type: ignore[no-any-return]


def _to_naive_utc(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(tzinfo=None)


def _to_aware_utc(at: datetime) -> datetime:
    return at.astimezone(UTC)


def _list_names(what: str, names: Sequence[str]) -> str:
    return f"the {what} are {', '.join(names[:20])}" if names else f"it has no {what}"
