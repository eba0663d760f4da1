"""The rows of a stream in a batch.

Tests: tests/core/spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.plan import nodes
from headrace.core.spark.columns import Columns
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class StreamFrame:
    """Rows between two operations: their columns, and whether they are a changelog."""

    frame: DataFrame
    columns: Columns
    kind: nodes.StreamKind
    is_costly: bool = True
    """Whether computing the rows a second time costs more than reading cached ones."""
