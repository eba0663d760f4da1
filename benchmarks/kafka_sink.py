"""Speed of writing rows to a topic exactly once: million rows a second, with a local broker.

A million bids as rows of six columns are written as JSON of 145 bytes to four partitions by their
auction, with zstd, in a transaction for each quarter. The figure is the fastest of the rounds. On
stderr, from the same run: the same at least once; librdkafka's Python binding with finished values
and keys, without and with transactions; and the time of each stage for a row.
`kafka_sink 200000` writes fewer rows.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
from confluent_kafka import Producer as Confluent

from benchmarks.bids import SCHEMA, bids
from benchmarks.timing import cpu_us
from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.formats.json_encode import JsonEncoder
from headrace.connectors.kafka.sink import build_sink, build_writers
from headrace.connectors.kafka.sink.batch_compression import CODEC_NUMBERS
from headrace.connectors.kafka.sink.encoding import RecordEncoder, RecordMapping
from headrace.connectors.kafka.sink.producer_batches import ProducerBatches, ProducerIdentity
from headrace.connectors.kafka.sink_options import KafkaSink
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import CommitTiming, RunContext
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Topics

ROWS = 1_000_000
PARTITIONS = 4
TRANSACTIONS = 4
FRAME = 50_000
ROUNDS = 3
KEY = "auction"


def main() -> None:
    """Print the figure."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    frames = read(count)
    records = [(str(key).encode(), value) for key, value in zip(*columns(frames), strict=True)]
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        topics, at = Topics(broker.address), broker.address
        ways: dict[str, Callable[[str], None]] = {
            "the sink, exactly once": lambda t: asyncio.run(sink(at, t, frames, "exactly_once")),
            "the sink, at least once": lambda t: asyncio.run(sink(at, t, frames, "at_least_once")),
            "librdkafka": lambda t: confluent(at, t, records, transactions=0),
            "librdkafka in transactions": lambda t: confluent(at, t, records, TRANSACTIONS),
        }
        rates: dict[str, list[float]] = {name: [] for name in ways}
        costs: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                topic = topics.create(f"bids-{uuid.uuid4().hex}", PARTITIONS)
                began, worked = time.perf_counter(), time.process_time()
                way(topic)
                rates[name].append(count / (time.perf_counter() - began) / 1e6)
                costs[name].append((time.process_time() - worked) / count * 1e6)
                written(topics, topic, count)
    ours = max(rates["the sink, exactly once"])
    print(f"kafka_sink {ours:.2f} M rows/s")
    for name, found in rates.items():
        rounds = ", ".join(f"{rate:.2f}" for rate in found)
        said = f"{max(found):.2f} M/s ({rounds}), of CPU {min(costs[name]):.2f} us/row"
        print(f"{name}: {said}; ours {ours / max(found):.2f} times", file=sys.stderr)
    stages(frames[0])


def read(count: int) -> list[pl.DataFrame]:
    """Return the bids as frames."""
    lines = bids(count).splitlines(keepends=True)
    blocks = [b"".join(lines[at : at + FRAME]) for at in range(0, count, FRAME)]
    return [JsonDecoder(SCHEMA, "ms").decode(block, 0)[0] for block in blocks]


def columns(frames: Sequence[pl.DataFrame]) -> tuple[list[int], list[bytes]]:
    """Return the keys and values of the records."""
    keys = [key for frame in frames for key in frame[KEY].to_list()]
    return keys, [line for f in frames for line in JsonEncoder(SCHEMA).encode(f).splitlines()]


def written(topics: Topics, topic: str, count: int) -> None:
    """Check that all records are there, apart from transaction markers; delete the topic."""
    topics.settled(topic)
    markers = sum(topics.ends(topic, committed=True).values()) - count
    assert 0 <= markers <= PARTITIONS * (TRANSACTIONS + 1), markers
    topics.delete(topic)


async def sink(address: str, topic: str, frames: Sequence[pl.DataFrame], delivery: str) -> None:
    """Write with the sink of pipelines."""
    said = {"brokers": address, "topic": topic, "key": KEY, "compression": "zstd"}
    given = {Text(key): Text(value) for key, value in {**said, "delivery": delivery}.items()}
    options = KafkaSink.model_validate(given)
    node = nodes.Sink("out", "bids", "kafka", options, nodes.Format("json", None), 1)
    with ThreadPoolExecutor(2) as threads:
        commits = CommitTiming(5.0, 600.0, 60.0)
        where = RunContext(Path(), uuid.uuid4().hex, KernelExecutor(threads), commit_timing=commits)
        out = build_sink(node, where)
        await out.check()
        writers = build_writers(node, SCHEMA, where, CoordinatorLink(out.answer))
        writer = writers.create_writer(0)
        every = max(1, len(frames) // TRANSACTIONS)
        for number, frame in enumerate(frames, 1):
            await writer.write(frame)
            if number % every == 0 or number == len(frames):
                handle = await writer.prepare()
                if handle is not None:
                    await out.commit(handle)
                    out.on_commits_recorded()
        await writer.close()
        await writers.close()
        await out.close()


def confluent(
    address: str, topic: str, records: Sequence[tuple[bytes, bytes]], transactions: int
) -> None:
    """Write with librdkafka as documented: a call for each record."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": address,
        "compression.type": "zstd",
        "linger.ms": 5,
        "batch.size": 512 << 10,
        "partitioner": "murmur2_random",
        "enable.idempotence": "true",
        "log_level": 0,
    }
    if transactions:
        settings["transactional.id"] = topic
    producer = Confluent(settings)
    if transactions:
        producer.init_transactions(60.0)
    every = len(records) // max(1, transactions)
    for at in range(0, len(records), every):
        if transactions:
            producer.begin_transaction()
        produce(producer, topic, records[at : at + every])
        if transactions:
            producer.commit_transaction(60.0)
    assert not producer.flush(60.0)


def produce(producer: Confluent, topic: str, records: Sequence[tuple[bytes, bytes]]) -> None:
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)


def stages(frame: pl.DataFrame) -> None:
    """Print the time of each stage for a row, without a broker."""
    nothing = Schema(())
    key = Schema(tuple(field for field in SCHEMA if field.name == KEY))
    encoder = JsonEncoder(SCHEMA)
    encoding = RecordEncoder(RecordMapping(SCHEMA, encoder, key, nothing, "t"))
    records = encoding.encode_rows("t", frame, PARTITIONS)

    def batched(codec: str) -> None:
        batches = ProducerBatches(ProducerIdentity(1, 0, "id"), CODEC_NUMBERS[codec])
        batches.add_records(records, 0.0)
        batches.seal_before(0.0)

    ways: dict[str, Callable[[], object]] = {
        "JSON": lambda: encoder.encode(frame),
        "to records (with JSON)": lambda: encoding.encode_rows("t", frame, PARTITIONS),
        **{f"to batches, {codec}": lambda codec=codec: batched(codec) for codec in CODEC_NUMBERS},  # type: ignore[misc]
    }
    for name, way in ways.items():
        print(f"{name}: {cpu_us(way, frame.height):.2f} us/row", file=sys.stderr)


if __name__ == "__main__":
    main()
