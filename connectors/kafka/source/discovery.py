"""Which partitions there are, whether they may be read, and where reading them begins."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.connectors.kafka.options import KafkaSource
from headrace.connectors.kafka.source.cluster import (
    COMMITTED,
    DENIED,
    NONE,
    UNCOMMITTED,
    UNKNOWN_TOPIC,
    Cluster,
    Refused,
    Topic,
    error_text,
    is_passing,
)
from headrace.connectors.kafka.source.patience import Later
from headrace.connectors.kafka.source.places import Partition, Place
from headrace.connectors.kafka.source.starts import Ends, Questions
from headrace.core.contracts import ConnectorError
from headrace.core.problems import did_you_mean

SURE_S = 0.5


@dataclass(frozen=True, slots=True)
class Discovery:
    """Asks a cluster for the partitions of a source."""

    options: KafkaSource
    cluster: Cluster
    lenient: bool = False
    """Whether a topic that is not there is passed over: whoever reads it will tell."""

    @property
    def isolation(self) -> int:
        """As brokers count it."""
        return COMMITTED if self.options.isolation == "read_committed" else UNCOMMITTED

    async def partitions(self) -> dict[Partition, int]:
        """The partitions with their leaders, in order. Raises Later, ConnectorError."""
        if self.options.pattern is not None:
            topics = self._matching(await self.cluster.topics(None))
        else:
            topics = await self.cluster.topics(self._names)
            for name in self._names:
                await self._check(name, topics.get(name, Topic(UNKNOWN_TOPIC, {})))
        found = {
            Partition(name, number): leader
            for name, topic in topics.items()
            for number, leader in topic.leaders.items()
        }
        return dict(sorted(found.items()))

    async def places(
        self, first: bool, partitions: Mapping[Partition, int]
    ) -> dict[Partition, Place]:
        """Where reading each begins. Raises Later, ConnectorError."""
        questions = Questions(self.options, first)
        ends = await self._ends(questions, partitions)
        return {partition: questions.place(partition, ends[partition]) for partition in partitions}

    async def stopping(
        self, places: Mapping[Partition, Place], partitions: Mapping[Partition, int]
    ) -> dict[Partition, Place]:
        """The same places, each with where reading stops now. Raises Later, ConnectorError."""
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
        except Refused as refused:
            raise denied(f"{self.options.which}: {refused}") from None
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
        """Those that the pattern means; Kafka's own are not meant."""
        pattern = re.compile(self.options.pattern.reveal() if self.options.pattern else "")
        return {
            name: topic
            for name, topic in topics.items()
            if not topic.is_internal and topic.error == NONE and pattern.fullmatch(name)
        }

    async def _check(self, name: str, topic: Topic) -> None:
        if topic.error == NONE:
            return
        if topic.error == UNKNOWN_TOPIC:
            if not self.lenient:
                await self._sure(name)
            return
        if topic.error == DENIED:
            raise denied(f"topic {name} may not be read")
        if is_passing(topic.error):
            raise Later(f"topic {name}: {error_text(topic.error)}")
        raise denied(f"topic {name}: {error_text(topic.error)}")

    async def _sure(self, name: str) -> None:
        """Raise that there is no such topic, if there still is none after a moment.

        A topic is not known to all brokers in the moment that it is made.
        """
        await asyncio.sleep(SURE_S)
        known = await self.cluster.topics(None)
        if name in known:
            raise Later(f"topic {name} was just made")
        names = [name for name, topic in known.items() if not topic.is_internal]
        raise ConnectorError(
            f"there is no topic {name}",
            did_you_mean(name, names) or "a source makes no topics",
            final=True,
        )


def denied(message: str) -> ConnectorError:
    """The cluster will not let us."""
    return ConnectorError(message, "what may this user read there? look at security", final=True)
