"""A schema of a PostgreSQL server for one test, which sees only its own tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.support.tables.postgres import Server

NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class Database:
    """The schema, as the search path of a URL."""

    url: str
    connection: psycopg.Connection[Any]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query, or none of a statement."""
        cursor = self.connection.execute(query)
        return cursor.fetchall() if cursor.description else []

    def tables(self) -> list[str]:
        """Return the names of the tables."""
        found = self.rows(
            "select tablename from pg_tables where schemaname = current_schema() order by 1"
        )
        return [name for (name,) in found]

    def staged(self) -> list[str]:
        """Return the staging tables."""
        return [name for name in self.tables() if name.startswith("headrace_staging_")]


@contextmanager
def fresh_schema(server: Server) -> Iterator[Database]:
    """A new schema, and a connection to it."""
    name = f"test_{next(NUMBERS)}"
    url = f"{server.url}?options=-csearch_path%3D{name}"
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"drop schema if exists {name} cascade")
        connection.execute(f"create schema {name}")
        yield Database(url, connection)
