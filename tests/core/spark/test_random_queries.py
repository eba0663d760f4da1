"""Queries over state give what Spark gives for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.spark.random_queries import compare_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_random_queries_give_what_spark_gives(spark: SparkSession) -> None:
    counts, wrong = compare_queries(spark, seed=11, count=16)
    assert not wrong, "\n".join(wrong)
    assert counts["values"] > 500
