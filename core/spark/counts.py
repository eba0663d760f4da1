"""How many rows each source gave, and how many records of it were bad.

Spark may read anything twice: a task that failed, a stage whose output was lost, a source for each
sink. So what a group of pieces gave is counted under the group's number: it is the same each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession


class Read(NamedTuple):
    """What was read of a source."""

    rows: int
    bad: int


Counted: TypeAlias = "dict[tuple[str, int], Read]"
"""By source and number of the group."""


class Together:
    """How pyspark adds counts up."""

    def zero(self, value: Counted) -> Counted:
        """Nothing."""
        return {}

    def addInPlace(self, value1: Counted, value2: Counted) -> Counted:
        """What was counted here and there."""
        value1.update(value2)
        return value1


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a run: executors add to them, the driver reads them; they can be pickled."""

    counted: Accumulator[Counted]

    def add(self, source: str, group: int, read: Read) -> None:
        """A group was read to its end."""
        self.counted.add({(source, group): read})

    def by_source(self) -> Mapping[str, Read]:
        """All that was counted."""
        found: dict[str, Read] = {}
        for (source, _), read in self.counted.value.items():
            before = found.get(source, Read(0, 0))
            found[source] = Read(before.rows + read.rows, before.bad + read.bad)
        return found


def counts(spark: SparkSession) -> Counts:
    """Counts that begin with nothing."""
    return Counts(spark.sparkContext.accumulator({}, Together()))  # type: ignore[arg-type]
