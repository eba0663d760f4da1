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


class Read(NamedTuple):
    """Rows and bad records read from a source."""

    rows: int
    bad: int


Counted: TypeAlias = "dict[tuple[str, int], Read]"
"""Counts by source and group number."""


class Together:
    """Parameters by which pyspark merges counts."""

    def zero(self, value: Counted) -> Counted:
        """Return empty counts."""
        return {}

    def addInPlace(self, value1: Counted, value2: Counted) -> Counted:
        """Merge two sets of counts."""
        value1.update(value2)
        return value1


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a run: executors add to them, the driver reads them. Can be pickled."""

    counted: Accumulator[Counted]

    def add(self, source: str, group: int, read: Read) -> None:
        """Add the counts of a group that was read to its end."""
        self.counted.add({(source, group): read})

    def by_source(self) -> Mapping[str, Read]:
        """Sum the counts of each source."""
        found: dict[str, Read] = {}
        for (source, _), read in self.counted.value.items():
            before = found.get(source, Read(0, 0))
            found[source] = Read(before.rows + read.rows, before.bad + read.bad)
        return found


def counts(spark: SparkSession) -> Counts:
    """Create empty counts."""
    return Counts(spark.sparkContext.accumulator({}, Together()))  # type: ignore[arg-type]
