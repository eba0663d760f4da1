"""Random pipelines, some steps long, give the rows on Spark that their plans mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.spark.random_pipelines import hold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_random_pipelines_give_the_rows_that_they_mean(quick: SparkSession) -> None:
    assert not hold(quick, 4, seed=9)
