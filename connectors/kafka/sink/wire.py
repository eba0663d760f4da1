"""What a sink asks of brokers: one request a method, one try each.

This is the only place that knows how aiokafka puts requests, and at which versions. A producer of
aiokafka ends its transactions itself, or never tells who it is; so what one is made of is asked for
here, over a client. That client is of the version of EndTxn which leaves a producer's epoch as it
is: with the version that raises it, a handle would name two transactions
(tests/kafka/sink/test_wire.py says so at once when that changes).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
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

from headrace.connectors.kafka.errors import has_moved, of_code
from headrace.connectors.kafka.metadata import Topic, ask_any, ask_topics
from headrace.connectors.kafka.sink.batches import Place, Producer, Sealed

NONE_MS = 2**31 - 1
"""The timeout of a producer without transactions."""
REFRESH_S = 5.0
"""Who waits for longer asks again, perhaps another broker."""
TOPIC, BROKER = 2, 4
"""Kinds of things that have a configuration."""


@dataclass(slots=True)
class Wire:
    """Requests over a client. They raise KafkaError."""

    client: AIOKafkaClient
    request_ms: int
    _coordinators: dict[str, int] = field(default_factory=dict)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()

    async def topics(self, names: Sequence[str] | None) -> Mapping[str, Topic]:
        """The topics of these names, or all; none is made by asking."""
        return await ask_topics(self.client, names)

    async def follow(self, topics: Sequence[str]) -> None:
        """Know the leaders and the number of partitions of these topics from now on."""
        for topic in topics:
            self.client.add_topic(topic)
        await self.refresh()

    async def refresh(self) -> None:
        """Learn anew who leads what."""
        try:
            async with asyncio.timeout(REFRESH_S):
                await self.client.force_metadata_update()
        except TimeoutError:
            raise RequestTimedOutError from None

    async def refreshed(self, error: KafkaError) -> None:
        """Learn anew who leads and coordinates what, if that may help."""
        if has_moved(error):
            with suppress(KafkaError):
                await self.refresh()

    async def moved(self, id: str, error: KafkaError) -> None:
        """Ask somebody else for the transactions of that id, if that may help."""
        if has_moved(error):
            self.forget(id)
        await self.refreshed(error)

    def known(self, topic: str) -> int:
        """How many partitions a topic has that is followed; 0 if nobody has told yet."""
        return len(self.client.cluster.partitions_for_topic(topic) or ())

    def leader(self, place: Place) -> int | None:
        """The broker that takes what goes there, if one is known."""
        leader = self.client.cluster.leader_for_partition(TopicPartition(*place))
        return None if leader is None or leader < 0 else leader

    async def config(self, kind: int, name: str, key: str) -> str | None:
        """A value of the configuration of a topic or a broker; None if it is not told."""
        request = DescribeConfigsRequest(resources=[(kind, name, [key])])
        node = int(name) if kind == BROKER else None
        answer = await self._ask(request, node)
        for code, _, _, _, entries in answer.resources:
            for entry in entries if not code else ():
                if entry[0] == key:
                    return None if entry[1] is None else str(entry[1])
        return None

    def brokers(self) -> list[int]:
        """Those that are known."""
        return sorted(broker.nodeId for broker in self.client.cluster.brokers())

    async def init(self, id: str | None, timeout_ms: int = NONE_MS) -> Producer:
        """A producer; whatever was open under its id is aborted, and whoever wrote, fenced."""
        request = InitProducerIdRequest(id, timeout_ms)
        answer = await (self._coordinate(id, request) if id else self._ask(request))
        _raise(answer.error_code)
        return Producer(answer.producer_id, answer.producer_epoch, id)

    async def add(self, producer: Producer, places: Sequence[Place]) -> None:
        """Have these partitions in the producer's transaction; it begins with the first."""
        assert producer.id is not None
        topics: dict[str, list[int]] = {}
        for topic, number in places:
            topics.setdefault(topic, []).append(number)
        request = AddPartitionsToTxnRequest(
            producer.id, producer.number, producer.epoch, list(topics.items())
        )
        answer = await self._coordinate(producer.id, request)
        # Of those that are not the reason, it says that they were not attempted.
        codes = [code for _, partitions in answer.errors for _, code in partitions]
        _raise(next((code for code in codes if code not in (0, 55)), max(codes, default=0)))

    async def end(self, producer: Producer, *, commit: bool) -> None:
        """Commit or abort the producer's transaction."""
        assert producer.id is not None
        request = EndTxnRequest(producer.id, producer.number, producer.epoch, commit)
        _raise((await self._coordinate(producer.id, request)).error_code)

    async def produce(
        self, node: int, producer: Producer, batches: Sequence[Sealed]
    ) -> dict[Place, int]:
        """Write batches, one a partition: what became of each, as a code; 0 is well."""
        topics: dict[str, list[tuple[int, bytes]]] = {}
        for batch in batches:
            topic, number = batch.place
            topics.setdefault(topic, []).append((number, bytes(batch.data)))
        request = ProduceRequest(
            transactional_id=producer.id,
            required_acks=-1,
            timeout=self.request_ms,
            topics=list(topics.items()),
        )
        answer = await self.client.send(node, request)
        return {
            (topic, each[0]): each[1] for topic, partitions in answer.topics for each in partitions
        }

    async def _ask(self, request: Request, node: int | None = None) -> Any:
        """An answer of that broker, or of any."""
        if node is None:
            return await ask_any(self.client, request)
        return await self.client.send(node, request)

    async def _coordinate(self, id: str, request: Request) -> Any:
        """An answer of the coordinator of an id's transactions; it may have moved."""
        if id not in self._coordinators:
            found = await self._ask(FindCoordinatorRequest(id, CoordinationType.TRANSACTION))
            _raise(found.error_code)
            self._coordinators[id] = found.coordinator_id
        try:
            node = self._coordinators[id]
            answer = await self.client.send(node, request, group=ConnectionGroup.COORDINATION)
        except BaseException:
            self.forget(id)
            raise
        return answer

    def forget(self, id: str) -> None:
        """Ask anew who coordinates its transactions."""
        self._coordinators.pop(id, None)


def _raise(code: int) -> None:
    if code:
        raise of_code(code)
