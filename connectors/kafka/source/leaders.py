"""Leaders of partitions, and detection of deleted partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import field
from functools import partial

from aiokafka.errors import TopicAuthorizationFailedError

from headrace.connectors.kafka.errors import translate_error
from headrace.connectors.kafka.retry import REPORT_AFTER_S
from headrace.connectors.kafka.source.cluster_requests import ClusterRequests
from headrace.connectors.kafka.source.positions import Partition
from headrace.connectors.kafka.topic_metadata import NO_LEADER, UNKNOWN_TOPIC, TopicMetadata
from headrace.core.api.failures import ConnectorError
from headrace.core.types.lazy_dataclass import dataclass

DELETION_DELAY_S = 5.0
"""Seconds before a missing partition counts as deleted: a starting broker may not know it."""


@dataclass(slots=True)
class DeletionDetector:
    """Tracks missing partitions, and decides after `DELETION_DELAY_S` that they are deleted."""

    _since: dict[Partition, float] = field(default_factory=dict)

    def find_deleted(self, absent: Collection[Partition], now: float) -> list[Partition]:
        """Record the missing partitions; return those missing for long enough to be deleted."""
        self._since = {each: self._since.get(each, now) for each in absent}
        return sorted(
            each for each, since in self._since.items() if now - since >= DELETION_DELAY_S
        )


@dataclass(slots=True)
class LeaderlessTracker:
    """Tracks partitions without a leader; each is reported once, after a while."""

    name: str
    _since: dict[Partition, float] = field(default_factory=dict)
    _reported: set[Partition] = field(default_factory=set)

    def update_waiting(self, waiting: Collection[Partition], now: float) -> list[str]:
        """Record the leaderless partitions; return the lines to report."""
        self._since = {each: self._since.get(each, now) for each in waiting}
        self._reported &= set(waiting)
        late = [each for each, at in self._since.items() if now - at >= REPORT_AFTER_S]
        new = sorted(each for each in late if each not in self._reported)
        self._reported.update(new)
        return [
            f"{self.name}: partition {each} has had no leader for {now - self._since[each]:.0f} s, "
            "waiting"
            for each in new
        ]


@dataclass(slots=True)
class LeaderLookup:
    """Looks up leaders. All split readers of a source share one instance."""

    cluster: ClusterRequests
    leaderless: LeaderlessTracker
    deletions: DeletionDetector = field(default_factory=DeletionDetector)

    async def find_leaders(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the known leaders. Raises ConnectorError once a partition is deleted."""
        names = sorted({partition.topic for partition in partitions})
        what = f"look for {', '.join(names)}"
        topics = await self.cluster.retry_work(partial(self.cluster.request_topics, names), what)
        now = asyncio.get_running_loop().time()
        absent = [each for each in partitions if _is_missing(each, topics)]
        if deleted_partitions := self.deletions.find_deleted(absent, now):
            raise _build_deleted_error(deleted_partitions[0])
        leaders = {
            each: topics[each.topic].leaders[each.number]
            for each in partitions
            if each not in absent and each.number in topics[each.topic].leaders
        }
        found = {each: node for each, node in leaders.items() if node != NO_LEADER}
        without = [each for each in partitions if each not in found and each not in absent]
        for line in self.leaderless.update_waiting(without, now):
            self.cluster.retry.notify_user(line)
        return found


def _is_missing(partition: Partition, topics: Mapping[str, TopicMetadata]) -> bool:
    topic = topics.get(partition.topic, UNKNOWN_TOPIC)
    if topic.error is None:
        return partition.number not in topic.leaders
    if isinstance(topic.error, TopicAuthorizationFailedError):
        raise translate_error(topic.error, f'read topic "{partition.topic}"')
    return topic.is_unknown


def _build_deleted_error(partition: Partition) -> ConnectorError:
    return ConnectorError(
        "the partition no longer exists: was the topic deleted?",
        "a topic recreated under its name is another topic: start with --fresh",
        split=str(partition),
        final=True,
    )
