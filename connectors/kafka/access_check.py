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

from headrace.connectors.kafka.connection import (
    REQUEST_TIMEOUT_S,
    KafkaOptions,
    build_outage,
    connect_client,
)
from headrace.connectors.kafka.errors import ACCESS_DENIED, translate_error
from headrace.connectors.kafka.retry import OutageReports, RequestRetry
from headrace.connectors.kafka.sink.link import BrokerLink
from headrace.connectors.kafka.sink.sink import MAX_TIMEOUT_KEY
from headrace.connectors.kafka.sink.transactions import build_timeout_error
from headrace.connectors.kafka.sink.wire import BROKER_RESOURCE, BrokerRequests
from headrace.connectors.kafka.sink_options import KafkaSink
from headrace.connectors.kafka.source import build_source
from headrace.connectors.kafka.source.positions import parse_partition
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.api.run_context import RunContext
from headrace.core.errors.rendering import format_count
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema

ALL_REPLICAS = -1

T = TypeVar("T")


async def describe_source(source: nodes.Source, run_context: RunContext) -> str:
    """Describe the partitions to read. Raises ConnectorError."""
    options = source.options
    assert isinstance(options, KafkaSource)
    opened = build_source(source, run_context)
    try:
        splits = await opened.discover_splits(True)
    finally:
        await opened.close()
    partitions = [parse_partition(split.name) for split in splits]
    some = {each.topic: each.number for each in partitions}
    async with _open_client(options, run_context.folder) as client:
        await _translate_refusal(_check_read_access(client, some), f"read {options.topics_text}")
    return f"{options.topics_text}: {format_count(len(splits), 'partition')}, may be read"


async def describe_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> str:
    """Describe the topic to write to. Raises ConnectorError."""
    options = sink.options
    assert isinstance(options, KafkaSink)
    async with _open_client(options, run_context.folder) as client:
        wire = BrokerRequests(client, round(REQUEST_TIMEOUT_S * 1000))
        if options.delivery == "exactly_once":
            await _translate_refusal(
                _check_timeout(options, wire), "read the maximum transaction timeout"
            )
        if options.row_topic is not None:
            return "brokers answer; each row names its topic"
        topic = options.topic
        assert isinstance(topic, str)
        link = BrokerLink(
            lambda: _return_wire(wire),
            RequestRetry(
                build_outage(sink.name, options),
                run_context.notify_user,
                OutageReports(run_context.notify_user).report,
            ),
        )
        partitions = await link.count_partitions(topic)
        await _translate_refusal(_check_write_access(client, topic), f'write to topic "{topic}"')
    return f"topic {topic}: {format_count(partitions, 'partition')}, may be written to"


@asynccontextmanager
async def _open_client(options: KafkaOptions, folder: Path) -> AsyncIterator[AIOKafkaClient]:
    client = await connect_client(options, folder)
    try:
        yield client
    finally:
        await client.close()


async def _return_wire(wire: BrokerRequests) -> BrokerRequests:
    return wire


async def _translate_refusal(request: Awaitable[T], what: str) -> T:
    try:
        return await request
    except KafkaError as error:
        raise translate_error(error, what) from None


async def _check_read_access(client: AIOKafkaClient, partitions: Mapping[str, int]) -> None:
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
        for topic, answered in answer.topics:
            if any(each[1] == ACCESS_DENIED for each in answered):
                raise translate_error(TopicAuthorizationFailedError(), f'read topic "{topic}"')


async def _check_write_access(client: AIOKafkaClient, topic: str) -> None:
    """Send a produce request without records. Raises KafkaError if access is denied."""
    node = client.cluster.leader_for_partition(TopicPartition(topic, 0))
    request = ProduceRequest(None, ALL_REPLICAS, 1000, [(topic, [(0, b"")])])
    answer = await client.send(node, request)
    if any(each[1] == ACCESS_DENIED for _, partitions in answer.topics for each in partitions):
        raise TopicAuthorizationFailedError


async def _check_timeout(options: KafkaSink, wire: BrokerRequests) -> None:
    timeout_ms = options.transaction_timeout // timedelta(milliseconds=1)
    for broker in wire.list_brokers()[:1]:
        allowed = await wire.request_config(BROKER_RESOURCE, str(broker), MAX_TIMEOUT_KEY)
        if allowed and timeout_ms > int(allowed):
            raise build_timeout_error(timeout_ms, int(allowed))
