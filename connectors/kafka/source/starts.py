"""Start and stop offsets of partitions: the requests for them, and their evaluation.

Both are determined once, when the job first starts, and are stored in positions from then on; but
a resumed job may have `stop` added or removed. A partition that is discovered later is read from
its earliest record; with `stop`, it has nothing to read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from headrace.connectors.kafka.edges import Moment, Offsets
from headrace.connectors.kafka.source.cluster import EARLIEST, LATEST
from headrace.connectors.kafka.source.places import Partition, Place
from headrace.connectors.kafka.source_options import KafkaSource


@dataclass(frozen=True, slots=True)
class Ends:
    """The first offset of a partition, the one after its last, and those of two timestamps.

    For a timestamp, -1 means that there is no record since then.
    """

    earliest: int
    latest: int
    start: int = -1
    stop: int = -1


def absent(options: KafkaSource, there: Collection[Partition]) -> tuple[str, Partition] | None:
    """Return the option, `start` or `stop`, that names a missing partition, and the partition."""
    topics = list(dict.fromkeys(partition.topic for partition in there))
    for word, edge in (("start", options.start), ("stop", options.stop)):
        if not isinstance(edge, Offsets):
            continue
        for topic in topics:
            for number in edge.by_topic.get(topic, edge.by_topic.get("", {})):
                if Partition(topic, number) not in there:
                    return word, Partition(topic, number)
    return None


@dataclass(frozen=True, slots=True)
class Questions:
    """The offsets to request for all partitions, and their evaluation."""

    options: KafkaSource
    first: bool

    @property
    def times(self) -> Mapping[str, int]:
        """The timestamps to request, by the field of `PartitionBounds` for their offset."""
        asked = {"earliest": EARLIEST, "latest": LATEST}
        if self.first and isinstance(self.options.start, Moment):
            asked["start"] = self.options.start.ms
        if self.first and isinstance(self.options.stop, Moment):
            asked["stop"] = self.options.stop.ms
        return asked

    def place(self, partition: Partition, ends: Ends) -> Place:
        """Return the start position of a partition, with its stop offset."""
        start = self._start(partition, ends) if self.first else ends.earliest
        return Place(start, stop=self._stop(partition, ends, start))

    def stopping(self, partition: Partition, ends: Ends, place: Place) -> Place:
        """Return a resumed position with its current stop offset."""
        return replace(place, stop=self._stop(partition, ends, place.offset))

    def _start(self, partition: Partition, ends: Ends) -> int:
        match self.options.start:
            case "latest":
                return ends.latest
            case Moment():
                return ends.start if ends.start >= 0 else ends.latest
            case Offsets() as offsets:
                wanted = offsets.of(*partition)
                return ends.earliest if wanted is None else wanted
        return ends.earliest

    def _stop(self, partition: Partition, ends: Ends, start: int) -> int | None:
        stop = self.options.stop
        if stop is None:
            return None
        if not self.first:
            return start
        wanted = None
        if isinstance(stop, Moment):
            wanted = ends.stop if ends.stop >= 0 else None
        elif isinstance(stop, Offsets):
            wanted = stop.of(*partition)
        return max(start, ends.latest if wanted is None else min(wanted, ends.latest))
