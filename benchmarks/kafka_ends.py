"""The two ends of a latency measurement, each a process of its own with librdkafka.

`python -m benchmarks.kafka_ends produce BROKERS TOPIC RATE SECONDS` writes bids whose `ts` is the
microsecond at which the client got them. `... consume BROKERS TOPIC COUNT SKIP` reads COUNT
committed records. It reports when it is ready, and finally the ages of the records in milliseconds
(median, p99 and maximum), without the first SKIP records.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.bids import bids
from benchmarks.kafka_work import PARTITIONS

DIGITS = 16
"""The digits of a time in microseconds."""
TICK_S = 0.001
LONGEST_S = 60.0


def stamped(line: bytes) -> bytes:
    """Return the bid with the current time."""
    return line[:-14] + b"%d}" % (time.time_ns() // 1000)


def produce(address: str, topic: str, rate: int, seconds: int) -> None:
    """Produce at an even rate, and catch up if late."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 1})
    lines = bids(rate).splitlines()
    began, sent = time.perf_counter(), 0
    while sent < rate * seconds:
        due = min(int((time.perf_counter() - began) * rate), rate * seconds)
        for at in range(sent, due):
            producer.produce(topic, stamped(lines[at % rate]), partition=at % PARTITIONS)
        sent = max(sent, due)
        producer.poll(0)
        time.sleep(TICK_S)
    assert not producer.flush(LONGEST_S)


def consume(address: str, topic: str, count: int, skip: int) -> None:
    """Consume until all records have arrived, and print their ages."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "ends",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    consumer.assign(places)
    consumer.get_watermark_offsets(places[0], LONGEST_S)
    print("ready", flush=True)
    ages_us: list[int] = []
    quiet_since = time.monotonic()
    while len(ages_us) < count:
        message = consumer.poll(1.0)
        if message is None:
            assert time.monotonic() < quiet_since + LONGEST_S, f"{len(ages_us)} of {count} came"
            continue
        quiet_since = time.monotonic()
        value = message.value()
        assert message.error() is None and value is not None, message.error()
        ages_us.append(time.time_ns() // 1000 - int(value[-1 - DIGITS : -1]))
    consumer.close()
    ages = sorted(ages_us[skip:])
    print(*(ages[int((len(ages) - 1) * part)] / 1000 for part in (0.5, 0.99, 1)))


if __name__ == "__main__":
    _, end, address, topic, first, second = sys.argv
    {"produce": produce, "consume": consume}[end](address, topic, int(first), int(second))
