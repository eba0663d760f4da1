"""Positions in a partition, as stored in checkpoints, and the names of splits.

A position is the next offset, and optionally the data that a later run needs: the last record
read, to detect that the topic was recreated under the same name; and the offset at which reading
stops, so that a restarted job ends at the same record.

>>> str(PartitionPosition(17, LastRecord(16, 1732212345678), 200))
'offset=17 last=16@1732212345678 stop=200'
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.core.api.splits import Position
from headrace.core.types.lazy_dataclass import dataclass


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


def parse_partition(split: str) -> Partition:
    """Parse the name of a split to its partition.

    >>> parse_partition("a-b-12")
    Partition(topic='a-b', number=12)
    """
    topic, _, number = split.rpartition("-")
    return Partition(topic, int(number))


class LastRecord(NamedTuple):
    """The offset of a record that was read, and its timestamp in milliseconds."""

    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """A position: `offset` is the next to read; `stop` is the first not to read."""

    offset: int
    last_record: LastRecord | None = None
    stop: int | None = None

    def __str__(self) -> str:
        words = [f"offset={self.offset}"]
        if self.last_record is not None:
            words.append(f"last={self.last_record.offset}@{self.last_record.timestamp}")
        if self.stop is not None:
            words.append(f"stop={self.stop}")
        return " ".join(words)

    @property
    def stored_form(self) -> Position:
        """The position as stored: at its simplest, the offset alone."""
        return self.offset if self.last_record is None and self.stop is None else str(self)


def parse_position(position: Position) -> PartitionPosition:
    """Parse a stored position.

    >>> parse_position(17), parse_position("offset=17 last=16@5 stop=200")
    (PartitionPosition(offset=17, last_record=None, stop=None), \
PartitionPosition(offset=17, last_record=LastRecord(offset=16, timestamp=5), stop=200))
    """
    if not isinstance(position, str):
        return PartitionPosition(position or 0)
    words = dict(word.split("=", 1) for word in position.split())
    last = words.get("last")
    return PartitionPosition(
        int(words["offset"]),
        None if last is None else LastRecord(*map(int, last.split("@"))),
        int(words["stop"]) if "stop" in words else None,
    )
