"""Where a job begins to read each partition, and where it ends: what to ask, and what it means.

Both are decided once, when the job first starts, and stand in positions from then on; but a job
that went on without an end may be given one later, or lose the one that it had. A partition that
comes later is read from its earliest record on; where reading ends, one that came later has
nothing to be read.
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
    """The first offset of a partition, the one behind its last, and those of two moments.

    Of a moment, -1 says that there is no record since then.
    """

    earliest: int
    latest: int
    start: int = -1
    stop: int = -1


def absent(options: KafkaSource, there: Collection[Partition]) -> tuple[str, Partition] | None:
    """A partition that `start` or `stop` names, as the first says, and that its topic has not."""
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
    """The times of which the offset is to be asked, for all partitions."""

    options: KafkaSource
    first: bool

    @property
    def times(self) -> Mapping[str, int]:
        """By the field of `Ends` that the answer is for."""
        asked = {"earliest": EARLIEST, "latest": LATEST}
        if self.first and isinstance(self.options.start, Moment):
            asked["start"] = self.options.start.ms
        if self.first and isinstance(self.options.stop, Moment):
            asked["stop"] = self.options.stop.ms
        return asked

    def place(self, partition: Partition, ends: Ends) -> Place:
        """Where reading a partition begins and ends."""
        start = self._start(partition, ends) if self.first else ends.earliest
        return Place(start, stop=self._stop(partition, ends, start))

    def stopping(self, partition: Partition, ends: Ends, place: Place) -> Place:
        """A place that somebody read up to, with where reading stops now."""
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
