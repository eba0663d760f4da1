"""A sink's requests to brokers: one request per method, one try each.

Only this module knows how aiokafka builds requests, and their versions. aiokafka's producer ends
its transactions itself and does not expose its identity, so its requests are sent here, over a
client. That client uses the version of EndTxn that keeps a producer's epoch; with the version that
raises the epoch, a handle would name two transactions. tests/connectors/kafka/sink/test_wire.py
fails if that changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.errors import KafkaError, RequestTimedOutError
from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.api import Request
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)
from aiokafka.structs import TopicPartition

from headrace.connectors.kafka.errors import build_error, has_moved
from headrace.connectors.kafka.sink.producer_batches import (
    ProducerIdentity,
    SealedBatch,
    TopicPartitionId,
)
from headrace.connectors.kafka.topic_metadata import TopicMetadata, request_topics, send_to_any
from headrace.core.types.lazy_dataclass import dataclass

NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of a producer without transactions."""
REFRESH_TIMEOUT_S = 5.0
"""The timeout of a metadata refresh; the caller retries, perhaps at another broker."""
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
"""Kinds of resources with a configuration."""


@dataclass(slots=True)
class BrokerRequests:
    """Sends requests over a client. All methods raise KafkaError."""

    client: AIOKafkaClient
    request_ms: int
    _coordinators: dict[str, int] = field(default_factory=dict)

    async def close(self) -> None:
        """Close all connections."""
        await self.client.close()

    async def request_topics(self, names: Sequence[str] | None) -> Mapping[str, TopicMetadata]:
        """Request the metadata of these topics, or of all, without creating any."""
        return await request_topics(self.client, names)

    async def track_topics(self, topics: Sequence[str]) -> None:
        """Track the leaders and partitions of these topics from now on."""
        for topic in topics:
            self.client.add_topic(topic)
        await self.refresh_metadata()

    async def refresh_metadata(self) -> None:
        """Refresh the leaders of all tracked topics."""
        try:
            async with asyncio.timeout(REFRESH_TIMEOUT_S):
                await self.client.force_metadata_update()
        except TimeoutError:
            raise RequestTimedOutError from None

    async def refresh_if_moved(self, error: KafkaError) -> None:
        """Refresh the leaders, if the error may be due to a moved one."""
        if has_moved(error):
            with suppress(KafkaError):
                await self.refresh_metadata()

    async def forget_if_moved(self, id: str, error: KafkaError) -> None:
        """Forget the coordinator of an id and refresh, if the error may be due to a moved one."""
        if has_moved(error):
            self.forget_coordinator(id)
        await self.refresh_if_moved(error)

    def count_partitions(self, topic: str) -> int:
        """Return the number of partitions of a tracked topic; 0 if unknown yet."""
        return len(self.client.cluster.partitions_for_topic(topic) or ())

    def find_leader(self, place: TopicPartitionId) -> int | None:
        """Return the broker that leads the partition, if known."""
        leader = self.client.cluster.leader_for_partition(TopicPartition(*place))
        return None if leader is None or leader < 0 else leader

    async def request_config(self, kind: int, name: str, key: str) -> str | None:
        """Return a configuration value of a topic or a broker; None if it is not reported."""
        request = DescribeConfigsRequest(resources=[(kind, name, [key])])
        node = int(name) if kind == BROKER_RESOURCE else None
        answer = await self._send_request(request, node)
        for code, _, _, _, entries in answer.resources:
            for entry in entries if not code else ():
                if entry[0] == key:
                    return None if entry[1] is None else str(entry[1])
        return None

    def list_brokers(self) -> list[int]:
        """Return the ids of the known brokers."""
        return sorted(broker.nodeId for broker in self.client.cluster.brokers())

    async def init_producer(
        self, id: str | None, timeout_ms: int = NO_TIMEOUT_MS
    ) -> ProducerIdentity:
        """Initialise a producer, which aborts its id's open transaction and fences earlier ones."""
        request = InitProducerIdRequest(id, timeout_ms)
        answer = await (
            self._send_to_coordinator(id, request) if id else self._send_request(request)
        )
        _raise_for_code(answer.error_code)
        return ProducerIdentity(answer.producer_id, answer.producer_epoch, id)

    async def add_partitions(
        self, producer: ProducerIdentity, places: Sequence[TopicPartitionId]
    ) -> None:
        """Add partitions to the producer's transaction, which starts with the first."""
        assert producer.transactional_id is not None
        topics: dict[str, list[int]] = {}
        for topic, number in places:
            topics.setdefault(topic, []).append(number)
        request = AddPartitionsToTxnRequest(
            producer.transactional_id, producer.producer_id, producer.epoch, list(topics.items())
        )
        answer = await self._send_to_coordinator(producer.transactional_id, request)
        # Partitions that are not the cause have code 55: operation not attempted.
        codes = [code for _, partitions in answer.errors for _, code in partitions]
        _raise_for_code(
            next((code for code in codes if code not in (0, 55)), max(codes, default=0))
        )

    async def end_transaction(self, producer: ProducerIdentity, *, commit: bool) -> None:
        """Commit or abort the producer's transaction."""
        assert producer.transactional_id is not None
        request = EndTxnRequest(
            producer.transactional_id, producer.producer_id, producer.epoch, commit
        )
        _raise_for_code(
            (await self._send_to_coordinator(producer.transactional_id, request)).error_code
        )

    async def produce(
        self, node: int, producer: ProducerIdentity, batches: Sequence[SealedBatch]
    ) -> dict[TopicPartitionId, int]:
        """Write batches, one per partition; return the error code of each, 0 for success."""
        topics: dict[str, list[tuple[int, bytes]]] = {}
        for batch in batches:
            topic, number = batch.partition
            topics.setdefault(topic, []).append((number, bytes(batch.data)))
        request = ProduceRequest(
            transactional_id=producer.transactional_id,
            required_acks=-1,
            timeout=self.request_ms,
            topics=list(topics.items()),
        )
        answer = await self.client.send(node, request)
        return {
            (topic, each[0]): each[1] for topic, partitions in answer.topics for each in partitions
        }

    async def _send_request(self, request: Request, node: int | None = None) -> Any:
        """Send a request to that broker, or to any."""
        if node is None:
            return await send_to_any(self.client, request)
        return await self.client.send(node, request)

    async def _send_to_coordinator(self, id: str, request: Request) -> Any:
        """Send a request to the transaction coordinator of an id, which is looked up if unknown."""
        if id not in self._coordinators:
            found = await self._send_request(
                FindCoordinatorRequest(id, CoordinationType.TRANSACTION)
            )
            _raise_for_code(found.error_code)
            self._coordinators[id] = found.coordinator_id
        try:
            node = self._coordinators[id]
            answer = await self.client.send(node, request, group=ConnectionGroup.COORDINATION)
        except BaseException:
            self.forget_coordinator(id)
            raise
        return answer

    def forget_coordinator(self, id: str) -> None:
        """Look up the coordinator of the id again at its next request."""
        self._coordinators.pop(id, None)


def _raise_for_code(code: int) -> None:
    if code:
        raise build_error(code)
