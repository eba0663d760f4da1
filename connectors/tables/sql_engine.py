"""Connections to SQL databases with SQLAlchemy, and their errors as one line without secrets.

Tests: tests/connectors/tables/test_sql.py, tests/connectors/tables/test_sql_sink.py.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.connectors.tables.urls import Url, mask_secrets
from headrace.core.api.failures import ConnectorError
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import sqlalchemy as sa


@dataclass(slots=True)
class SqlQuery:
    """A running query, which another thread can cancel."""

    connection: Any = None
    is_finished: bool = False

    def cancel(self) -> None:
        """Ask the driver to cancel the query, if it can."""
        connection = self.connection
        if connection is None or self.is_finished:
            return
        for name in ("interrupt", "cancel"):
            give_up = getattr(connection, name, None)
            if give_up is not None:
                with suppress(Exception):
                    give_up()
                return


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
