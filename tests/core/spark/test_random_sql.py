"""Random queries as steps of a stream give Spark's result of the same text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.spark.random_sql import compare_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_random_queries_of_streams_give_what_spark_gives(spark: SparkSession) -> None:
    found = compare_queries(spark, "c", 5)
    assert not found.wrong and not found.disagreements, found
    assert found.equal > 100
