"""Keyed operations as Spark runs them, if Spark gives a stream's final result.

Functions return None if it does not: then headrace's operator does the work inside the executors.
That holds for count windows, evictors, everything by processing time or with a ttl, and for rows
that need their position among all, which headrace numbers itself.
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
    """Apply a keyed operation, with these columns as result; None if Spark's would differ."""
    match operation:
        case nodes.Aggregate():
            return aggregated(rows, operation, wanted)
        case nodes.Top():
            return ranked(rows, operation, wanted)
        case nodes.Dedup():
            return deduplicated(rows, operation, wanted)
        case nodes.Apply() | nodes.Process():
            return None
