"""The connection, retries and known topics that a sink and its writers share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import field
from functools import partial
from typing import Any, TypeVar

from aiokafka import errors as kafka

from headrace.connectors.kafka.errors import translate_error
from headrace.connectors.kafka.retry import RequestBackoff, RequestRetry
from headrace.connectors.kafka.sink.wire import BrokerRequests
from headrace.connectors.kafka.topic_metadata import (
    CREATION_DELAY_S,
    TopicMetadata,
    build_missing_topic_error,
)
from headrace.core.api.failures import ConnectorError
from headrace.core.types.lazy_dataclass import dataclass

T = TypeVar("T")

UNKNOWN_LIMIT_S = 10.0
"""Seconds for which a topic that existed before may be unknown."""
START_TIMEOUT_S = 30.0
"""Seconds to wait for the metadata of a topic."""


@dataclass(slots=True)
class BrokerLink:
    """A connection made on first use; `connect` raises ConnectorError."""

    connect: Callable[[], Awaitable[BrokerRequests]]
    retry: RequestRetry
    _wire: BrokerRequests | None = None
    _connecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _known_topics: set[str] = field(default_factory=set)

    async def get_wire(self) -> BrokerRequests:
        """Return the connection, connecting on first use."""
        async with self._connecting:
            if self._wire is None:
                self._wire = await self.connect()
        return self._wire

    async def count_partitions(self, topic: str) -> int:
        """Return the number of partitions. Raises ConnectorError if the topic is missing."""
        wire = await self.get_wire()
        if topic not in self._known_topics or not wire.count_partitions(topic):
            await self._track_topic(topic, wire)
        return wire.count_partitions(topic)

    async def _track_topic(self, topic: str, wire: BrokerRequests) -> None:
        """Look up the topic without creating it, and track its leaders from now on."""
        topic_metadata = await self._request_topic(topic, wire)
        # A broker that has just started may not know existing topics yet.
        bear_s = UNKNOWN_LIMIT_S if topic in self._known_topics else CREATION_DELAY_S
        until_s, pauses = asyncio.get_running_loop().time() + bear_s, RequestBackoff()
        while topic_metadata.is_unknown:
            if asyncio.get_running_loop().time() >= until_s:
                raise await self._build_missing_error(topic, wire)
            await pauses.pause()
            topic_metadata = await self._request_topic(topic, wire)
        if topic_metadata.error is not None:
            raise translate_error(topic_metadata.error, f'write to topic "{topic}"')
        while not wire.count_partitions(topic):
            await self._retry_request(partial(wire.track_topics, [topic]), topic, wire)
        self._known_topics.add(topic)

    async def _request_topic(self, topic: str, wire: BrokerRequests) -> TopicMetadata:
        return (await self._retry_request(partial(wire.request_topics, [topic]), topic, wire))[
            topic
        ]

    async def _retry_request(
        self, request: Callable[[], Coroutine[Any, Any, T]], topic: str, wire: BrokerRequests
    ) -> T:
        try:
            return await self.retry.retry_request(
                request, otherwise=wire.refresh_if_moved, within_s=START_TIMEOUT_S
            )
        except kafka.KafkaError as error:
            raise translate_error(error, f'look for topic "{topic}"') from error

    async def _build_missing_error(self, topic: str, wire: BrokerRequests) -> ConnectorError:
        try:
            return build_missing_topic_error(
                topic, await self.retry.watch_request(wire.request_topics(None))
            )
        except kafka.KafkaError:
            return build_missing_topic_error(topic, {})

    async def close(self) -> None:
        """Close the connection, if it is open."""
        if self._wire is not None:
            await self._wire.close()
