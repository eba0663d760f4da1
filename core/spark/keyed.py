"""Keyed operations as Spark runs them, if Spark gives a stream's final result.

Functions return None if it does not: then headrace's operator does the work inside the executors.
That holds for count windows, evictors, everything by processing time or with a ttl, and for rows
that need their position among all, which headrace numbers itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.plan import nodes
from headrace.core.spark.aggregating import aggregate_rows
from headrace.core.spark.columns import Columns
from headrace.core.spark.ranking import deduplicate_rows, rank_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def apply_keyed(
    rows: DataFrame, operation: nodes.KeyedOperation, wanted: Columns
) -> DataFrame | None:
    """Apply a keyed operation, with these columns as result; None if Spark's would differ."""
    match operation:
        case nodes.Aggregate():
            return aggregate_rows(rows, operation, wanted)
        case nodes.Top():
            return rank_rows(rows, operation, wanted)
        case nodes.Dedup():
            return deduplicate_rows(rows, operation, wanted)
        case nodes.Apply() | nodes.Process():
            return None
