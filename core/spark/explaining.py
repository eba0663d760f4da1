"""Spark's own explanation of a plan, sink by sink.

A `MapInArrow` in it is headrace's code in an executor, named after its part of the pipeline.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.core.plan import nodes
from headrace.core.spark.build import Building
from headrace.core.spark.counts import counts
from headrace.core.spark.inside import Inside
from headrace.core.spark.planning import of_batch
from headrace.core.spark.reading import found

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def explained(spark: SparkSession, plan: nodes.Plan, context: Inside) -> dict[str, str]:
    """Return Spark's physical plan of the rows of each sink. Raises ConnectorError.

    Sources are inspected but not read: how a file is read depends on its format.
    """
    plan = of_batch(plan)
    to_read = asyncio.run(found(spark, plan, context, counts(spark)))
    rows = Building(spark, plan, context, to_read).build()
    return {name: _said(spark, frame) for name, frame in rows.items()}


def _said(spark: SparkSession, rows: DataFrame) -> str:
    """Return the text that `explain` of a DataFrame prints."""
    java = spark.sparkContext._jvm
    assert java is not None
    said: str = java.PythonSQLUtils.explainString(rows._jdf.queryExecution(), "simple")
    return said.strip()
