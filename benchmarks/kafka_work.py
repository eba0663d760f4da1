"""Helpers of benchmarks from topic to topic: topics, runs, and counting.

A run is a process. It takes its wall-clock time and the CPU of all its threads, both including the
start. The work of the broker is not included, though it is on the same machine.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from benchmarks.bids import bids
from benchmarks.timing import Took, measure
from tests.support.kafka.topics import LONGEST_S, Topics

PARTITIONS = 4
BATCH = 512 << 10
READING: dict[str, str | int | bool] = {
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    # By default it queues 100,000 messages and then pauses for a second.
    "queued.min.messages": 1_000_000,
    "fetch.queue.backoff.ms": 5,
}
"""The fastest settings of librdkafka."""


def ran(command: list[str]) -> Took:
    """Run a command of Python to its end."""
    return measure([sys.executable, *command])


def headrace(folder: Path, pipeline: str, parallelism: int = 1, workers: int = 1) -> list[str]:
    """Return the command that runs a pipeline."""
    (folder / "p.yaml").write_text(pipeline)
    return [
        *("-m", "headrace.cli", "run", str(folder / "p.yaml"), "--quiet", "--fresh"),
        *("--home", str(folder / "home"), "--parallelism", str(parallelism)),
        *("--workers", str(workers)),
    ]


def later(records: int, at_once: int = 1_000_000) -> Iterator[bytes]:
    """Yield bids as record values; after a million, the same ones with later times."""
    lines = bids(min(records, at_once)).splitlines()
    for first in range(0, records, at_once):
        shift = first // 10
        for line in islice(lines, records - first):
            yield line[:-14] + b"%d}" % (int(line[-14:-1]) + shift) if shift else line


async def fill(address: str, topic: str, values: Iterable[bytes]) -> None:
    """Write values in batches, to one partition after the other."""
    producer = AIOKafkaProducer(
        bootstrap_servers=address,
        compression_type="zstd",
        max_batch_size=BATCH,
        max_request_size=4 * BATCH,
    )
    await producer.start()
    sent: deque[asyncio.Future[object]] = deque()
    batch, partition = producer.create_batch(), 0
    for value in values:
        if batch.append(key=None, value=value, timestamp=None) is None:
            sent.append(await producer.send_batch(batch, topic, partition=partition))
            batch, partition = producer.create_batch(), (partition + 1) % PARTITIONS
            batch.append(key=None, value=value, timestamp=None)
            while len(sent) > 2 * PARTITIONS:
                await sent.popleft()
    if batch.record_count():
        sent.append(await producer.send_batch(batch, topic, partition=partition))
    await asyncio.gather(*sent)
    await producer.stop()


def committed(address: str, topic: str) -> int:
    """Count the records of a topic that a `read_committed` reader sees."""
    ends = {at: end for at, end in Topics(address).ends(topic).items() if end}
    own = {"bootstrap.servers": address, "group.id": "count", "enable.partition.eof": True}
    consumer = Consumer(READING | own)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    rows, ended = 0, 0
    deadline = time.monotonic() + LONGEST_S
    while ended < len(ends):
        assert time.monotonic() < deadline, f"cannot read {topic} to its end"
        found = consumer.consume(10_000, 0.1)  # returns fewer after that time
        failed = [message for message in found if is_end(message)]
        rows, ended = rows + len(found) - len(failed), ended + len(failed)
    consumer.close()
    return rows


def is_end(message: Message[bytes, bytes]) -> bool:
    """Whether the message marks the end of a partition."""
    error = message.error()
    assert error is None or error.code() == KafkaError._PARTITION_EOF, error
    return error is not None
