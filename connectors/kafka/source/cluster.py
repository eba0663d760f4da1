"""What brokers tell of topics and offsets, and what is told them: plain values in and out.

Its client is not the one that fetches: a broker answers one request of a connection after the
other, and a fetch waits there for records.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from aiokafka.client import CoordinationType
from aiokafka.errors import KafkaError
from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.protocol.offset import OffsetRequest

from headrace.connectors.kafka.errors import Later, of_code, passes, refusal, said
from headrace.connectors.kafka.metadata import NO_LEADER, Topic, ask_topics
from headrace.connectors.kafka.patience import Patience
from headrace.connectors.kafka.source.places import Partition

if TYPE_CHECKING:
    from aiokafka.client import AIOKafkaClient

T = TypeVar("T")

LATEST, EARLIEST = -1, -2
"""Instead of a timestamp."""
COMMITTED, UNCOMMITTED = 1, 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Asks brokers. It raises KafkaError, which is `Later` where a broker says so."""

    client: AIOKafkaClient
    patience: Patience

    async def persist(
        self, work: Callable[[], Awaitable[T]], what: str, within_s: float | None = None
    ) -> T:
        """What comes of requests that are asked until they are answered.

        Raises ConnectorError, if not: cannot `what`.
        """
        otherwise = self._found_again
        try:
            return await self.patience.persist(work, otherwise=otherwise, within_s=within_s)
        except KafkaError as error:
            raise refusal(error, what) from error

    async def _found_again(self, _: KafkaError) -> None:
        if self.patience.outage.told:
            await found_again(self.client)

    async def topics(self, names: Sequence[str] | None) -> dict[str, Topic]:
        """The topics of these names, or all; none is made by asking."""
        return await self.patience.watched(ask_topics(self.client, names))

    async def offsets(
        self, times: Mapping[Partition, int], leaders: Mapping[Partition, int], isolation: int
    ) -> dict[Partition, int]:
        """The offset of the first record not older than that, of each; -1 where there is none.

        Raises KafkaError for any of them.
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
        """Tell the group's coordinator how far these are read."""
        node = await self.client.coordinator_lookup(CoordinationType.GROUP, group)
        topics = defaultdict(list)
        for partition, offset in offsets.items():
            topics[partition.topic].append((partition.number, offset, ""))
        request = OffsetCommitRequest(group, -1, "", -1, list(topics.items()))
        answer = await self.client.send(node, request)
        for _, partitions in answer.topics:
            for _, error in partitions:
                _check(error)


async def found_again(client: AIOKafkaClient) -> None:
    """Ask the brokers that the user named where the others are: all may have moved."""
    with suppress(KafkaError, OSError, EOFError):
        await client.bootstrap()


def _check(code: int, what: str = "") -> None:
    if not code:
        return
    error = of_code(code)
    if passes(error):
        raise Later(f"{what}: {said(error)}" if what else said(error))
    raise error
