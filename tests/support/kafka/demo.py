"""`make demo-kafka`: a broker, orders that come in, a pipeline over them, and what it wrote.

The broker, the producer and the reader at the end are those of the tests; the pipeline runs as
users run it, and is stopped as they stop it, by one Ctrl-C. It takes half a minute; Ctrl-C ends it
sooner, and nothing is left running or on disk.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Producer

from tests.support.kafka.broker import Broker
from tests.support.kafka.broker_jars import NoKafka
from tests.support.kafka.topics import LONGEST_S, Topics
from tests.support.paths import ROOT

CONFIG = ROOT / "configs" / "kafka.yaml"
RUN_S = 16.0
"""How long orders are read before the pipeline is stopped."""
ORDERS_A_TICK, TICK_S = 100, 0.05  # 2,000 in a second
PARTITIONS = 4
SHOWN = 8
CITIES = ("Amsterdam", "Berlin", "København", "Lisboa", "Paris", "Roma", "Wien", "Zürich")


def orders() -> Iterator[bytes]:
    """One after the other, each of the moment at which it is asked for."""
    chance = random.Random(1)
    number = 0
    while True:
        number += 1
        order = {
            "order_id": number,
            "city": chance.choice(CITIES),
            "amount": chance.randrange(100, 50_000) / 100,
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        yield json.dumps(order, ensure_ascii=False).encode()


def produce(address: str, stopped: threading.Event) -> None:
    """Write orders continuously, until stopped."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "log_level": 0})
    coming = orders()
    while not stopped.wait(TICK_S):
        for _ in range(ORDERS_A_TICK):
            producer.produce("orders", next(coming))
        producer.poll(0)
    producer.flush(LONGEST_S)


def run(address: str, home: Path) -> int:
    """Run the pipeline for a while, then ask it to stop; its exit status."""
    command = [sys.executable, "-m", "headrace.cli", "run", str(CONFIG)]
    environment = {**os.environ, "BROKERS": address, "HEADRACE_HOME": str(home)}
    with subprocess.Popen(command, env=environment) as running:
        try:
            return running.wait(RUN_S)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)
        except KeyboardInterrupt:  # which it got as well
            running.wait(LONGEST_S)
            raise
        return running.wait(LONGEST_S)


def written(topics: Topics) -> None:
    """Show what the pipeline wrote, as a reader sees it that trusts only what is committed."""
    records = topics.read("revenue")
    print(f"\nthe topic revenue has {len(records):,} committed records; some of them:")
    for record in records[:SHOWN]:
        key, value = (record.key or b"").decode(), (record.value or b"").decode()
        print(f"  partition {record.partition}, offset {record.offset}, key {key}: {value}")
    ends = topics.ends("orders")
    print(f"the topic orders has {sum(ends.values()):,} records, in {len(ends)} partitions")


def demo(folder: Path) -> int:
    """All of it, in that folder."""
    print("starting a Kafka broker (the first time on a machine its jars are fetched) ...")
    began = time.monotonic()
    with Broker(folder / "broker") as broker:
        print(f"it serves {broker.address}, {time.monotonic() - began:.1f} s later")
        topics = Topics(broker.address)
        topics.create("orders", PARTITIONS)
        topics.create("revenue", 2)
        stopped = threading.Event()
        producing = threading.Thread(target=produce, args=(broker.address, stopped))
        producing.start()
        print(f"orders are coming in: headrace run configs/{CONFIG.name}, for {RUN_S:.0f} s\n")
        sys.stdout.flush()
        try:
            status = run(broker.address, folder / "home")
        finally:
            stopped.set()
            producing.join()
        written(topics)
        return 0 if status == 128 + signal.SIGINT else status


def main() -> int:
    """The exit status."""
    with TemporaryDirectory(prefix="headrace-demo-") as folder:
        try:
            return demo(Path(folder))
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        except NoKafka as error:
            print(error, file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
