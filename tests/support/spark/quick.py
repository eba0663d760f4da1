"""Spark for queries that run once over few rows: they are not worth compiling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}


@pytest.fixture
def quick(spark: SparkSession) -> Iterator[SparkSession]:
    """The session that all share, set so for one test."""
    with hurried(spark):
        yield spark


@contextmanager
def hurried(spark: SparkSession) -> Iterator[None]:
    """The session is set so for a while."""
    before = {name: spark.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name, found in before.items():
        assert found is not None
        spark.conf.set(name, found)
