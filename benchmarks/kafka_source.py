"""Speed of reading a topic into columns: million records a second, from a local broker.

A million bids of 145 bytes of JSON, four partitions, zstd, all six columns; the fastest of the
rounds. On stderr, from the same run, other readers of the same records, each into the same columns
with Polars: a bare loop over fetch responses, aiokafka's `getmany`, librdkafka's `consume`; and the
time of each stage for a record. `kafka_source 200000` reads fewer records.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.memory_records import MemoryRecords
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Partition

from benchmarks.bids import SCHEMA, bids
from benchmarks.timing import cpu_us
from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.kafka.source import build_readers, build_source
from headrace.connectors.kafka.source.fetched_batches import parse_batches
from headrace.connectors.kafka.source.record_unpacking import VALUES_ONLY
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import Chunk
from headrace.core.pipeline.formats import JsonOptions
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.types.data_types import BIGINT, Field, Schema, to_polars
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Topics

RECORDS = 1_000_000
PARTITIONS = 4
TOPIC = "bids"
ROUNDS = 3
BATCH = 512 << 10
PLAIN = Schema(
    tuple(Field(each.name, BIGINT if each.name == "ts" else each.type) for each in SCHEMA)
)
TYPES: Mapping[str, pl.DataType] = {each.name: to_polars(each.type) for each in PLAIN}


def main() -> None:
    """Print the figure."""
    records = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        Topics(broker.address).create(TOPIC, PARTITIONS)
        asyncio.run(fill(broker.address, bids(records).splitlines()))
        ways: dict[str, Callable[[], int]] = {
            "the source": lambda: asyncio.run(source(broker.address)),
            "a bare loop over fetch responses": lambda: asyncio.run(bare(broker.address)),
            "getmany": lambda: asyncio.run(getmany(broker.address, records)),
            "librdkafka's consume": lambda: consume(broker.address, records),
        }
        rates: dict[str, list[float]] = {name: [] for name in ways}
        costs: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                began, worked = time.perf_counter(), time.process_time()
                read = way()
                rates[name].append(records / (time.perf_counter() - began) / 1e6)
                costs[name].append((time.process_time() - worked) / records * 1e6)
                assert read == records, (name, read)
    ours = max(rates["the source"])
    print(f"kafka_source {ours:.2f} M records/s")
    for name, found in rates.items():
        rounds = ", ".join(f"{rate:.2f}" for rate in found)
        said = f"{max(found):.2f} M/s ({rounds}), of CPU {min(costs[name]):.2f} us/record"
        print(f"{name}: {said}; ours {ours / max(found):.2f} times", file=sys.stderr)
    stages()


async def fill(address: str, values: list[bytes]) -> None:
    """Write the records in batches, to one partition after the other."""
    producer = AIOKafkaProducer(
        bootstrap_servers=address,
        compression_type="zstd",
        max_batch_size=BATCH,
        max_request_size=4 * BATCH,
    )
    await producer.start()
    sent: deque[asyncio.Future[object]] = deque()
    at = 0
    while at < len(values):
        batch = producer.create_batch()
        while at < len(values) and batch.append(key=None, value=values[at], timestamp=None):
            at += 1
        sent.append(await producer.send_batch(batch, TOPIC, partition=len(sent) % PARTITIONS))
    await asyncio.gather(*sent)
    await producer.stop()


async def source(address: str) -> int:
    """Read with the source of pipelines."""
    said = {"brokers": Text(address), "topic": Text(TOPIC), "stop": Text("latest")}
    options = KafkaSource.model_validate(said)
    format = nodes.Format("json", JsonOptions.model_validate({"epoch": Text("ms")}))
    stream = nodes.Stream("bids", SCHEMA, nodes.Append(), False)
    node = nodes.Source(
        *("bids", "kafka", options, format, SCHEMA, SCHEMA.names, frozenset(), None, None, "fail"),
        (stream,),
        1,
    )
    rows = 0
    with ThreadPoolExecutor(2) as threads:
        around = RunContext(Path(), "0" * 32, KernelExecutor(threads))
        opened = build_source(node, around)
        readers = build_readers(node, around, CoordinatorLink(opened.answer))
        splits = await opened.discover_splits(True)
        reading = readers.create_reader()
        reading.assign([(split, split.start_position) for split in splits], last=True)
        while (arrival := await reading.fetch()) is not None:
            if isinstance(arrival, Chunk):
                rows += arrival.frame.height
        await reading.close()
        await readers.close()
        await opened.close()
    return rows


def columns(values: list[bytes]) -> int:
    """Decode values as the references do."""
    return pl.read_ndjson(b"\n".join(values), schema=dict(TYPES)).height


async def bare(address: str) -> int:
    """Decode while the next fetch is in flight, without handling errors, positions or ends."""
    client = AIOKafkaClient(bootstrap_servers=address)
    await client.bootstrap()
    node = client.get_random_node()
    await client.ready(node)
    at = dict.fromkeys(range(PARTITIONS), 0)

    def fetch() -> asyncio.Task[object]:
        wanted = [(partition, offset, 1 << 20) for partition, offset in at.items()]
        request = FetchRequest(100, 1, 16 << 20, 1, [(TOPIC, wanted)])
        return asyncio.ensure_future(client.send(node, request))

    rows, fetching = 0, fetch()
    while True:
        found: list[object] = []
        answer = await fetching
        for _, partitions in answer.topics:  # type: ignore[attr-defined]
            for partition, *_, data in partitions:
                whole = MemoryRecords(data)
                while whole.has_next():
                    batch = whole.next_batch()
                    at[partition] = batch.next_offset
                    found.append(batch)
        if not found:
            break
        fetching = fetch()
        rows += await asyncio.to_thread(decoded, found)
    await client.close()
    return rows


def decoded(found: list[object]) -> int:
    """Count the rows of some batches."""
    values: list[bytes] = []
    for batch in found:
        assert batch.validate_crc()  # type: ignore[attr-defined]
        values += [record.value for record in batch]  # type: ignore[attr-defined]
    return columns(values)


async def getmany(address: str, records: int) -> int:
    """Read with aiokafka's consumer."""
    consumer = AIOKafkaConsumer(bootstrap_servers=address, isolation_level="read_committed")
    await consumer.start()
    mine = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    consumer.assign(mine)
    await consumer.seek_to_beginning(*mine)
    rows = 0
    while rows < records:
        for found in (await consumer.getmany(timeout_ms=1000)).values():
            rows += await asyncio.to_thread(columns, [record.value for record in found])
    await consumer.stop()
    return rows


def consume(address: str, records: int) -> int:
    """Read with librdkafka, tuned: by default it queues 100,000 messages and pauses."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.assign([Partition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    rows = 0
    while rows < records:
        found = [message.value() for message in consumer.consume(10_000, 1.0)]
        if found:
            rows += columns([value for value in found if value is not None])
    consumer.close()
    return rows


def stages(rows: int = 50_000) -> None:
    """Print the time of each stage for a record, measured by itself."""
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    values = bids(rows).splitlines()
    builder = DefaultRecordBatchBuilder(2, 4, 0, -1, -1, -1, 1 << 30)
    for at, value in enumerate(values):
        builder.append(at, 0, None, value, [])
    data = bytes(builder.build())
    (batch,) = parse_batches(data)
    block = b"\n".join(values)
    took = {
        "headers": cpu_us(lambda: parse_batches(data), rows),
        "checksum": cpu_us(batch.open_records, rows),
        "and unpacked": cpu_us(lambda: next(iter(batch.open_records())), rows),
        "and values as a list": cpu_us(lambda: VALUES_ONLY.unpack_batches([batch], 0, None), rows),
        "join": cpu_us(lambda: b"\n".join(values), rows),
        "count lines": cpu_us(lambda: block.count(b"\n"), rows),
        "decode": cpu_us(lambda: JsonDecoder(SCHEMA, "ms").decode(block, 1), rows),
    }
    for name, each in took.items():
        print(f"{each:.3f} us/record  {name}", file=sys.stderr)


if __name__ == "__main__":
    main()
