"""A PostgreSQL server for all tests of tables."""

from collections.abc import Iterator

import pytest

from tests.support.tables.postgres import Server, running


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    with running() as server:
        yield server
