"""A loop in Python that consumes, filters and produces in transactions: what users would write.

librdkafka under both ends, the positions in the transaction, which is committed each second; the
values that pass go on as they are, so nothing is encoded. A process of its own:
`python -m benchmarks.kafka_loop BROKERS FROM TO filter|w1 RECORDS LEAST_PRICE`
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import orjson
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.kafka_work import PARTITIONS, READING

Row: TypeAlias = "dict[str, Any]"

EVERY_S = 1.0
AT_ONCE = 10_000
LONGEST_S = 60.0
WRITING: dict[str, str | int] = {
    "transactional.id": "loop",
    "compression.type": "zstd",
    "linger.ms": 5,
    "batch.size": 512 << 10,
    "queue.buffering.max.messages": 1_000_000,
}


def loop(address: str, source: str, target: str, work: str, records: int, least: int) -> None:
    """Until so many records were read."""
    passes = by_url if work == "w1" else by_price(least)
    at = {"bootstrap.servers": address}
    consumer = Consumer(READING | at | {"group.id": target})
    places = [TopicPartition(source, partition, 0) for partition in range(PARTITIONS)]
    consumer.assign(places)
    producer = Producer(WRITING | at)
    producer.init_transactions()
    producer.begin_transaction()
    read, due = 0, time.monotonic() + EVERY_S
    while read < records:
        for message in consumer.consume(AT_ONCE, 0.1):
            assert message.error() is None, message.error()
            read += 1
            value = message.value()
            if value is not None and passes(orjson.loads(value)):
                producer.produce(target, value)
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


def by_price(least: int) -> Callable[[Row], bool]:
    """Those whose price is higher."""
    return lambda row: row["price"] > least


def by_url(row: Row) -> bool:
    """Those of some items."""
    return "item7" in row["url"]


if __name__ == "__main__":
    _, address, source, target, work, records, least = sys.argv
    loop(address, source, target, work, int(records), int(least))
