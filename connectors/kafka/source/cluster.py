"""Requests about topics, offsets and group positions: plain values in and out.

The client is not the one that fetches: a broker answers the requests of a connection one after the
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
"""Special values in place of a timestamp."""
COMMITTED, UNCOMMITTED = 1, 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Sends requests to brokers. Raises KafkaError; `Later` for transient errors of brokers."""

    client: AIOKafkaClient
    patience: Patience

    async def persist(
        self, work: Callable[[], Awaitable[T]], what: str, within_s: float | None = None
    ) -> T:
        """Run requests with retries until they are answered.

        Raises ConnectorError "cannot `what`" if they fail for good.
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
        """Request the metadata of these topics, or of all, without creating any."""
        return await self.patience.watched(ask_topics(self.client, names))

    async def offsets(
        self, times: Mapping[Partition, int], leaders: Mapping[Partition, int], isolation: int
    ) -> dict[Partition, int]:
        """Return the offset of each partition's first record since a time; -1 if there is none.

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
        """Commit the offsets to the coordinator of the group."""
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
    """Bootstrap again from the configured brokers: all others may have moved."""
    with suppress(KafkaError, OSError, EOFError):
        await client.bootstrap()


def _check(code: int, what: str = "") -> None:
    if not code:
        return
    error = of_code(code)
    if passes(error):
        raise Later(f"{what}: {said(error)}" if what else said(error))
    raise error
