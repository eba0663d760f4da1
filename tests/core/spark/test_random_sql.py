"""Random queries as steps of a stream give Spark's result of the same text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.spark.random_sql import compare_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_random_queries_of_streams_give_what_spark_gives(spark: SparkSession) -> None:
    total, wrong = compare_queries(spark, seed=7, count=4)
    assert not wrong, "\n".join(wrong)
    assert total > 10
