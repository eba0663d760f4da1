"""Resumed jobs whose `stop` is added or removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.core.api.splits import Progress, Split
from headrace.core.checkpoint.manifest import RestoredCheckpoint
from headrace.core.coordination.messages import RestoredState
from headrace.core.job.recovery import discover_splits
from headrace.core.worker.connectors import OpenConnectors
from tests.support.kafka.broker import Broker
from tests.support.kafka.open_source import NAME, Opened, node, opened, run
from tests.support.kafka.topics import Record, Topics

Fresh = Callable[..., str]
Left = Mapping[Split, Progress]


def two(begin: int, count: int) -> list[Record]:
    """Records of two partitions, in turn."""
    return [Record(b"%d" % at, partition=at % 2) for at in range(begin, begin + count)]


async def going_on(it: Opened, left: Left) -> Left:
    """Resume from the positions of an earlier run; return the start positions."""
    restored = RestoredCheckpoint(1, False, RestoredState({NAME: left}))
    begins, _ = await discover_splits(OpenConnectors({NAME: it.source}), restored)
    assert begins is not None
    begun = begins.splits[NAME]
    assignments = [(each, at.position) for each, at in begun.items() if not at.is_finished]
    it.reading.assign(assignments, last=it.source.discovery_interval_s is None)
    return begun


def left_by(it: Opened, begun: Left) -> Left:
    """Return the progress of the splits, as in a checkpoint."""
    came = it.came
    return {
        split: Progress(
            came.positions.get(split.name, before.position),
            is_finished=before.is_finished or split.name in came.ended,
        )
        for split, before in begun.items()
    }


def test_a_stop_can_be_added_to_a_resumed_job_and_removed(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh(), 2)

    async def first() -> Left:
        async with opened(node(broker.address, topic=topic)) as it:
            await it.first(10)
            return left_by(it, {split: Progress(split.start_position) for split in it.splits})

    async def to_the_end(left: Left) -> tuple[list[int], Left]:
        async with opened(node(broker.address, topic=topic, stop="latest"), discovered=False) as it:
            begun = await going_on(it, left)
            topics.write(topic, two(begin=100, count=4))  # after its stop offset
            came = await it.to_the_end()
            return sorted(map(int, came.values)), left_by(it, begun)

    async def without(left: Left, count: int) -> list[int]:
        async with opened(node(broker.address, topic=topic), discovered=False) as it:
            begun = await going_on(it, left)
            assert not any(each.is_finished for each in begun.values())
            assert not any("stop=" in str(each.position) for each in begun.values())
            return sorted(map(int, (await it.first(count)).values))

    topics.write(topic, two(begin=0, count=10))
    left: Any = run(first)
    topics.write(topic, two(begin=10, count=6))
    values, ended = run(lambda: to_the_end(left))
    assert values == [*range(10, 16)]
    assert all(each.is_finished and "stop=8" in str(each.position) for each in ended.values())
    assert run(lambda: to_the_end(ended)) == ([], ended)
    assert run(lambda: without(ended, 8)) == [100, 100, 101, 101, 102, 102, 103, 103]
