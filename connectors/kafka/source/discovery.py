"""Discovery of partitions: existence, access, and the offsets at which reading begins."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

from aiokafka.errors import KafkaError

from headrace.connectors.kafka.errors import (
    TransientError,
    describe_error,
    is_transient,
    translate_error,
)
from headrace.connectors.kafka.source.cluster_requests import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    ClusterRequests,
)
from headrace.connectors.kafka.source.offset_queries import (
    OffsetQueries,
    PartitionBounds,
    find_missing_partition,
)
from headrace.connectors.kafka.source.positions import Partition, PartitionPosition
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.connectors.kafka.topic_metadata import (
    CREATION_DELAY_S,
    UNKNOWN_TOPIC,
    TopicMetadata,
    build_missing_topic_error,
)
from headrace.core.api.failures import ConnectorError
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PartitionDiscovery:
    """Discovers the partitions of a source."""

    options: KafkaSource
    cluster: ClusterRequests
    skips_missing: bool = False
    """Whether a missing topic is skipped, because its split reader will report it."""

    @property
    def isolation_level(self) -> int:
        """The isolation level as a number of Kafka's protocol."""
        return READ_COMMITTED if self.options.isolation == "read_committed" else READ_UNCOMMITTED

    async def discover_partitions(self) -> dict[Partition, int]:
        """Return the partitions with their leaders, in order. Raises KafkaError, ConnectorError."""
        if self.options.pattern is not None:
            topics = self._filter_by_pattern(await self.cluster.request_topics(None))
        else:
            topics = await self.cluster.request_topics(self._topic_names)
            for name in self._topic_names:
                await self._check_topic(name, topics.get(name, UNKNOWN_TOPIC))
        found = {
            Partition(name, number): leader
            for name, topic in topics.items()
            for number, leader in topic.leaders.items()
        }
        return dict(sorted(found.items()))

    async def find_start_positions(
        self, first: bool, partitions: Mapping[Partition, int]
    ) -> dict[Partition, PartitionPosition]:
        """Return the start position of each partition. Raises KafkaError, ConnectorError."""
        questions = OffsetQueries(self.options, first)
        ends = await self._request_bounds(questions, partitions)
        return {
            partition: questions.find_start_position(partition, ends[partition])
            for partition in partitions
        }

    def check_bounds(self, there: Mapping[Partition, int]) -> None:
        """Raise ConnectorError if `start` or `stop` names a partition that does not exist."""
        if found := find_missing_partition(self.options, there):
            word, (topic, number) = found
            last = max(each.number for each in there if each.topic == topic)
            raise ConnectorError(
                f'{word}: there is no partition {number} of topic "{topic}"',
                f"it has the partitions 0 to {last}" if last else "it has only partition 0",
                final=True,
            )

    async def update_stop_offsets(
        self, places: Mapping[Partition, PartitionPosition], partitions: Mapping[Partition, int]
    ) -> dict[Partition, PartitionPosition]:
        """Update the stop offset of each position. Raises KafkaError, ConnectorError."""
        questions = OffsetQueries(self.options, is_first_run=True)
        there = {each: leader for each, leader in partitions.items() if each in places}
        ends = await self._request_bounds(questions, there)
        return {each: questions.update_stop(each, ends[each], places[each]) for each in there}

    async def _request_bounds(
        self, questions: OffsetQueries, partitions: Mapping[Partition, int]
    ) -> dict[Partition, PartitionBounds]:
        if not partitions:
            return {}
        offsets_by_field: dict[str, dict[Partition, int]] = {}
        try:
            for field, time in questions.requested_times.items():
                times = dict.fromkeys(partitions, time)
                offsets_by_field[field] = await self.cluster.request_offsets(
                    times, partitions, self.isolation_level
                )
        except KafkaError as error:
            if is_transient(error):
                raise
            raise translate_error(error, f"read {self.options.topics_text}") from error
        return {
            partition: PartitionBounds(
                **{field: offsets[partition] for field, offsets in offsets_by_field.items()}
            )
            for partition in partitions
        }

    @property
    def _topic_names(self) -> Sequence[str]:
        if self.options.topic is not None:
            return [self.options.topic.reveal()]
        return list(dict.fromkeys(name.reveal() for name in self.options.topics or ()))

    def _filter_by_pattern(self, topics: Mapping[str, TopicMetadata]) -> dict[str, TopicMetadata]:
        """Return the topics that match the pattern, without Kafka's internal ones."""
        pattern = re.compile(self.options.pattern.reveal() if self.options.pattern else "")
        return {
            name: topic
            for name, topic in topics.items()
            if not topic.is_internal and topic.error is None and pattern.fullmatch(name)
        }

    async def _check_topic(self, name: str, topic: TopicMetadata) -> None:
        if topic.error is None:
            return
        if topic.is_unknown:
            if not self.skips_missing:
                await self._confirm_missing(name)
            return
        if is_transient(topic.error):
            raise TransientError(f'topic "{name}": {describe_error(topic.error)}')
        raise translate_error(topic.error, f'read topic "{name}"')

    async def _confirm_missing(self, name: str) -> None:
        """Raise ConnectorError if the topic still does not exist after a short wait.

        A newly created topic is not known to all brokers at once.
        """
        await asyncio.sleep(CREATION_DELAY_S)
        known = await self.cluster.request_topics(None)
        if name in known:
            raise TransientError(f'topic "{name}" was just created')
        raise build_missing_topic_error(name, known)
