"""Rows as records of a real broker, as an independent client reads them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import polars as pl
import pytest
from confluent_kafka import Producer

from headrace.connectors.kafka.sink.batch_sender import MAX_PENDING_BYTES
from headrace.core.api.failures import ConnectorError
from headrace.core.types.data_types import BOOLEAN, STRING, TIMESTAMP, Field, Schema
from headrace.core.types.elements import DELETE
from tests.support.kafka.broker import Broker
from tests.support.kafka.open_sink import ROWS, node, numbers, opened, rows, run
from tests.support.kafka.open_source import soon
from tests.support.kafka.topics import Topics

pytestmark = pytest.mark.kafka

Fresh = Callable[..., str]


def write(described: Any, *frames: pl.DataFrame) -> None:
    """Write these, and come to a barrier."""

    async def work() -> None:
        async with opened(described) as out:
            writer = out.writer()
            for frame in frames:
                await writer.write(frame)
            assert await writer.prepare() is None

    run(work())


def refused(work: Coroutine[Any, Any, None] | None = None, *given: Any) -> ConnectorError:
    with pytest.raises(ConnectorError) as error:
        run(work) if work is not None else write(*given)
    return error.value


def test_keys_lead_to_the_partitions_that_javas_partitioner_chooses(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    ours, theirs = (topics.create(fresh(), partitions=7) for _ in range(2))
    frame = pl.DataFrame({"k": [f"key {n}" * (n % 5) for n in range(2000)], "n": range(2000)})
    write(node(broker.address, ours, key="k"), frame)
    java = {"bootstrap.servers": broker.address, "partitioner": "murmur2_random"}
    producer = Producer(java)
    for key in frame["k"].unique():
        producer.produce(theirs, b"", key.encode())
    assert producer.flush(30) == 0
    chosen = {record.key: record.partition for record in topics.read(theirs)}
    found = {record.key: record.partition for record in topics.read(ours)}
    assert found == chosen
    assert len({*found.values()}) == 7


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_are_read_back_whatever_their_compression(
    broker: Broker, topics: Topics, fresh: Fresh, compression: str
) -> None:
    topic = topics.create(fresh(), partitions=2)
    described = node(broker.address, topic, key=["k", "n"], compression=compression)
    write(described, rows(3000), rows(10, first=3000))
    read = topics.read(topic)
    assert numbers([record.value for record in read]) == list(range(3010))
    assert all(record.key == record.value for record in read)


def test_a_delete_is_a_tombstone_under_its_key(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    changes = Schema((*ROWS, Field(DELETE, BOOLEAN, nullable=False)))
    described = node(broker.address, topic, changes, changes=["k"])
    frame = pl.DataFrame({"k": ["a", "a", None], "n": [1, 2, 3], DELETE: [False, True, False]})
    write(described, frame)
    found = [(record.key, record.value) for record in topics.read(topic)]
    assert found == [(b"a", b'{"k":"a","n":1}'), (b"a", None), (None, b'{"k":null,"n":3}')]


def test_headers_timestamps_and_raw_values(broker: Broker, topics: Topics, fresh: Fresh) -> None:
    topic = topics.create(fresh())
    columns = Schema((Field("v", STRING), Field("k", STRING)))
    options: dict[str, Any] = {"key": "k", "headers": {"of": "k"}, "timestamp": "event_time"}
    at = pl.Series([1_700_000_000_123_000] * 2, dtype=pl.Datetime("us", "UTC"))
    frame = pl.DataFrame({"v": ["a\nb", ""], "k": ["x", None], "__time": at})
    write(node(broker.address, topic, columns, format="raw", **options), frame)
    first, second = topics.read(topic)
    assert (first.value, first.key, first.headers) == (b"a\nb", b"x", (("of", b"x"),))
    assert (second.value, second.key, second.headers) == (b"", None, ())
    assert first.timestamp_ms == 1_700_000_000_123


def test_a_row_says_its_topic(broker: Broker, topics: Topics, fresh: Fresh) -> None:
    one, other = topics.create(fresh()), topics.create(fresh(), partitions=3)
    frame = pl.DataFrame({"k": [one, other, one], "n": [1, 2, 3]})
    described = node(broker.address, {"expr": "k"})
    write(described, frame)
    assert numbers(topics.values(one)) == [1, 3]
    assert numbers(topics.values(other)) == [2]
    gone = pl.DataFrame({"k": [one + "x"], "n": [1]})
    error = refused(None, described, gone)
    assert error.message == f'there is no topic "{one}x"'
    assert f'did you mean "{one}"?' in error.hint
    assert one + "x" not in topics.names()


def test_a_topic_that_is_not_there_is_refused_before_anything_is_read(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh("orders"))
    error = refused(None, node(broker.address, topic[:-1]))
    assert (error.message, error.is_final) == (f'there is no topic "{topic[:-1]}"', True)
    assert f'did you mean "{topic}"?' in error.hint


def test_a_batch_that_is_too_large_is_divided_and_a_row_that_is_too_large_is_shown(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh(), max_message_bytes="20000")
    write(node(broker.address, topic), rows(5000))
    assert numbers(topics.values(topic)) == list(range(5000))
    large = pl.DataFrame({"k": ["small", "x" * 30_000], "n": [1, 2]})
    error = refused(None, node(broker.address, topic), large)
    assert f'topic "{topic}" rejects a row of 30,0' in error.message
    assert 'that begins with {"k":"xxx' in error.message
    assert len(error.message) < 300


def test_a_compacted_topic_takes_no_row_without_a_key(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh(), cleanup_policy="compact")
    error = refused(None, node(broker.address, topic), rows(1))
    assert "the topic rejects a row" in error.message
    assert "a compacted topic rejects rows without a key" in error.hint


def test_a_time_that_the_topic_does_not_take_is_refused(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    columns = Schema((*ROWS, Field("at", TIMESTAMP)))
    at = pl.Series([1 << 52], dtype=pl.Datetime("us", "UTC"))
    frame = rows(1).with_columns(at=at)
    error = refused(None, node(broker.address, topic, columns, timestamp="at"), frame)
    assert "the topic rejects the timestamp of a row" in error.message
    assert "message.timestamp.before.max.ms" in error.hint


@pytest.mark.slow
def test_a_topic_that_is_deleted_meanwhile_ends_the_job(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())

    async def work() -> None:
        async with opened(node(broker.address, topic)) as out:
            writer = out.writer()
            await writer.write(rows(10))
            await writer.prepare()
            await asyncio.to_thread(topics.delete, topic)
            await writer.write(rows(10))
            await writer.prepare()

    assert "there is no such topic any more" in refused(work()).message


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_when_the_broker_is_killed_while_rows_are_written(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh(), partitions=3)

    async def work() -> list[str]:
        async with opened(node(broker.address, topic, key="k")) as out:
            writer = out.writer()
            await writer.write(rows(20_000))
            restarting = asyncio.create_task(asyncio.to_thread(broker.restart))
            for at in range(1, 10):
                await writer.write(rows(20_000, first=20_000 * at))
            await writer.prepare()
            await restarting
            return out.told

    run(work())
    assert numbers(topics.values(topic)) == list(range(200_000))


@pytest.mark.slow
def test_a_silent_broker_is_reported_and_waited_for(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())

    async def work() -> list[str]:
        async with opened(node(broker.address, topic)) as out:
            writer = out.writer()
            await writer.write(rows(1))
            await writer.prepare()
            await asyncio.to_thread(broker.pause)
            taken = 0

            async def more() -> None:
                nonlocal taken
                for _ in range(40):
                    await writer.write(large)
                    taken += 1
                await writer.prepare()

            writing = asyncio.create_task(more())
            await soon(lambda: bool(out.told))
            # Memory is bounded: who has more to write waits.
            assert taken < MAX_PENDING_BYTES // (2 << 20) + 4
            await asyncio.to_thread(broker.resume)
            await writing
            return out.told

    large = pl.DataFrame({"k": ["x" * 1024] * 2048, "n": range(2048)})
    first, second = run(work())
    assert first.startswith("out: no broker has answered for")
    assert second.startswith("out: a broker is back after")
    assert len(topics.values(topic)) == 1 + 40 * 2048


def test_rows_that_come_alone_are_there_soon_without_a_barrier(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())

    async def work() -> None:
        async with opened(node(broker.address, topic)) as out:
            writer = out.writer()
            for number in range(20):
                await writer.write(rows(1, first=number))
            await soon(lambda: len(topics.visible(topic)) == 20)

    run(work())
    assert [json.loads(value or b"")["n"] for value in topics.values(topic)] == list(range(20))
