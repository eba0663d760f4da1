"""Spark's own explanation of a plan, sink by sink.

A `MapInArrow` in it is headrace's code in an executor, named after its part of the pipeline.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.core.plan import nodes
from headrace.core.spark.build import DataFrameBuilder
from headrace.core.spark.counts import create_counts
from headrace.core.spark.inside import ExecutorContext
from headrace.core.spark.planning import to_batch_plan
from headrace.core.spark.reading import find_inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def explain_sinks(
    spark: SparkSession, plan: nodes.Plan, context: ExecutorContext
) -> dict[str, str]:
    """Return Spark's physical plan of the rows of each sink. Raises ConnectorError.

    Sources are inspected but not read: how a file is read depends on its format.
    """
    plan = to_batch_plan(plan)
    to_read = asyncio.run(find_inputs(spark, plan, context, create_counts(spark)))
    rows = DataFrameBuilder(spark, plan, context, to_read).build()
    return {name: _format_plan(spark, frame) for name, frame in rows.items()}


def _format_plan(spark: SparkSession, rows: DataFrame) -> str:
    """Return the text that `explain` of a DataFrame prints."""
    java = spark.sparkContext._jvm
    assert java is not None
    said: str = java.PythonSQLUtils.explainString(rows._jdf.queryExecution(), "simple")
    return said.strip()
