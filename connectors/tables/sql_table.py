"""The runtime of the `sql` lookup: a pool of connections, and one query for many keys.

SQLAlchemy blocks, so each query has a thread (`threads`). A query that takes too long is cancelled
where the driver supports it (SQLite, PostgreSQL).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal as Exact
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from headrace.connectors.tables.extras import needed
from headrace.connectors.tables.found import found_rows
from headrace.connectors.tables.sql import SqlOptions
from headrace.connectors.tables.threads import in_thread
from headrace.connectors.tables.urls import masked
from headrace.core.contracts import ConnectorError, Surroundings
from headrace.core.far_times import listed
from headrace.core.plan import nodes
from headrace.core.problems import did_you_mean
from headrace.core.types import BOOLEAN, DATE, STRING, TIMESTAMP, Type, is_numeric

if TYPE_CHECKING:
    import polars as pl
    import sqlalchemy as sa

T = TypeVar("T")
NUMBERS = (int, float, Exact)


@dataclass(slots=True)
class Query:
    """A running query, which another thread can cancel."""

    connection: Any = None
    over: bool = False

    def break_off(self) -> None:
        """Ask the driver to cancel the query, if it can."""
        connection = self.connection
        if connection is None or self.over:
            return
        for name in ("interrupt", "cancel"):
            give_up = getattr(connection, name, None)
            if give_up is not None:
                with suppress(Exception):
                    give_up()
                return


@dataclass(slots=True)
class Reflected:
    """The table as reflected from the database, and the query over it."""

    select: sa.Select[Any]
    keys: Sequence[sa.Column[Any]]
    bound: Sequence[Callable[[Any], Hashable]]
    """The conversion of each key column's values for the driver."""


@dataclass(slots=True)
class SqlTable:
    """A `LookupTable` over a database."""

    lookup: nodes.Lookup
    surroundings: Surroundings
    options: SqlOptions = field(init=False)
    _engine: sa.Engine | None = None
    _reflected: Reflected | None = None
    _closed: bool = False

    def __post_init__(self) -> None:
        assert isinstance(self.lookup.options, SqlOptions)
        needed("sqlalchemy", "SQLAlchemy", "sql")
        self.options = self.lookup.options

    @property
    def keys_per_call(self) -> int:
        return self.options.keys_per_query

    async def check(self) -> None:
        """Reflect the table and its columns. Raises ConnectorError."""
        query = Query()
        await self._in_thread(query, partial(self._ready, query))

    async def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Look up all keys with one query."""
        query = Query()
        rows = listed(keys)
        at, found = await self._in_thread(query, partial(self._find, query, rows))
        return found_rows(at, found, self.lookup)

    async def close(self) -> None:
        """Close idle connections; those in use are closed when their query ends."""
        self._closed = True
        if self._engine is not None:
            self._engine.dispose()

    async def _in_thread(self, query: Query, work: Callable[[], T]) -> T:
        return await in_thread(self.surroundings.bench, work, query.break_off)

    def _find(
        self, query: Query, rows: Sequence[Sequence[Any] | None]
    ) -> tuple[list[int], list[Sequence[object]]]:
        """Query the rows of these keys; return the key number of each row, and the rows."""
        import sqlalchemy as sa

        table = self._reflected or self._ready(query)
        asked: dict[Hashable, int] = {}
        for at, row in enumerate(rows):
            if row is None:  # Python cannot represent its timestamp
                continue
            with suppress(ValueError, OverflowError):  # the column cannot hold such a value
                asked[tuple(b(v) for b, v in zip(table.bound, row, strict=True))] = at
        if len(table.keys) == 1:
            among = table.keys[0].in_([key[0] for key in asked])  # type: ignore[index]
        else:
            among = sa.tuple_(*table.keys).in_(list(asked))
        width = len(table.keys)
        places, found = list[int](), list[Sequence[object]]()
        with self._connected(query) as connection:
            for row in connection.execute(table.select.where(among)):
                # A database may match values that differ, for example in case.
                if (place := asked.get(tuple(row[:width]))) is not None:
                    places.append(place)
                    found.append(row[width:])
        return places, found

    def _ready(self, query: Query) -> Reflected:
        """Reflect the table, and build the query."""
        import sqlalchemy as sa

        name = self.options.table.reveal()
        schema = self.options.schema_.reveal() if self.options.schema_ else None
        with self._connected(query) as connection:
            try:
                table = sa.Table(name, sa.MetaData(), schema=schema, autoload_with=connection)
            except sa.exc.NoSuchTableError:
                raise self._no_table(sa.inspect(connection), schema) from None
        keys = [self._column(table, each.name) for each in self.lookup.on]
        for column, each in zip(keys, self.lookup.on, strict=True):
            self._comparable(column, each.value.type)
        added = [self._column(table, found.column) for found in self.lookup.add]
        bound = [_bound(column) for column in keys]
        self._reflected = Reflected(sa.select(*keys, *added), keys, bound)
        return self._reflected

    def _no_table(self, inspector: Any, schema: str | None) -> ConnectorError:
        there = [*inspector.get_table_names(schema), *inspector.get_view_names(schema)]
        name = self.options.table
        hint = did_you_mean(name, there) or _listed("tables", there)
        return ConnectorError(f'there is no table "{name.shown}"', hint, exit_status=2, final=True)

    def _column(self, table: sa.Table, name: str) -> sa.Column[Any]:
        columns: Mapping[str, sa.Column[Any]] = {c.name: c for c in table.columns}
        if name in columns:
            return columns[name]
        hint = did_you_mean(name, columns) or _listed("columns", list(columns))
        message = f'the table "{self.options.table.shown}" has no column "{name}"'
        raise ConnectorError(message, hint, exit_status=2, final=True)

    def _comparable(self, column: sa.Column[Any], type: Type) -> None:
        """Raise ConnectorError if a key of that type can never equal the column."""
        kinds = _kinds(type)
        try:
            kind = column.type.python_type
        except NotImplementedError:
            return
        if issubclass(kind, kinds) or (kind is UUID and type == STRING):
            return
        message = f'"{column.name}" is {column.type} in the database, and {type} in on'
        raise ConnectorError(message, "cast it in on", exit_status=2, final=True)

    @contextmanager
    def _connected(self, query: Query) -> Iterator[sa.Connection]:
        import sqlalchemy as sa

        engine = self._engine or self._open()
        pool = engine.pool
        try:
            with engine.connect() as connection:
                query.connection = connection.connection.dbapi_connection
                try:
                    yield connection
                finally:
                    query.over = True
        except sa.exc.SQLAlchemyError as error:
            raise self._told(error) from None
        finally:
            if self._closed:  # `close` could not close the connection while it was in use
                pool.dispose()

    def _open(self) -> sa.Engine:
        """Create the connection pool, which opens no connection yet."""
        import sqlalchemy as sa

        try:
            url = sa.make_url(self.options.url.reveal())
            url = self._of_file(url) if url.get_backend_name() == "sqlite" else url
            # Concurrency is limited elsewhere; a thread that hangs must not block the others.
            self._engine = sa.create_engine(
                url, pool_size=self.lookup.concurrency, max_overflow=-1, pool_pre_ping=True
            )
        except ModuleNotFoundError as error:
            hint = "install it, or name another one: postgresql+psycopg://..."
            message = f'the driver "{error.name}" of this database is not installed'
            raise ConnectorError(message, hint, exit_status=2, final=True) from None
        except sa.exc.SQLAlchemyError as error:
            translated = self._told(error)
            translated.final, translated.exit_status = True, 2
            raise translated from None
        except ValueError:  # its text repeats the port, which may be a part of a password
            message = "the port in the URL is not a number"
            hint = "in a password, percent-encode all but letters and digits: %40 for @"
            raise ConnectorError(message, hint, exit_status=2, final=True) from None
        return self._engine

    def _of_file(self, url: sa.URL) -> sa.URL:
        """Resolve a SQLite file, opened read-only: SQLite would create a missing one."""
        name = url.database
        if not name or name == ":memory:" or name.startswith("file:"):
            return url
        path = os.path.join(self.surroundings.folder, name)
        if not os.path.isfile(path):
            shown = masked(name, self.options.url.secrets)
            raise ConnectorError(f"there is no file {shown}", exit_status=2)
        read_only = {"mode": "ro", "uri": "true", **url.query}
        return url.set(database=f"file:{path}", query=read_only)

    def _told(self, error: sa.exc.SQLAlchemyError) -> ConnectorError:
        """Translate a database error, as one line without secrets."""
        import sqlalchemy as sa

        said = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
        line = masked(said.splitlines()[0], self.options.url.secrets)
        final = isinstance(error, sa.exc.ProgrammingError | sa.exc.ArgumentError)
        return ConnectorError(f"the database says: {line}", final=final)


def _kinds(of: Type) -> tuple[type, ...]:
    """Return the Python types of columns that can equal a key of that type."""
    if is_numeric(of):
        return NUMBERS
    kinds: dict[Type, tuple[type, ...]] = {
        BOOLEAN: (bool, int),
        DATE: (date,),
        TIMESTAMP: (datetime,),
    }
    return kinds.get(of, (str,))


def _bound(column: sa.Column[Any]) -> Callable[[Any], Hashable]:
    try:
        kind = column.type.python_type
    except NotImplementedError:
        return _as_it_is
    if kind is UUID:
        return UUID
    if issubclass(kind, datetime):
        return _aware if getattr(column.type, "timezone", False) else _naive
    return _as_it_is


def _as_it_is(value: Any) -> Hashable:
    return value  # type: ignore[no-any-return]


def _naive(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(tzinfo=None)


def _aware(at: datetime) -> datetime:
    return at.astimezone(UTC)


def _listed(what: str, names: Sequence[str]) -> str:
    return f"the {what} are {', '.join(names[:20])}" if names else f"it has no {what}"
