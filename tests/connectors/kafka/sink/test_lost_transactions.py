"""Transactions that run out of time, on a real broker: the messages before and after that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.api.failures import ConnectorError
from headrace.core.api.run_context import CommitTiming
from tests.support.kafka.broker import Broker
from tests.support.kafka.open_sink import EXACTLY, node, opened, rows, run
from tests.support.kafka.open_source import soon
from tests.support.kafka.topics import Topics

pytestmark = pytest.mark.kafka

Fresh = Callable[..., str]


def losing(address: str, topic: str, job: str, **options: Any) -> list[str]:
    """Commit a transaction that was aborted before; return the messages."""

    async def work() -> list[str]:
        described = node(address, topic, **EXACTLY, **options)
        async with opened(described, job=job) as out:
            handle = await out.written(rows(10))
            await out.sink.abort(handle)
            await out.sink.commit(handle)
            return out.told

    return run(work())


def test_a_lost_transaction_is_named_and_ends_the_job(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic = topics.create(fresh())
    with pytest.raises(ConnectorError) as error:
        losing(broker.address, topic, job)
    assert error.value.is_final
    assert error.value.message.startswith(f"10 rows to topic {topic} are lost")
    assert f"headrace-{job}-out-0-0-0, opened at 20" in error.value.message


def test_a_lost_transaction_is_only_a_warning_if_configured(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic = topics.create(fresh())
    (line,) = losing(broker.address, topic, job, on_lost_transaction="warn")
    assert line.startswith(f"out: 10 rows to topic {topic} are lost")


@pytest.mark.slow
def test_a_transaction_that_the_broker_gave_up_is_lost(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic = topics.create(fresh())

    async def work() -> None:
        described = node(broker.address, topic, transaction_timeout="2s", **EXACTLY)
        async with opened(described, job=job) as out:
            handle = await out.written(rows(10))
            await asyncio.to_thread(topics.settled, topic)
            await out.sink.commit(handle)

    with pytest.raises(ConnectorError, match=r"10 rows .* are lost"):
        run(work())
    assert topics.values(topic) == []


def test_a_transaction_that_the_broker_gave_up_before_it_was_prepared_is_written_again(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic = topics.create(fresh())

    async def work() -> None:
        described = node(broker.address, topic, transaction_timeout="2s", **EXACTLY)
        async with opened(described, job=job) as out:
            writer = out.writer()
            await writer.write(rows(10))
            await soon(lambda: sum(topics.ends(topic).values()) >= 10)
            await asyncio.to_thread(topics.settled, topic)
            await writer.prepare()

    with pytest.raises(ConnectorError, match="the broker has ended the transaction") as error:
        run(work())
    assert not error.value.is_final


def checking(address: str, topic: str, commits: CommitTiming | None, **options: Any) -> list[str]:
    """Check a sink; return the messages."""

    async def work() -> list[str]:
        async with opened(node(address, topic, **EXACTLY, **options), commits=commits) as out:
            return out.told

    return run(work())


def test_a_timeout_beyond_the_brokers_is_refused(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    with pytest.raises(ConnectorError, match=r"3600 s, which allows 900 s at most"):
        checking(broker.address, topic, CommitTiming(1, 10, 5), transaction_timeout="1h")


def test_a_timeout_that_ends_every_transaction_is_refused(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    with pytest.raises(ConnectorError, match="timeout is 30 s, and a checkpoint every 60 s"):
        checking(broker.address, topic, CommitTiming(60, 10, 5), transaction_timeout="30s")


def test_where_all_is_committed_at_the_end_no_time_is_too_long_to_know(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    assert checking(broker.address, topic, None, transaction_timeout="30s") == []


def test_a_timeout_that_may_abort_a_transaction_is_reported(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    assert checking(broker.address, topic, CommitTiming(5, 600, 60)) == []
    (line,) = checking(broker.address, topic, CommitTiming(300, 600, 60))
    assert "a transaction may be open for 960 s" in line
