"""One session of Spark for all tests: those in this folder run in one process, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.kafka.fixtures import broker, fresh, topics
from tests.support.spark.quick import quick
from tests.support.spark.session import started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["broker", "fresh", "quick", "topics"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with started() as session:
        yield session
