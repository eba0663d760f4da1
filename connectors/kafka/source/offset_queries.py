"""Start and stop offsets of partitions: the requests for them, and their evaluation.

Both are determined once, when the job first starts, and are stored in positions from then on; but
a resumed job may have `stop` added or removed. A partition that is discovered later is read from
its earliest record; with `stop`, it has nothing to read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from headrace.connectors.kafka.offset_bounds import OffsetBounds, TimeBound
from headrace.connectors.kafka.source.cluster_requests import EARLIEST_TIME, LATEST_TIME
from headrace.connectors.kafka.source.positions import Partition, PartitionPosition
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """The first offset of a partition, the one after its last, and those of two timestamps.

    For a timestamp, -1 means that there is no record since then.
    """

    earliest: int
    latest: int
    start: int = -1
    stop: int = -1


def find_missing_partition(
    options: KafkaSource, there: Collection[Partition]
) -> tuple[str, Partition] | None:
    """Return the option, `start` or `stop`, that names a missing partition, and the partition."""
    topics = list(dict.fromkeys(partition.topic for partition in there))
    for word, edge in (("start", options.start), ("stop", options.stop)):
        if not isinstance(edge, OffsetBounds):
            continue
        for topic in topics:
            for number in edge.by_topic.get(topic, edge.by_topic.get("", {})):
                if Partition(topic, number) not in there:
                    return word, Partition(topic, number)
    return None


@dataclass(frozen=True, slots=True)
class OffsetQueries:
    """The offsets to request for all partitions, and their evaluation."""

    options: KafkaSource
    is_first_run: bool

    @property
    def requested_times(self) -> Mapping[str, int]:
        """The timestamps to request, by the field of `PartitionBounds` for their offset."""
        times = {"earliest": EARLIEST_TIME, "latest": LATEST_TIME}
        if self.is_first_run and isinstance(self.options.start, TimeBound):
            times["start"] = self.options.start.ms
        if self.is_first_run and isinstance(self.options.stop, TimeBound):
            times["stop"] = self.options.stop.ms
        return times

    def find_start_position(self, partition: Partition, ends: PartitionBounds) -> PartitionPosition:
        """Return the start position of a partition, with its stop offset."""
        start = self._find_start(partition, ends) if self.is_first_run else ends.earliest
        return PartitionPosition(start, stop=self._find_stop(partition, ends, start))

    def update_stop(
        self, partition: Partition, ends: PartitionBounds, place: PartitionPosition
    ) -> PartitionPosition:
        """Return a resumed position with its current stop offset."""
        return replace(place, stop=self._find_stop(partition, ends, place.offset))

    def _find_start(self, partition: Partition, ends: PartitionBounds) -> int:
        match self.options.start:
            case "latest":
                return ends.latest
            case TimeBound():
                return ends.start if ends.start >= 0 else ends.latest
            case OffsetBounds() as offsets:
                wanted = offsets.get_offset(*partition)
                return ends.earliest if wanted is None else wanted
        return ends.earliest

    def _find_stop(self, partition: Partition, ends: PartitionBounds, start: int) -> int | None:
        stop = self.options.stop
        if stop is None:
            return None
        if not self.is_first_run:
            return start
        wanted = None
        if isinstance(stop, TimeBound):
            wanted = ends.stop if ends.stop >= 0 else None
        elif isinstance(stop, OffsetBounds):
            wanted = stop.get_offset(*partition)
        return max(start, ends.latest if wanted is None else min(wanted, ends.latest))
