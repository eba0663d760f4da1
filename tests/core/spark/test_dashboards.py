"""Dashboards over tables that change, whose job is killed and rescaled, have the rows of Spark.

More of them: `python -m tests.support.spark.dashboards ROUNDS [SEED]`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.spark.dashboards import run_round

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_dashboards_are_right_through_kills_and_rescales(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = run_round(spark, tmp_path, "test", 150, ("savepoint", "kill"), batches=False)
    assert not job.wrong, "\n".join(job.wrong)
    assert job.compared > 1
