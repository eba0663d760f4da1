"""A Python loop that consumes, filters and produces in transactions, as users would write it.

Both ends use librdkafka. Positions are part of the transaction, which is committed each second.
`tuned` reads in batches with larger queues, decodes with orjson, and sends values on unchanged, so
it encodes nothing. `plain` is the loop of tutorials: one record at a time, decoded and encoded with
json, with the default settings. It runs as a process of its own:
`python -m benchmarks.kafka_loop tuned|plain BROKERS FROM TO filter|w1 RECORDS LEAST_PRICE`
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import orjson
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from benchmarks.kafka_work import PARTITIONS, READING

Row: TypeAlias = "dict[str, Any]"
Passes: TypeAlias = Callable[[Row], bool]

EVERY_S = 1.0
AT_ONCE = 10_000
USUAL: dict[str, str | int | bool] = {
    name: READING[name] for name in ("enable.auto.commit", "isolation.level")
}
LONGEST_S = 60.0
WRITING: dict[str, str | int] = {
    "transactional.id": "loop",
    "compression.type": "zstd",
    "linger.ms": 5,
    "batch.size": 512 << 10,
    "queue.buffering.max.messages": 1_000_000,
}


def loop(how: str, address: str, source: str, target: str, passes: Passes, records: int) -> None:
    """Run until that many records were read."""
    tuned = how == "tuned"
    at = {"bootstrap.servers": address}
    consumer = Consumer((READING if tuned else USUAL) | at | {"group.id": target})
    received = partial(consumer.consume, AT_ONCE, 0.1) if tuned else partial(one, consumer)
    places = [TopicPartition(source, partition, 0) for partition in range(PARTITIONS)]
    consumer.assign(places)
    producer = Producer(WRITING | at)
    producer.init_transactions()
    producer.begin_transaction()
    read, due = 0, time.monotonic() + EVERY_S
    while read < records:
        for message in received():
            value = message.value()
            assert message.error() is None and value is not None, message.error()
            read += 1
            row = orjson.loads(value) if tuned else json.loads(value)
            if passes(row):
                producer.produce(target, value if tuned else json.dumps(row).encode())
        producer.poll(0)
        if time.monotonic() > due or read == records:
            producer.send_offsets_to_transaction(
                consumer.position(places), consumer.consumer_group_metadata()
            )
            producer.commit_transaction()
            producer.begin_transaction()
            due = time.monotonic() + EVERY_S
    producer.abort_transaction()
    consumer.close()


def one(consumer: Consumer) -> list[Message[bytes, bytes]]:
    """Return the next record, if there is one."""
    message = consumer.poll(0.1)
    return [] if message is None else [message]


def by_price(least: int) -> Passes:
    """Return a filter for bids with a higher price."""
    return lambda row: row["price"] > least


def by_url(row: Row) -> bool:
    """Whether a bid is for certain items."""
    return "item7" in row["url"]


if __name__ == "__main__":
    _, how, address, source, target, work, records, least = sys.argv
    passes = by_url if work == "w1" else by_price(int(least))
    loop(how, address, source, target, passes, int(records))
