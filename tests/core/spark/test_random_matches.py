"""Random patterns and rules give the matches on Spark that the reference matcher finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.spark import random_matches
from tests.support.spark.random_pipelines import hold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_random_patterns_give_the_rows_that_they_mean(quick: SparkSession) -> None:
    assert not hold(quick, 4, seed=2, pipelines=random_matches.drawn())
