"""Time of a record through a broker, a filter and the broker again: p99, in milliseconds.

There are 10,000 records a second for 20 s, of which the first 3 do not count. The time is from the
producer to the consumer, which are processes of their own with librdkafka. The figure is that of
at_least_once with its default linger of 5 ms, minus the time of a consumer of the input at the same
time, which is the broker's share on the way in; the way out has another such share. On stderr: all
times, without a pipeline, with no linger, and with exactly_once and a checkpoint each second, where
a record waits up to a second for the next checkpoint.
`python -m benchmarks.kafka_latency [SECONDS] [RATE]`
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException

from benchmarks.bids import bids
from benchmarks.kafka_ends import stamped
from benchmarks.kafka_work import PARTITIONS, headrace
from benchmarks.timing import compile_all
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import LONGEST_S, Record, Topics

WARM_S = 3
PIPELINE = """
name: latency
settings: {{checkpoint: {{every: 1s}}}}
sources:
  bids:
    kafka: {{brokers: "{address}", topic: {source}}}
    schema: {{auction: bigint, bidder: bigint, price: bigint, channel: string, url: string,
             ts: bigint}}
steps: {{step: {{from: bids, where: price > 0}}}}
sinks:
  out:
    from: step
    kafka: {{brokers: "{address}", topic: {target}, delivery: {delivery}, linger: {linger}}}
"""
WAYS = {
    "at least once": ("at_least_once", "5ms"),
    "at least once, no linger": ("at_least_once", "0ms"),
    "exactly once": ("exactly_once", "5ms"),
}


@dataclass(frozen=True, slots=True)
class Latency:
    """The latency that a consumer measured, in milliseconds."""

    p50: float
    p99: float
    most: float

    def __str__(self) -> str:
        return f"p50 {self.p50:.1f} ms, p99 {self.p99:.1f} ms, maximum {self.most:.1f} ms"


@dataclass(frozen=True, slots=True)
class Bench:
    """A broker, and the load on it."""

    address: str
    folder: Path
    rate: int
    seconds: int

    def through(self, name: str, delivery: str, linger: str) -> list[Latency]:
        """Measure with consumers of the input and of the output."""
        source, target = self.topic(f"in-{name}"), self.topic(f"out-{name}")
        said = {"source": source, "target": target, "delivery": delivery, "linger": linger}
        text = PIPELINE.format(address=self.address, **said)
        with running(headrace(self.folder, text)):
            self._until_it_reads(source, target)
            return self.measured(source, target, already=1)

    def topic(self, name: str) -> str:
        """Create a new topic."""
        return Topics(self.address).create(name, PARTITIONS)

    def directly(self, name: str) -> Latency:
        """Measure a consumer of the input without a pipeline."""
        return self.measured(self.topic(name))[0]

    def measured(self, *topics: str, already: int = 0) -> list[Latency]:
        """Produce to the first topic, and consume all topics."""
        counts = (str(self.rate * self.seconds + already), str(self.rate * WARM_S + already))
        consumers = [self.end("consume", topic, *counts) for topic in topics]
        for consumer in consumers:
            assert consumer.stdout is not None and consumer.stdout.readline() == "ready\n"
        producer = self.end("produce", topics[0], str(self.rate), str(self.seconds))
        said = [consumer.communicate()[0] for consumer in consumers]
        producer.communicate()
        assert not any(each.returncode for each in (*consumers, producer))
        return [Latency(*map(float, each.split())) for each in said]

    def _until_it_reads(self, source: str, target: str) -> None:
        """Send a record through the pipeline and wait for it, so that the start is not measured."""
        topics = Topics(self.address)
        topics.write(source, [Record(stamped(bids(1).rstrip()))])
        deadline = time.monotonic() + LONGEST_S
        while not written(topics, target):
            assert time.monotonic() < deadline, "nothing comes out of the pipeline"
            time.sleep(0.05)

    def end(self, which: str, topic: str, *numbers: str) -> subprocess.Popen[str]:
        """Start one of the two ends of a topic."""
        command = ["-m", "benchmarks.kafka_ends", which, self.address, topic, *numbers]
        return subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)


def written(topics: Topics, topic: str) -> bool:
    """Whether the topic has committed records; a new topic's leader may not know of itself yet."""
    with suppress(KafkaException):
        return any(topics.ends(topic, committed=True).values())
    return False


@contextmanager
def running(command: list[str]) -> Iterator[None]:
    """Run the command during the context."""
    with subprocess.Popen([sys.executable, *command]) as process:
        try:
            yield
            assert process.poll() is None, "the pipeline is over"
        finally:
            process.terminate()


def main(seconds: str = "20", rate: str = "10000") -> None:
    """Print the figure."""
    compile_all()
    with tempfile.TemporaryDirectory() as name, Broker(Path(name) / "broker") as broker:
        bench = Bench(broker.address, Path(name), int(rate), int(seconds))
        bench.directly("warm")  # a new broker is slow
        print(f"the broker alone: {bench.directly('in')}", file=sys.stderr)
        found: dict[str, list[Latency]] = {}
        for at, (way, (delivery, linger)) in enumerate(WAYS.items()):
            found[way] = bench.through(str(at), delivery, linger)
            before, behind = found[way]
            print(f"{way}: {behind}", file=sys.stderr)
            print(f"  the input at the same time: {before}", file=sys.stderr)
    before, behind = found["at least once"]
    print(f"kafka_latency {behind.p99 - before.p99:.1f} ms")


if __name__ == "__main__":
    main(*sys.argv[1:])
