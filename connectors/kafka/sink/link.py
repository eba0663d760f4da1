"""The connection, retries and known topics that a sink and its writers share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from aiokafka import errors as kafka

from headrace.connectors.kafka.errors import refusal
from headrace.connectors.kafka.metadata import MADE_S, Topic, no_topic
from headrace.connectors.kafka.patience import Patience, Pauses
from headrace.connectors.kafka.sink.wire import Wire
from headrace.core.contracts import ConnectorError

T = TypeVar("T")

UNKNOWN_S = 10.0
"""Seconds for which a topic that existed before may be unknown."""
START_S = 30.0
"""Seconds to wait for the metadata of a topic."""


@dataclass(slots=True)
class Link:
    """A connection made on first use; `connect` raises ConnectorError."""

    connect: Callable[[], Awaitable[Wire]]
    patience: Patience
    _wire: Wire | None = None
    _connecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _known: set[str] = field(default_factory=set)

    async def wire(self) -> Wire:
        """Return the connection, connecting on first use."""
        async with self._connecting:
            if self._wire is None:
                self._wire = await self.connect()
        return self._wire

    async def partitions(self, topic: str) -> int:
        """Return the number of partitions. Raises ConnectorError if the topic is missing."""
        wire = await self.wire()
        if topic not in self._known or not wire.known(topic):
            await self._follow(topic, wire)
        return wire.known(topic)

    async def _follow(self, topic: str, wire: Wire) -> None:
        """Look up the topic without creating it, and track its leaders from now on."""
        found = await self._found(topic, wire)
        # A broker that has just started may not know existing topics yet.
        bear_s = UNKNOWN_S if topic in self._known else MADE_S
        until_s, pauses = asyncio.get_running_loop().time() + bear_s, Pauses()
        while found.is_unknown:
            if asyncio.get_running_loop().time() >= until_s:
                raise await self._unknown(topic, wire)
            await pauses.pause()
            found = await self._found(topic, wire)
        if found.error is not None:
            raise refusal(found.error, f'write to topic "{topic}"')
        while not wire.known(topic):
            await self._insist(partial(wire.follow, [topic]), topic, wire)
        self._known.add(topic)

    async def _found(self, topic: str, wire: Wire) -> Topic:
        return (await self._insist(partial(wire.topics, [topic]), topic, wire))[topic]

    async def _insist(self, ask: Callable[[], Coroutine[Any, Any, T]], topic: str, wire: Wire) -> T:
        try:
            return await self.patience.insist(ask, otherwise=wire.refreshed, within_s=START_S)
        except kafka.KafkaError as error:
            raise refusal(error, f'look for topic "{topic}"') from error

    async def _unknown(self, topic: str, wire: Wire) -> ConnectorError:
        try:
            return no_topic(topic, await self.patience.watched(wire.topics(None)))
        except kafka.KafkaError:
            return no_topic(topic, {})

    async def close(self) -> None:
        """Close the connection, if it is open."""
        if self._wire is not None:
            await self._wire.close()
