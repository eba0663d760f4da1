"""Connections to SQL databases with SQLAlchemy, and their errors as one line without secrets.

Tests: tests/connectors/tables/test_sql.py, tests/connectors/tables/test_sql_sink.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.connectors.tables.urls import Url, mask_secrets
from headrace.core.api.failures import ConnectorError
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import sqlalchemy as sa

FIRST_WAIT_S = 0.1
"""The time after which a query that goes on is cancelled again; it doubles each time."""


@dataclass(slots=True)
class SqlQuery:
    """Queries that a thread runs one after the other, and that another thread can cancel."""

    connection: Any = None
    """The driver's connection while a query uses it."""
    is_cancelled: bool = False

    @contextmanager
    def use(self, connection: Any) -> Iterator[None]:
        """Use a connection within the `with`. Raises ConnectorError if all was cancelled before."""
        self.connection = connection
        try:
            if self.is_cancelled:
                raise ConnectorError("the query was cancelled")
            yield
        finally:
            self.connection = None

    def cancel(self) -> None:
        """Ask the driver to cancel the query, if it can, until it has ended.

        Asked once, a server would ignore it if the query had not reached it yet.
        """
        self.is_cancelled, wait_s = True, FIRST_WAIT_S
        while (connection := self.connection) is not None:
            give_up = getattr(connection, "interrupt", None) or getattr(connection, "cancel", None)
            if give_up is None:
                return
            with suppress(Exception):
                give_up()
            time.sleep(wait_s)
            wait_s *= 2


def create_engine(url: Url, folder: Path, driver: str = "", **options: Any) -> sa.Engine:
    """Create a connection pool, which opens no connection yet. Raises ConnectorError.

    `driver` is used instead of that of the URL.
    """
    import sqlalchemy as sa

    try:
        parsed = sa.make_url(url.reveal())
        if parsed.get_backend_name() == "sqlite":
            parsed = _resolve_sqlite_file(parsed, url, folder)
        if driver:
            parsed = parsed.set(drivername=driver)
        # Concurrency is limited elsewhere; a thread that hangs must not block the others.
        return sa.create_engine(parsed, max_overflow=-1, pool_pre_ping=True, **options)
    except ModuleNotFoundError as error:
        hint = "install it, or name another one: postgresql+psycopg://..."
        message = f'the driver "{error.name}" of this database is not installed'
        raise ConnectorError(message, hint, exit_status=2, final=True) from None
    except sa.exc.SQLAlchemyError as error:
        translated = translate_error(error, url)
        translated.is_final, translated.exit_status = True, 2
        raise translated from None
    except ValueError:  # its text repeats the port, which may be a part of a password
        message = "the port in the URL is not a number"
        hint = "in a password, percent-encode all but letters and digits: %40 for @"
        raise ConnectorError(message, hint, exit_status=2, final=True) from None


def _resolve_sqlite_file(parsed: sa.URL, url: Url, folder: Path) -> sa.URL:
    """Resolve a SQLite file, opened read-only: SQLite would create a missing one."""
    name = parsed.database
    if not name or name == ":memory:" or name.startswith("file:"):
        return parsed
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        shown = mask_secrets(name, url.secrets)
        raise ConnectorError(f"there is no file {shown}", exit_status=2)
    read_only = {"mode": "ro", "uri": "true", **parsed.query}
    return parsed.set(database=f"file:{path}", query=read_only)


def translate_error(error: sa.exc.SQLAlchemyError, url: Url) -> ConnectorError:
    """Translate a database error, as one line without secrets."""
    import sqlalchemy as sa

    message = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
    line = mask_secrets(message.splitlines()[0], url.secrets)
    final = isinstance(error, sa.exc.ProgrammingError | sa.exc.ArgumentError)
    return ConnectorError(f"the database says: {line}", final=final)
