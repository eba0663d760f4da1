"""The halves of the Kafka sink in several real processes, on a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headrace.connectors.kafka.sink import build_sink
from headrace.core.api.sinks import SinkCoordinator
from tests.support.kafka.broker import Broker
from tests.support.kafka.open_sink import EXACTLY, Kept, node, numbers, rows
from tests.support.kafka.topics import Topics
from tests.support.two_halves import End, Job, Write, elsewhere, run

pytestmark = pytest.mark.kafka

Fresh = Callable[..., str]


def with_sink(
    address: str,
    topic: str,
    job: str,
    notes: Kept,
    work: Callable[[SinkCoordinator, Callable[..., Write], Job], Awaitable[Any]],
) -> Any:
    """Open the coordinator's half of an exactly-once sink with two subtasks for the work."""
    sink, schema = node(address, topic, parallelism=2, **EXACTLY)

    def write(subtask: int, *firsts: int, dies: bool = False) -> Write:
        """A writer of transactions of ten rows."""
        return Write(sink, schema, subtask, [rows(10, at) for at in firsts], dies=dies)

    async def do() -> Any:
        there = Job(Path(), job)
        with ThreadPoolExecutor(2) as executor:
            opened = build_sink(sink, there.run_context(executor, notes))
            await opened.check()
            try:
                return await work(opened, write, there)
            finally:
                await opened.close()

    return run(do())


def test_transactions_of_two_processes_are_committed_in_a_third(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic, notes = topics.create(fresh(), partitions=2), Kept()
    sink, schema = node(broker.address, topic, parallelism=2, **EXACTLY)

    async def work(opened: SinkCoordinator, write: Callable[..., Write], there: Job) -> None:
        one, two = await asyncio.gather(
            elsewhere(write(0, 0, 100), there, opened),
            elsewhere(write(1, 200, 300), there, opened),
        )
        handles = [*one[0], *two[0]]
        assert len({handle["id"] for handle in handles}) == 4
        commits, aborts = handles[::2], handles[1::2]
        # A commit may be repeated, by any process.
        await elsewhere(End(sink, schema, commits, aborts), there)
        await elsewhere(End(sink, schema, commits), there)

    with_sink(broker.address, topic, job, notes, work)
    assert numbers(topics.values(topic)) == [*range(10), *range(200, 210)]


def test_an_id_is_given_to_another_process_only_once_its_commit_is_recorded(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic, notes = topics.create(fresh()), Kept()

    async def work(opened: SinkCoordinator, write: Callable[..., Write], there: Job) -> None:
        async def one(first: int) -> Any:
            (handle,), _ = await elsewhere(write(0, first), there, opened)
            return handle

        first = await one(0)
        await opened.commit(first)
        second = await one(10)
        assert second["id"] != first["id"]
        opened.on_commits_recorded()
        assert (await one(20))["id"] == first["id"]
        await opened.commit(second)

    with_sink(broker.address, topic, job, notes, work)
    # The next attempt ends the third transaction, which belongs to no checkpoint.
    with_sink(broker.address, topic, job, notes, _do_nothing)
    assert numbers(topics.values(topic)) == list(range(20))


def test_the_transaction_of_a_process_that_has_died_blocks_no_other(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic, notes = topics.create(fresh()), Kept()

    async def work(opened: SinkCoordinator, write: Callable[..., Write], there: Job) -> None:
        assert await elsewhere(write(0, 0, dies=True), there, opened) is None
        (handle,), _ = await elsewhere(write(0, 100), there, opened)
        await opened.commit(handle)

    with_sink(broker.address, topic, job, notes, work)
    with_sink(broker.address, topic, job, notes, _do_nothing)
    assert numbers(topics.values(topic)) == list(range(100, 110))


async def _do_nothing(*_: object) -> None:
    """Check alone."""
