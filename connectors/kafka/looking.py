"""Checks whether topics exist and may be read or written, without changing anything.

A fetch of one byte shows whether records may be read. A produce request without a record is always
refused; if not for lack of the right, the right exists. Rights to transactional ids and consumer
groups are not checked: every such request would create them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.structs import TopicPartition

from headrace.connectors.kafka.connection import REQUEST_S, KafkaOptions, connected, outage
from headrace.connectors.kafka.errors import DENIED, refusal
from headrace.connectors.kafka.patience import Patience
from headrace.connectors.kafka.sink.link import Link
from headrace.connectors.kafka.sink.sink import LONGEST
from headrace.connectors.kafka.sink.transactions import too_long
from headrace.connectors.kafka.sink.wire import BROKER, Wire
from headrace.connectors.kafka.sink_options import KafkaSink
from headrace.connectors.kafka.source import open_source
from headrace.connectors.kafka.source.places import partition_of
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.contracts import Surroundings
from headrace.core.plan import nodes
from headrace.core.rendering import count
from headrace.core.types import Schema

ALL_REPLICAS = -1

T = TypeVar("T")


async def source_there(source: nodes.Source, surroundings: Surroundings) -> str:
    """Describe the partitions to read. Raises ConnectorError."""
    options = source.options
    assert isinstance(options, KafkaSource)
    opened = open_source(source, surroundings)
    try:
        splits = await opened.discover(True)
    finally:
        await opened.close()
    partitions = [partition_of(split.name) for split in splits]
    some = {each.topic: each.number for each in partitions}
    async with _client(options, surroundings.folder) as client:
        await _asked(_read(client, some), f"read {options.which}")
    return f"{options.which}: {count(len(splits), 'partition')}, may be read"


async def sink_there(sink: nodes.Sink, schema: Schema, surroundings: Surroundings) -> str:
    """Describe the topic to write to. Raises ConnectorError."""
    options = sink.options
    assert isinstance(options, KafkaSink)
    async with _client(options, surroundings.folder) as client:
        wire = Wire(client, round(REQUEST_S * 1000))
        if options.delivery == "exactly_once":
            await _asked(_check_time(options, wire), "read the maximum transaction timeout")
        if options.row_topic is not None:
            return "brokers answer; each row names its topic"
        topic = options.topic
        assert isinstance(topic, str)
        link = Link(lambda: _found(wire), Patience(outage(sink.name, options), surroundings.tell))
        partitions = await link.partitions(topic)
        await _asked(_write(client, topic), f'write to topic "{topic}"')
    return f"topic {topic}: {count(partitions, 'partition')}, may be written to"


@asynccontextmanager
async def _client(options: KafkaOptions, folder: Path) -> AsyncIterator[AIOKafkaClient]:
    client = await connected(options, folder)
    try:
        yield client
    finally:
        await client.close()


async def _found(wire: Wire) -> Wire:
    return wire


async def _asked(asking: Awaitable[T], what: str) -> T:
    try:
        return await asking
    except KafkaError as error:
        raise refusal(error, what) from None


async def _read(client: AIOKafkaClient, partitions: Mapping[str, int]) -> None:
    """Fetch a byte of a partition of each topic. Raises ConnectorError if access is denied."""
    await client.set_topics(list(partitions))
    answers = [
        client.send(
            client.cluster.leader_for_partition(TopicPartition(topic, number)),
            FetchRequest(0, 0, 1, 0, [(topic, [(number, 0, 1)])]),
        )
        for topic, number in partitions.items()
    ]
    for answer in await asyncio.gather(*answers):
        for topic, said in answer.topics:
            if any(each[1] == DENIED for each in said):
                raise refusal(TopicAuthorizationFailedError(), f'read topic "{topic}"')


async def _write(client: AIOKafkaClient, topic: str) -> None:
    """Send a produce request without records. Raises KafkaError if access is denied."""
    node = client.cluster.leader_for_partition(TopicPartition(topic, 0))
    request = ProduceRequest(None, ALL_REPLICAS, 1000, [(topic, [(0, b"")])])
    answer = await client.send(node, request)
    if any(each[1] == DENIED for _, said in answer.topics for each in said):
        raise TopicAuthorizationFailedError


async def _check_time(options: KafkaSink, wire: Wire) -> None:
    timeout_ms = options.transaction_timeout // timedelta(milliseconds=1)
    for broker in wire.brokers()[:1]:
        allowed = await wire.config(BROKER, str(broker), LONGEST)
        if allowed and timeout_ms > int(allowed):
            raise too_long(timeout_ms, int(allowed))
