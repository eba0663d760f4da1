"""What brokers tell of topics and offsets, and what is told them: plain values in and out.

Its client is not the one that fetches: a broker answers one request of a connection after the
other, and a fetch waits there for records.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiokafka.client import CoordinationType
from aiokafka.errors import for_code
from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest

from headrace.connectors.kafka.source.patience import Later, Patience
from headrace.connectors.kafka.source.places import Partition

if TYPE_CHECKING:
    from aiokafka.client import AIOKafkaClient

NONE, UNKNOWN_TOPIC, DENIED, GROUP_DENIED = 0, 3, 29, 30
OUT_OF_RANGE, DAMAGED = 1, 2
PASSING = frozenset((9, 74, 75, 78))
"""No replica there yet, an older or newer leader, no offset yet."""
NO_LEADER = -1
LATEST, EARLIEST = -1, -2
"""Instead of a timestamp."""
COMMITTED, UNCOMMITTED = 1, 0


@dataclass(frozen=True, slots=True)
class Topic:
    """What is known of a topic: an error, or the leader of each partition."""

    error: int
    leaders: Mapping[int, int]
    is_internal: bool = False


class Refused(Exception):
    """A broker answered that it will not."""

    def __init__(self, code: int) -> None:
        super().__init__(error_text(code))
        self.code = code


def error_text(code: int) -> str:
    """An error by the name that Kafka has for it."""
    name = for_code(code).__name__.removesuffix("Error")
    return f"the broker says {name}" if name != "Unknown" else f"the broker says error {code}"


def is_passing(code: int) -> bool:
    """Whether what was refused may be granted when it is asked again."""
    return code in PASSING or bool(for_code(code).retriable)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Asks brokers. What is raised where none answers is for `Patience`."""

    client: AIOKafkaClient
    patience: Patience

    async def topics(self, names: Sequence[str] | None) -> dict[str, Topic]:
        """The topics of these names, or all; none is made by asking."""
        asked = None if names is None else list(names)
        node = self.client.get_random_node()
        request = MetadataRequest(asked, allow_auto_topic_creation=False)
        answer = await self.patience.watched(self.client.send(node, request))
        return {
            name: Topic(error, {found[1]: found[2] for found in partitions}, internal)
            for error, name, internal, partitions in answer.topics
        }

    async def offsets(
        self, times: Mapping[Partition, int], leaders: Mapping[Partition, int], isolation: int
    ) -> dict[Partition, int]:
        """The offset of the first record not older than that, of each; -1 where there is none.

        Raises Later, or Refused, for any of them.
        """
        by_node: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for partition, time in times.items():
            node = leaders.get(partition, NO_LEADER)
            if node == NO_LEADER:
                raise Later(f"partition {partition} has no leader")
            by_node[node][partition.topic].append((partition.number, time))
        requests = [
            self.client.send(node, OffsetRequest(-1, isolation, list(topics.items())))
            for node, topics in by_node.items()
        ]
        found = {}
        for answer in await self.patience.watched(asyncio.gather(*requests)):
            for topic, partitions in answer.topics:
                for number, error, _, offset in partitions:
                    _check(error, f"partition {Partition(topic, number)}")
                    found[Partition(topic, number)] = offset
        return found

    async def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Tell the group's coordinator how far these are read. Raises Refused."""
        node = await self.client.coordinator_lookup(CoordinationType.GROUP, group)
        topics = defaultdict(list)
        for partition, offset in offsets.items():
            topics[partition.topic].append((partition.number, offset, ""))
        request = OffsetCommitRequest(group, -1, "", -1, list(topics.items()))
        answer = await self.client.send(node, request)
        for _, partitions in answer.topics:
            for _, error in partitions:
                _check(error)


def _check(error: int, what: str = "") -> None:
    if error == NONE:
        return
    if is_passing(error):
        raise Later(f"{what}: {error_text(error)}" if what else error_text(error))
    raise Refused(error)
