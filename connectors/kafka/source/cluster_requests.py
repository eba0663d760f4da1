"""Requests about topics, offsets and group positions: plain values in and out.

The client is not the one that fetches: a broker answers the requests of a connection one after the
other, and a fetch waits there for records.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from aiokafka.client import CoordinationType
from aiokafka.errors import KafkaError
from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.protocol.offset import OffsetRequest

from headrace.connectors.kafka.errors import (
    TransientError,
    build_error,
    describe_error,
    is_transient,
    translate_error,
)
from headrace.connectors.kafka.retry import RequestRetry
from headrace.connectors.kafka.source.positions import Partition
from headrace.connectors.kafka.topic_metadata import NO_LEADER, TopicMetadata, request_topics
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from aiokafka.client import AIOKafkaClient

T = TypeVar("T")

LATEST_TIME, EARLIEST_TIME = -1, -2
"""Special values in place of a timestamp."""
READ_COMMITTED, READ_UNCOMMITTED = 1, 0


@dataclass(frozen=True, slots=True)
class ClusterRequests:
    """Sends requests to brokers.

    Raises KafkaError; `TransientError` for transient errors of brokers.
    """

    client: AIOKafkaClient
    retry: RequestRetry

    async def retry_work(
        self, work: Callable[[], Awaitable[T]], what: str, within_s: float | None = None
    ) -> T:
        """Run requests with retries until they are answered.

        Raises ConnectorError "cannot `what`" if they fail for good.
        """
        otherwise = self._rebootstrap
        try:
            return await self.retry.retry_work(work, otherwise=otherwise, within_s=within_s)
        except KafkaError as error:
            raise translate_error(error, what) from error

    async def _rebootstrap(self, _: KafkaError) -> None:
        if self.retry.outage.is_reported:
            await bootstrap_again(self.client)

    async def request_topics(self, names: Sequence[str] | None) -> dict[str, TopicMetadata]:
        """Request the metadata of these topics, or of all, without creating any."""
        return await self.retry.watch_request(request_topics(self.client, names))

    async def request_offsets(
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
                raise TransientError(f"partition {partition} has no leader")
            by_node[node][partition.topic].append((partition.number, time))
        requests = [
            self.client.send(node, OffsetRequest(-1, isolation, list(topics.items())))
            for node, topics in by_node.items()
        ]
        found = {}
        for answer in await self.retry.watch_request(asyncio.gather(*requests)):
            for topic, partitions in answer.topics:
                for number, error, _, offset in partitions:
                    _raise_for_code(error, f"partition {Partition(topic, number)}")
                    found[Partition(topic, number)] = offset
        return found

    async def commit_offsets(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Commit the offsets to the coordinator of the group."""
        node = await self.client.coordinator_lookup(CoordinationType.GROUP, group)
        topics = defaultdict(list)
        for partition, offset in offsets.items():
            topics[partition.topic].append((partition.number, offset, ""))
        request = OffsetCommitRequest(group, -1, "", -1, list(topics.items()))
        answer = await self.client.send(node, request)
        for _, partitions in answer.topics:
            for _, error in partitions:
                _raise_for_code(error)


async def bootstrap_again(client: AIOKafkaClient) -> None:
    """Bootstrap again from the configured brokers: all others may have moved."""
    with suppress(KafkaError, OSError, EOFError):
        await client.bootstrap()


def _raise_for_code(code: int, what: str = "") -> None:
    if not code:
        return
    error = build_error(code)
    if is_transient(error):
        raise TransientError(f"{what}: {describe_error(error)}" if what else describe_error(error))
    raise error
