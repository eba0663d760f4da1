"""Counts of rows and bad records by source.

Spark may read anything twice: after a failed task, after a stage's output was lost, or once for
each sink. So the counts of a group of splits are stored under the group's number: a second read
stores the same counts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession


class SourceCounts(NamedTuple):
    """Rows and bad records read from a source."""

    rows: int
    bad_records: int


GroupCounts: TypeAlias = "dict[tuple[str, int], SourceCounts]"
"""Counts by source and group number."""


class CountsMerger:
    """Parameters by which pyspark merges counts."""

    def zero(self, value: GroupCounts) -> GroupCounts:
        """Return empty counts."""
        return {}

    def addInPlace(self, value1: GroupCounts, value2: GroupCounts) -> GroupCounts:
        """Merge two sets of counts."""
        value1.update(value2)
        return value1


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """Counts of a run: executors add to them, the driver reads them. Can be pickled."""

    accumulator: Accumulator[GroupCounts]

    def add(self, source: str, group: int, read: SourceCounts) -> None:
        """Add the counts of a group that was read to its end."""
        self.accumulator.add({(source, group): read})

    def sum_by_source(self) -> Mapping[str, SourceCounts]:
        """Sum the counts of each source."""
        found: dict[str, SourceCounts] = {}
        for (source, _), read in self.accumulator.value.items():
            before = found.get(source, SourceCounts(0, 0))
            found[source] = SourceCounts(
                before.rows + read.rows, before.bad_records + read.bad_records
            )
        return found


def create_counts(spark: SparkSession) -> BatchCounts:
    """Create empty counts."""
    return BatchCounts(spark.sparkContext.accumulator({}, CountsMerger()))  # type: ignore[arg-type]
