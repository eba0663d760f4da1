"""Transactions in a PostgreSQL database, with psycopg over a pool of SQLAlchemy.

Tests: tests/connectors/tables/test_sql_sink.py, tests/connectors/tables/test_sql_target.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.connectors.tables.client_libraries import import_extra, run_in_thread
from headrace.connectors.tables.sql_engine import SqlQuery, create_engine, translate_error
from headrace.connectors.tables.sql_sink_options import POSTGRESQL, SqlSink
from headrace.connectors.tables.urls import mask_secrets
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.plan import nodes
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import psycopg
    import sqlalchemy as sa

T = TypeVar("T")

CONNECT_TIMEOUT_S = 30
TRANSIENT_STATES = ("08", "25P03", "40", "53", "55", "57")
"""The beginnings of the error codes after which another attempt may succeed."""


@dataclass(slots=True)
class PostgresDatabase:
    """A database in which transactions run, each in a thread of its own."""

    options: SqlSink
    folder: Path
    kernel_executor: KernelExecutor
    _engine: sa.Engine | None = None
    _is_closed: bool = False

    async def run(self, work: Callable[[psycopg.Cursor], T]) -> T:
        """Run work in a transaction. Raises ConnectorError."""
        engine, query = self._engine or self._create_engine(), SqlQuery()
        in_transaction = partial(self._run, engine, query, work)
        return await run_in_thread(self.kernel_executor, in_transaction, query.cancel)

    def _run(self, engine: sa.Engine, query: SqlQuery, work: Callable[[psycopg.Cursor], T]) -> T:
        with self._begin(engine, query) as cursor:
            return work(cursor)

    @contextmanager
    def _begin(self, engine: sa.Engine, query: SqlQuery) -> Iterator[psycopg.Cursor]:
        import psycopg
        import sqlalchemy as sa

        try:
            with engine.connect() as connection:
                raw: Any = connection.connection.dbapi_connection
                with query.use(raw), raw.transaction(), raw.cursor() as cursor:
                    yield cursor
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


def build_database(sink: nodes.Sink, run_context: RunContext) -> PostgresDatabase:
    """Build the database that a sink writes, without connecting."""
    assert isinstance(sink.options, SqlSink)
    return PostgresDatabase(sink.options, run_context.folder, run_context.kernel_executor)
