"""Keyed operations as Spark runs them, where it gives the rows that a stream ends as.

None where it does not: then our own operator does the work inside of the executors. That is so for
windows of rows by their number, evictors, whatever goes by the wall clock or forgets, and for rows
that must have their place among all, which we number ourselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.plan import nodes
from headrace.core.spark.aggregating import aggregated
from headrace.core.spark.columns import Columns
from headrace.core.spark.ranking import deduplicated, ranked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def by_key(rows: DataFrame, operation: nodes.Keyed, wanted: Columns) -> DataFrame | None:
    """What a keyed operation makes of rows, with these columns; None if Spark gives others."""
    match operation:
        case nodes.Aggregate():
            return aggregated(rows, operation, wanted)
        case nodes.Top():
            return ranked(rows, operation, wanted)
        case nodes.Dedup():
            return deduplicated(rows, operation, wanted)
        case nodes.Apply() | nodes.Process():
            return None
