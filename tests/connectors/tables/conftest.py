"""A PostgreSQL server for all tests of tables, and sinks that write it."""

from collections.abc import Iterator

import pytest

from tests.support.tables.databases import Database, fresh_schema
from tests.support.tables.opened_sql_sinks import over
from tests.support.tables.postgres import Server, running

__all__ = ["over"]


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture
def database(server: Server) -> Iterator[Database]:
    with fresh_schema(server) as database:
        yield database
