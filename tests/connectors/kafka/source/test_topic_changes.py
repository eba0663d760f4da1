"""Topics that come and go, brokers that fall, and what a source says of it while it reads on."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.connectors.kafka.security import Security
from headrace.connectors.kafka.source.leaders import DELETION_DELAY_S
from headrace.core.api.failures import ConnectorError
from headrace.core.api.sources import Chunk
from headrace.core.api.splits import Progress, Split
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from tests.support.kafka.broker import Broker
from tests.support.kafka.open_source import Came, Opened, node, opened, run, soon
from tests.support.kafka.secured_broker import OTHER, OTHER_PASSWORD, USER, Secured
from tests.support.kafka.topics import Record, Topics

Fresh = Callable[..., str]


def plain(count: int, partitions: int = 1, begin: int = 0) -> list[Record]:
    return [
        Record(b"%d" % at, partition=at % partitions, timestamp_ms=int(time.time() * 1000))
        for at in range(begin, begin + count)
    ]


async def failing(it: Opened) -> ConnectorError:
    with pytest.raises(ConnectorError) as error:
        await it.to_the_end()
    return error.value


def refused(source: Any) -> ConnectorError:
    async def discovering() -> None:
        async with opened(source):
            pass

    with pytest.raises(ConnectorError) as error:
        run(discovering)
    return error.value


def test_a_missing_topic_is_reported_with_the_nearest_name(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    error = refused(node(broker.address, topic=topic + "s"))
    assert error.message == f'there is no topic "{topic}s"'
    assert error.hint == f'did you mean "{topic}"?; headrace does not create topics'
    assert (error.exit_status, error.is_final) == (1, True)
    assert topic + "s" not in topics.names()


def test_a_pattern_that_nothing_matches_is_an_error_unless_something_may_come(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    word = fresh()
    pattern = f"{word}-[0-9]+"
    error = refused(node(broker.address, pattern=pattern, stop="latest"))
    assert error.message == f"there are no topics like {pattern}"

    async def waiting() -> Came:
        async with opened(node(broker.address, pattern=pattern), last=False) as it:
            assert it.told == [f"records: there are no topics like {pattern} yet, waiting"]
            assert it.source.discovery_interval_s == 60
            for name in (f"{word}-1", f"{word}-x", f"{word}-23"):
                topics.write(topics.create(name), plain(3))
            found = await it.source.discover_splits(False)
            assert [split.name for split in found] == [f"{word}-1-0", f"{word}-23-0"]
            it.reading.assign([(split, split.start_position) for split in found], last=False)
            return await it.first(6)

    assert run(waiting).values == [b"0", b"1", b"2"] * 2


def test_new_partitions_are_read_from_their_beginning(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    topics.write(topic, plain(5))

    async def reading() -> Came:
        source = node(broker.address, topic=topic, start="latest")
        async with opened(source, last=False) as it:
            topics.widen(topic, 3)
            topics.write(topic, plain(9, 3, begin=10))
            found = await it.source.discover_splits(False)
            assert len(found) == 3
            it.reading.assign([(split, split.start_position) for split in found[1:]], last=False)
            return await it.first(9)

    assert sorted(run(reading).values) == sorted(b"%d" % at for at in range(10, 19))


def test_where_reading_ends_a_partition_that_came_later_has_nothing_to_be_read(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    topics.write(topic, plain(5))

    async def reading() -> Came:
        source = node(broker.address, topic=topic, stop="latest")
        async with opened(source) as it:
            assert it.source.discovery_interval_s is None
            topics.widen(topic, 2)
            topics.write(topic, plain(4, 2, begin=10))
            return await it.to_the_end()

    assert run(reading).values == [b"%d" % at for at in range(5)]

    async def again() -> Came:
        at = {f"{topic}-0": "offset=3 stop=5"}
        async with opened(
            node(broker.address, topic=topic, stop="latest"), first=False, at=at
        ) as it:
            return await it.to_the_end()

    assert run(again).values == [b"3", b"4"]


def test_a_topic_deleted_while_it_is_read_is_reported(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    topics.write(topic, plain(5))

    async def reading() -> None:
        async with opened(node(broker.address, topic=topic)) as it:
            await it.first(5)
            topics.delete(topic)
            began = time.monotonic()
            error = await failing(it)
            why = "the partition no longer exists: was the topic deleted?"
            assert (error.split, error.message) == (f"{topic}-0", why)
            assert error.is_final
            assert time.monotonic() - began >= DELETION_DELAY_S
            assert it.came.count == 5

    run(reading)


def test_a_topic_created_again_while_it_is_read_is_reported(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    topics.write(topic, plain(5))

    async def reading() -> None:
        async with opened(node(broker.address, topic=topic)) as it:
            await it.first(5)
            topics.delete(topic)
            topics.create(topic)
            error = await failing(it)
            assert "recreated" in error.hint
            assert it.came.count == 5

    run(reading)


def as_bob(secured: Secured, topic: str) -> nodes.Source:
    source = node(secured.at("SASL_PLAINTEXT"), topic=topic)
    security = Security.model_construct(
        protocol="sasl_plaintext",
        mechanism="PLAIN",
        username=Text(OTHER),
        password=Text(OTHER_PASSWORD),
    )
    return replace(source, options=source.options.model_copy(update={"security": security}))


def test_denied_access_while_reading_is_reported_at_once(secured: Secured, fresh: Fresh) -> None:
    topics = Topics(secured.broker.address)
    topic = topics.create(fresh())
    topics.write(topic, plain(5))

    async def reading() -> ConnectorError:
        async with opened(as_bob(secured, topic)) as it:
            await it.first(5)
            await asyncio.to_thread(secured.only_for, USER, topic)
            return await failing(it)

    later = run(reading)
    error = refused(as_bob(secured, topic))
    for each in (error, later):
        assert each.message == f'cannot read topic "{topic}": access is denied'
        assert each.hint == f'the user needs the right to read topic "{topic}"'
        assert each.is_final


def test_lags_and_ends_are_known_and_what_is_held_waits(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh(), 2)
    topics.write(topic, plain(10, 2))

    async def reading() -> None:
        async with opened(node(broker.address, topic=topic)) as it:
            one, two = it.splits
            it.reading.pause([two])
            await it.first(5)
            assert set(it.came.rows) == {one.name}
            await settled(it, {one})
            assert it.reading.measure_lags()[one] == 0
            it.reading.pause([])
            await it.first(10)
            await settled(it, {one, two})
            assert it.reading.measure_lags() == {one: 0, two: 0}
            since = it.reading.list_exhausted()
            topics.write(topic, plain(1, begin=100))
            await it.first(11)
            await settled(it, {one, two})
            later = it.reading.list_exhausted()
            assert later[one] > since[one]
            assert later[two] == since[two]

    run(reading)


async def settled(it: Opened, splits: set[Split]) -> None:
    """Read on until these are exhausted."""
    getting = asyncio.ensure_future(it.reading.fetch())
    await soon(lambda: set(it.reading.list_exhausted()) == splits)
    getting.cancel()
    await asyncio.gather(getting, return_exceptions=True)


def test_records_after_an_open_transaction_are_read_later(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    topics.write(topic, plain(2))
    producer: Producer = topics.begin(topic, plain(2, begin=2))

    async def reading() -> None:
        async with opened(node(broker.address, topic=topic)) as it:
            await it.first(2)
            getting = asyncio.ensure_future(it.reading.fetch())
            await soon(lambda: bool(it.reading.measure_lags()))
            assert not it.reading.list_exhausted()
            producer.commit_transaction(30)
            chunk = await getting
            assert isinstance(chunk, Chunk)
            assert [row[0] for row in chunk.frame.rows()] == [b"2", b"3"]
            await settled(it, set(it.splits))

    run(reading)


def test_positions_are_committed_for_tools_to_see(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh(), 2)
    topics.write(topic, plain(10, 2))

    async def reading(**options: Any) -> None:
        async with opened(node(broker.address, topic=topic, stop="latest", **options)) as it:
            came = await it.to_the_end()
            await it.source.on_checkpoint_complete(
                {split: Progress(came.positions[split.name]) for split in it.splits}
            )
            assert it.told == []

    run(reading)
    assert topics.committed("headrace-test-records", topic) == {0: 5, 1: 5}
    group = fresh("group")
    run(lambda: reading(group=group))
    assert topics.committed(group, topic) == {0: 5, 1: 5}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that may be killed."""
    with Broker(tmp_path_factory.mktemp("own")) as broker:
        yield broker


def test_a_broker_that_is_killed_and_comes_back_costs_no_record(own: Broker) -> None:
    topics = Topics(own.address)
    topics.write(topics.create("topic", 3), plain(300, 3))

    async def reading() -> None:
        async with opened(node(own.address, topic="topic")) as it:
            await it.first(300)
            own.kill()
            on = asyncio.ensure_future(it.first(600))
            await soon(lambda: bool(it.told))
            assert not it.reading.list_exhausted()
            publishing = it.source.on_checkpoint_complete({it.splits[0]: Progress(5)})
            discovering = asyncio.ensure_future(it.source.discover_splits(False))
            await publishing
            await asyncio.to_thread(own.start)
            await asyncio.to_thread(topics.write, "topic", plain(300, 3, begin=300))
            came = await on
            assert sorted(map(int, came.values)) == list(range(600))
            assert await discovering == it.splits
            away, group, back = it.told
            assert re.fullmatch(r"records: no broker has answered for \d+ s \(.*\), waiting", away)
            assert own.address in away
            assert group.startswith("records: positions are not committed to the group")
            assert back.startswith("records: a broker is back after ")

    run(reading)


def test_a_paused_broker_is_reported_and_reading_continues(own: Broker) -> None:
    topics = Topics(own.address)
    topics.write(topics.create("still"), plain(10))

    async def reading() -> None:
        async with opened(node(own.address, topic="still")) as it:
            await it.first(10)
            own.pause()
            on = asyncio.ensure_future(it.first(20))
            await soon(lambda: bool(it.told))
            own.resume()
            await asyncio.to_thread(topics.write, "still", plain(10, begin=10))
            assert (await on).values == [b"%d" % at for at in range(20)]
            assert it.told[0].startswith("records: no broker has answered for ")

    run(reading)
