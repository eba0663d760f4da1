"""Rows exactly once, on a real broker: what is prepared, committed and aborted."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from headrace.connectors.kafka.sink.sink import TopicSink
from headrace.connectors.kafka.sink.transactional_ids import INITIAL_SLOTS
from headrace.connectors.kafka.sink.writer import TransactionalWriter
from headrace.core.api.sinks import SinkWriter
from headrace.core.api.splits import Handle
from headrace.core.api.state import Document
from tests.support.kafka.broker import Broker
from tests.support.kafka.open_sink import EXACTLY, LONGEST_S, Kept, node, numbers, opened, rows, run
from tests.support.kafka.open_source import soon
from tests.support.kafka.topics import Topics
from tests.support.paths import ROOT

pytestmark = pytest.mark.kafka

Fresh = Callable[..., str]


def attempt(address: str, topic: str, job: str, notes: Kept) -> Handle:
    """Prepare a transaction with a writer that is gone afterwards: it stays open."""

    async def work() -> Handle:
        async with opened(node(address, topic, **EXACTLY), job=job, notes=notes) as out:
            return await out.written(rows(1))

    return run(work())


def test_no_attempt_uses_an_id_of_one_before(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic, notes = topics.create(fresh()), Kept()
    handles = [attempt(broker.address, topic, job, notes) for _ in range(3)]
    assert [json.loads(note)["generation"] for note in notes.order] == [0, 1, 2]
    assert len({handle["id"] for handle in handles}) == 3
    assert len({handle["producer"] for handle in handles}) == 3


def test_whatever_a_dead_attempt_has_left_in_any_partition_gets_a_marker(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic, notes = topics.create(fresh(), partitions=4), Kept()
    attempt(broker.address, topic, job, notes)
    assert sorted(topics.ends(topic).values()) == [0, 0, 0, 1]

    async def begins() -> None:
        async with opened(node(broker.address, topic, **EXACTLY), job=job, notes=notes):
            # Where the row is, one ends it, and one comes for what may have been forgotten.
            await soon(lambda: sorted(topics.ends(topic).values()) == [1, 1, 1, 3])

    run(begins())
    assert topics.values(topic) == []


def test_a_deleted_topic_does_not_block_ending_open_transactions(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic, notes = topics.create(fresh()), Kept()
    attempt(broker.address, topic, job, notes)

    async def ends() -> None:
        async with opened(
            node(broker.address, topic, **EXACTLY), job=job, notes=notes, checked=False
        ) as out:
            assert isinstance(out.sink, TopicSink)
            wire, patience = await out.sink.link.get_wire(), out.sink.link.retry
            await out.sink.ids.end_previous(wire, patience, [(topic, 0), (fresh(), 0)])

    run(ends())
    assert topics.values(topic) == []


@dataclass(slots=True)
class Gate(Kept):
    """Job notes whose write is delayed until `open`; `waits` is set while one is pending."""

    opens: threading.Event = field(default_factory=threading.Event)
    waits: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.opens.set()

    def write(self, name: str, document: Document) -> None:
        """Store the document once opened."""
        if not self.opens.is_set():
            self.waits.set()
        assert self.opens.wait(LONGEST_S)
        Kept.write(self, name, document)


async def one(writer: SinkWriter, number: int) -> Handle:
    """The handle of a transaction with one row."""
    await writer.write(rows(1, first=number))
    handle = await writer.prepare()
    assert handle is not None
    return handle


def test_rows_are_seen_when_their_handle_is_committed_and_once(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic = topics.create(fresh(), partitions=3)

    async def work() -> None:
        async with opened(node(broker.address, topic, **EXACTLY), job=job) as out:
            writer = out.writer()
            assert await writer.prepare() is None
            await writer.write(rows(100))
            handle = await writer.prepare()
            assert handle is not None
            assert await writer.prepare() is None
            assert topics.visible(topic) == []
            await out.sink.commit(handle)
            await out.sink.commit(handle)
            await writer.write(rows(100, first=100))

    run(work())
    # The unprepared transaction was aborted when the writer was closed: no reader waits for it.
    assert numbers(topics.values(topic)) == list(range(100))


def test_waiting_transactions_are_committed_in_order_after_a_restart(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic, notes = topics.create(fresh()), Kept()
    described = node(broker.address, topic, **EXACTLY)

    async def work() -> list[Handle]:
        async with opened(described, job=job, notes=notes) as out:
            writer, handles = out.writer(), []
            for at in range(5):
                await writer.write(rows(10, first=10 * at))
                handles.append(await writer.prepare())
            assert topics.visible(topic) == []
            return [handle for handle in handles if handle is not None]

    async def later(handles: list[Handle]) -> None:
        async with opened(described, job=job, checked=False) as out:
            for handle in handles:
                await out.sink.commit(json.loads(json.dumps(handle)))

    handles = run(work())
    assert len({handle["id"] for handle in handles}) == 5
    assert [json.loads(note)["slots"] for note in notes.order] == [3, 4, 5]
    run(later(handles))
    assert numbers(topics.values(topic)) == list(range(50))


def test_an_id_is_used_again_once_the_commit_of_its_transaction_is_recorded(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic, notes = topics.create(fresh()), Kept()

    async def work() -> list[object]:
        async with opened(node(broker.address, topic, **EXACTLY), job=job, notes=notes) as out:
            writer, ids = out.writer(), []
            for at in range(6):
                await writer.write(rows(1, first=at))
                out.sink.on_commits_recorded()
                handle = await writer.prepare()
                assert handle is not None
                await out.sink.commit(handle)
                ids.append(handle["id"])
            return ids

    assert len(set(run(work()))) == 2
    assert len(notes.order) == 1
    assert numbers(topics.values(topic)) == list(range(6))


def test_what_a_dead_attempt_left_open_is_aborted_at_any_parallelism_and_by_another_job(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic, notes = topics.create(fresh()), Kept()

    async def dies() -> None:
        described = node(broker.address, topic, parallelism=2, **EXACTLY)
        async with opened(described, job=job, notes=notes) as out:
            # Prepared, so closing leaves them as they are; no manifest names them.
            await out.written(rows(10), subtask=1)
            await out.written(rows(10), subtask=0)

    async def follows() -> None:
        async with opened(node(broker.address, topic, **EXACTLY), job="b" * 32, notes=notes) as out:
            await out.sink.commit(await out.written(rows(3)))

    run(dies())
    assert topics.visible(topic) == []
    run(follows())
    assert numbers(topics.values(topic)) == [0, 1, 2]
    assert [json.loads(note)["subtasks"] for note in notes.order] == [2, 1]


def test_an_id_committed_while_the_record_grows_is_free_once_that_is_recorded(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic, notes = topics.create(fresh()), Gate()

    async def work() -> tuple[object, object]:
        async with opened(node(broker.address, topic, **EXACTLY), job=job, notes=notes) as out:
            writer = out.writer()
            first, *_ = [await one(writer, at) for at in range(INITIAL_SLOTS)]
            notes.opens.clear()
            writing = asyncio.create_task(writer.write(rows(1, first=INITIAL_SLOTS)))
            await asyncio.to_thread(notes.waits.wait)
            await out.sink.commit(first)
            notes.opens.set()
            await writing
            await writer.prepare()
            out.sink.on_commits_recorded()
            return first["id"], (await one(writer, INITIAL_SLOTS + 1))["id"]

    before, after = run(work())
    assert before == after


def test_a_cancelled_prepare_leaves_no_transaction_open(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic = topics.create(fresh())

    async def work() -> None:
        async with opened(node(broker.address, topic, **EXACTLY), job=job) as out:
            writer = out.writer()
            assert isinstance(writer, TransactionalWriter)
            await writer.write(rows(10))
            preparing = asyncio.create_task(writer.prepare())
            while writer.output.row_sender is not None:  # noqa: ASYNC110
                await asyncio.sleep(0)
            preparing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await preparing

    run(work())
    assert topics.values(topic) == []


SCRIPT = """
import asyncio, json, os, signal, sys
from tests.support.kafka.open_sink import node, opened, rows

async def work(address, topic, job):
    async with opened(node(address, topic, delivery="exactly_once"), job=job) as out:
        print(json.dumps(await out.written(rows(1000))), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(work(*sys.argv[1:]))
"""


def test_another_process_commits_what_a_killed_one_has_prepared(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic = topics.create(fresh(), partitions=4)
    command = [sys.executable, "-c", SCRIPT, broker.address, topic, job]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    handle = json.loads(ran.stdout)
    assert (handle["rows"], handle["topics"]) == (1000, [topic])

    async def work() -> None:
        async with opened(node(broker.address, topic, **EXACTLY), job=job, checked=False) as out:
            await out.sink.commit(handle)

    assert topics.visible(topic) == []
    run(work())
    assert numbers(topics.values(topic)) == list(range(1000))


def test_aborted_rows_are_never_seen_and_may_be_aborted_again(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic = topics.create(fresh())

    async def work() -> None:
        async with opened(node(broker.address, topic, **EXACTLY), job=job) as out:
            handle = await out.written(rows(10))
            await out.sink.abort(handle)
            await out.sink.abort(handle)

    run(work())
    assert topics.values(topic) == []


def test_with_a_limit_there_is_no_checkpoint_to_commit_with_and_rows_are_seen_at_once(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic, notes = topics.create(fresh()), Kept()

    async def work() -> list[str]:
        described = node(broker.address, topic, parallelism=2, **EXACTLY)
        async with opened(described, job=job, notes=notes, commits=None, limit=10) as out:
            for subtask in range(2):
                writer = out.writer(subtask)
                await writer.write(rows(5, first=5 * subtask))
                assert await writer.prepare() is None
            assert numbers(topics.values(topic)) == list(range(10))
            return out.told

    (line,) = run(work())
    assert line.startswith("out: with --limit rows are written at least once")
    assert not notes.order


def test_a_commit_waits_for_a_broker_that_is_away(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic = topics.create(fresh())

    async def work() -> None:
        async with opened(node(broker.address, topic, **EXACTLY), job=job) as out:
            handle = await out.written(rows(10))
            await asyncio.to_thread(broker.kill)
            committing = asyncio.create_task(out.sink.commit(handle))
            await asyncio.sleep(0)
            await asyncio.to_thread(broker.start)
            await committing

    run(work())
    assert numbers(topics.values(topic)) == list(range(10))


def test_a_commit_that_waits_can_be_cancelled(
    broker: Broker, topics: Topics, fresh: Fresh, job: str
) -> None:
    topic = topics.create(fresh())

    async def work() -> None:
        async with opened(node(broker.address, topic, **EXACTLY), job=job) as out:
            handle = await out.written(rows(10))
            await asyncio.to_thread(broker.pause)
            committing = asyncio.create_task(out.sink.commit(handle))
            await asyncio.sleep(0)
            committing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await committing

    try:
        run(work())
    finally:
        broker.resume()
