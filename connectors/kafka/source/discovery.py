"""Discovery of partitions: existence, access, and the offsets at which reading begins."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aiokafka.errors import KafkaError

from headrace.connectors.kafka.errors import Later, passes, refusal, said
from headrace.connectors.kafka.metadata import MADE_S, UNKNOWN, Topic, no_topic
from headrace.connectors.kafka.source.cluster import COMMITTED, UNCOMMITTED, Cluster
from headrace.connectors.kafka.source.places import Partition, Place
from headrace.connectors.kafka.source.starts import Ends, Questions, absent
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.contracts import ConnectorError


@dataclass(frozen=True, slots=True)
class Discovery:
    """Discovers the partitions of a source."""

    options: KafkaSource
    cluster: Cluster
    lenient: bool = False
    """Whether a missing topic is skipped, because its split reader will report it."""

    @property
    def isolation(self) -> int:
        """The isolation level as a number of Kafka's protocol."""
        return COMMITTED if self.options.isolation == "read_committed" else UNCOMMITTED

    async def partitions(self) -> dict[Partition, int]:
        """Return the partitions with their leaders, in order. Raises KafkaError, ConnectorError."""
        if self.options.pattern is not None:
            topics = self._matching(await self.cluster.topics(None))
        else:
            topics = await self.cluster.topics(self._names)
            for name in self._names:
                await self._check(name, topics.get(name, UNKNOWN))
        found = {
            Partition(name, number): leader
            for name, topic in topics.items()
            for number, leader in topic.leaders.items()
        }
        return dict(sorted(found.items()))

    async def places(
        self, first: bool, partitions: Mapping[Partition, int]
    ) -> dict[Partition, Place]:
        """Return the start position of each partition. Raises KafkaError, ConnectorError."""
        questions = Questions(self.options, first)
        ends = await self._ends(questions, partitions)
        return {partition: questions.place(partition, ends[partition]) for partition in partitions}

    def check_edges(self, there: Mapping[Partition, int]) -> None:
        """Raise ConnectorError if `start` or `stop` names a partition that does not exist."""
        if found := absent(self.options, there):
            word, (topic, number) = found
            last = max(each.number for each in there if each.topic == topic)
            raise ConnectorError(
                f'{word}: there is no partition {number} of topic "{topic}"',
                f"it has the partitions 0 to {last}" if last else "it has only partition 0",
                final=True,
            )

    async def stopping(
        self, places: Mapping[Partition, Place], partitions: Mapping[Partition, int]
    ) -> dict[Partition, Place]:
        """Update the stop offset of each position. Raises KafkaError, ConnectorError."""
        questions = Questions(self.options, first=True)
        there = {each: leader for each, leader in partitions.items() if each in places}
        ends = await self._ends(questions, there)
        return {each: questions.stopping(each, ends[each], places[each]) for each in there}

    async def _ends(
        self, questions: Questions, partitions: Mapping[Partition, int]
    ) -> dict[Partition, Ends]:
        if not partitions:
            return {}
        found: dict[str, dict[Partition, int]] = {}
        try:
            for field, time in questions.times.items():
                asked = dict.fromkeys(partitions, time)
                found[field] = await self.cluster.offsets(asked, partitions, self.isolation)
        except KafkaError as error:
            if passes(error):
                raise
            raise refusal(error, f"read {self.options.which}") from error
        return {
            partition: Ends(**{field: offsets[partition] for field, offsets in found.items()})
            for partition in partitions
        }

    @property
    def _names(self) -> Sequence[str]:
        if self.options.topic is not None:
            return [self.options.topic.reveal()]
        return list(dict.fromkeys(name.reveal() for name in self.options.topics or ()))

    def _matching(self, topics: Mapping[str, Topic]) -> dict[str, Topic]:
        """Return the topics that match the pattern, without Kafka's internal ones."""
        pattern = re.compile(self.options.pattern.reveal() if self.options.pattern else "")
        return {
            name: topic
            for name, topic in topics.items()
            if not topic.is_internal and topic.error is None and pattern.fullmatch(name)
        }

    async def _check(self, name: str, topic: Topic) -> None:
        if topic.error is None:
            return
        if topic.is_unknown:
            if not self.lenient:
                await self._sure(name)
            return
        if passes(topic.error):
            raise Later(f'topic "{name}": {said(topic.error)}')
        raise refusal(topic.error, f'read topic "{name}"')

    async def _sure(self, name: str) -> None:
        """Raise ConnectorError if the topic still does not exist after a short wait.

        A newly created topic is not known to all brokers at once.
        """
        await asyncio.sleep(MADE_S)
        known = await self.cluster.topics(None)
        if name in known:
            raise Later(f'topic "{name}" was just created')
        raise no_topic(name, known)
