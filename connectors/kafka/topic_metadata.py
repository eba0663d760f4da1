"""Metadata of topics, requested without creating any, and the error of a missing topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, NodeNotReadyError, UnknownTopicOrPartitionError
from aiokafka.protocol.api import Request
from aiokafka.protocol.metadata import MetadataRequest

from headrace.connectors.kafka.errors import build_error
from headrace.core.api.failures import ConnectorError
from headrace.core.errors.problems import suggest_name
from headrace.core.types.lazy_dataclass import dataclass

NO_LEADER = -1
CREATION_DELAY_S = 1.0
"""Seconds after a topic's creation in which a broker may not know it yet."""
MAX_LISTED = 10
"""The maximum of topics listed in a message if none has a similar name."""


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """The metadata of a topic: an error, or the leader of each partition."""

    error: KafkaError | None
    leaders: Mapping[int, int]
    is_internal: bool = False

    @property
    def is_unknown(self) -> bool:
        """Whether the broker does not know the topic."""
        return isinstance(self.error, UnknownTopicOrPartitionError)


UNKNOWN_TOPIC = TopicMetadata(UnknownTopicOrPartitionError(), {})


async def send_to_any(client: AIOKafkaClient, request: Request) -> Any:
    """Send a request to any broker. Raises KafkaError."""
    node = client.get_random_node()
    if node is None:
        raise NodeNotReadyError("no broker is known")
    return await client.send(node, request)


async def request_topics(
    client: AIOKafkaClient, names: Sequence[str] | None
) -> dict[str, TopicMetadata]:
    """Request the metadata of these topics, or of all visible ones. Raises KafkaError."""
    topics = None if names is None else list(names)
    answer = await send_to_any(client, MetadataRequest(topics, allow_auto_topic_creation=False))
    return {
        name: TopicMetadata(
            build_error(code) if code else None,
            {found[1]: found[2] for found in partitions},
            is_internal,
        )
        for code, name, is_internal, partitions in answer.topics
    }


def build_missing_topic_error(name: str, known: Mapping[str, TopicMetadata]) -> ConnectorError:
    """Build the error of a missing topic, with similar names as the hint."""
    names = sorted(name for name, topic in known.items() if not topic.is_internal)
    few = f"there are {', '.join(names)}" if 0 < len(names) <= MAX_LISTED else ""
    hint, make = suggest_name(name, names) or few, "headrace does not create topics"
    return ConnectorError(
        f'there is no topic "{name}"', f"{hint}; {make}" if hint else make, final=True
    )
