"""`process` with a `broadcast`: every partition gets all broadcast rules before its rows.

The operator holds each rule until event time reaches it, so the order of the rules does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

from headrace.core.compile import SubtaskSlice
from headrace.core.operators.operator import OperatorChain, Output
from headrace.core.spark.operating import PartitionOperator

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame

RULES_INPUT = 1


@dataclass(frozen=True, slots=True)
class PartitionBroadcast(PartitionOperator):
    """headrace's operator of a process with broadcast rules, over partitions of the rows."""

    rules: bytes
    """The rows of the right input, as an Arrow file."""

    def _subtask_slice(self, partition: int) -> SubtaskSlice:
        # Exactly one partition reports the rules that failed.
        groups = self.context.key_groups
        return SubtaskSlice(min(partition, groups - 1), groups, groups)

    def _process(self, chain: OperatorChain, frames: Iterator[pl.DataFrame]) -> Iterator[Output]:
        import polars as pl

        yield from chain.process(pl.read_ipc(BytesIO(self.rules)), RULES_INPUT)
        yield from PartitionOperator._process(self, chain, frames)


def collect_rules(rules: DataFrame) -> bytes:
    """Collect all rules in the driver, as an Arrow file."""
    import polars as pl

    frame = pl.from_arrow(rules.toArrow())
    assert isinstance(frame, pl.DataFrame)
    file = BytesIO()
    frame.write_ipc(file)
    return file.getvalue()


def ensure_partition(rows: DataFrame) -> DataFrame:
    """Ensure that there is a partition: a rule fails even if there are no rows."""
    alone = rows.sparkSession.range(0, 1, 1, 1)
    return rows.union(alone.mapInArrow(_make_no_rows, rows.schema))


def _make_no_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return no rows, a fact that Spark's planner cannot know."""
    for _ in batches:
        yield from ()
