"""Kafka to Kafka: throughput of a filter exactly once, and cost of transactions for windows.

The input is bids of 146 bytes of JSON in four partitions, with zstd on both sides. Each run is a
process, including its start, and an independent client counts its output.

`filter` keeps the half of a million bids with the higher price, with a checkpoint each second. The
figure is million records a second exactly once, the best of the rounds. On stderr: the same with
two subtasks, with two workers, at least once, and Python loops over librdkafka that commit each
second, a tuned one and, once, a plain one. `w1` keeps 11 %. `w3` aggregates 6 million bids in
windows of 10 s by auction with a checkpoint every 5 s. Its figure is the time exactly once relative
to at least once, the least of the rounds of each.
`python -m benchmarks.kafka_pipelines [filter|w1|w3] [RECORDS] [ROUNDS]`
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.kafka_work import PARTITIONS, committed, fill, headrace, later, ran
from benchmarks.timing import Took, compile_all
from benchmarks.works import STEPS, TIME
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Topics

RECORDS = {"filter": 1_000_000, "w1": 1_000_000, "w3": 6_000_000}
SMALL = 1_000_000
"""With fewer records, windows have a checkpoint each second; otherwise there would be none."""
LEAST_PRICE = 125_100
"""Half of the bids have a higher price."""
ONCE, AGAIN = "exactly_once", "at_least_once"
PIPELINE = """
name: {work}
settings: {{checkpoint: {{every: {every}}}}}
sources:
  bids:
    kafka: {{brokers: "{address}", topic: {source}, stop: latest}}
    schema: {{auction: bigint, bidder: bigint, price: bigint, channel: string, url: string,
             ts: {type}}}
{time}
steps:
  step:
    from: bids
{step}
sinks:
  out:
    from: step
    kafka: {{brokers: "{address}", topic: {target}, delivery: {delivery}, compression: zstd}}
"""
FILTERS = {
    "filter": (f"price > {LEAST_PRICE}", re.compile(rb'"price":(\d+)')),
    "w1": ("url like '%item7%'", re.compile(rb"item7")),
}


@dataclass(slots=True)
class Bench:
    """A broker whose topic `bids` is full, and the measurements with it."""

    work: str
    records: int
    address: str
    folder: Path
    took: dict[str, list[Took]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    def measure(self, name: str, command: Callable[[str], list[str]]) -> None:
        """Run a command that writes to a new topic."""
        took = self.took.setdefault(name, [])
        target = f"out-{len(self.took)}-{len(took)}"
        Topics(self.address).create(target, PARTITIONS)
        took.append(ran(command(target)))
        rows = committed(self.address, target)
        assert self.rows.setdefault(name, rows) == rows, (name, rows, self.rows)
        Topics(self.address).delete(target)

    def pipeline(
        self, delivery: str, parallelism: int = 1, workers: int = 1, source: str = "bids"
    ) -> Callable[[str], list[str]]:
        """Return the command of the pipeline."""
        windowed = self.work == "w3"
        step = STEPS["w3"] if windowed else f"    where: {FILTERS[self.work][0]}"
        said = {
            "type": "timestamp" if windowed else "bigint",
            "every": "5s" if windowed and self.records > SMALL else "1s",
            "time": TIME if windowed else "",
        }

        def command(target: str) -> list[str]:
            named = {"address": self.address, "source": source, "target": target}
            text = PIPELINE.format(work=self.work, delivery=delivery, step=step, **said, **named)
            return headrace(self.folder, text, parallelism, workers)

        return command

    def loop(self, how: str, target: str) -> list[str]:
        """Return the command of the Python loop."""
        numbers = (self.work, str(self.records), str(LEAST_PRICE))
        return ["-m", "benchmarks.kafka_loop", how, self.address, "bids", target, *numbers]

    def least(self, name: str) -> Took:
        """Return the least times of all rounds."""
        took = self.took[name]
        return Took(min(each.wall_s for each in took), min(each.cpu_s for each in took))

    def tell(self, beside: str) -> None:
        """Print the results of each way, and their ratios to `beside`."""
        other = self.least(beside)
        for name, took in self.took.items():
            rates = ", ".join(f"{self.records / each.wall_s / 1e6:.3f}" for each in took)
            least = self.least(name)
            cost = least.cpu_s / self.records * 1e6
            ratio = f"{beside} takes {other.wall_s / least.wall_s:.2f} times as long"
            more = f"{other.cpu_s / least.cpu_s:.2f} times the CPU"
            print(f"{name}: {rates} M/s, {cost:.2f} us of CPU a record", file=sys.stderr)
            print(f"  {least.wall_s:.2f} s; {ratio}, and {more}", file=sys.stderr)


def main(work: str = "filter", records: str = "", rounds: str = "3") -> None:
    """Print the figure."""
    compile_all()
    many = int(records) if records else RECORDS[work]
    with tempfile.TemporaryDirectory() as name, Broker(Path(name) / "broker") as broker:
        bench = Bench(work, many, broker.address, Path(name))
        Topics(broker.address).create("bids", PARTITIONS)
        asyncio.run(fill(broker.address, "bids", later(many)))
        (windows if work == "w3" else filters)(bench, int(rounds))


def filters(bench: Bench, rounds: int) -> None:
    """Measure a filter, and other implementations of it."""
    Topics(bench.address).create("none", PARTITIONS)
    ways: Mapping[str, Callable[[str], list[str]]] = {
        "exactly once": bench.pipeline(ONCE),
        "exactly once, two subtasks": bench.pipeline(ONCE, 2),
        "exactly once, two workers": bench.pipeline(ONCE, 2, 2),
        "at least once": bench.pipeline(AGAIN),
        "the loop": partial(bench.loop, "tuned"),
    }
    bench.measure("the plain loop", partial(bench.loop, "plain"))
    for _ in range(rounds):
        for name, command in ways.items():
            bench.measure(name, command)
    bench.rows["the filter itself"] = expected(bench)
    assert len({*bench.rows.values()}) == 1, bench.rows
    starts = []
    for workers in (1, 2):
        start = bench.pipeline(ONCE, workers, workers, source="none")
        bench.measure("a start, and nothing to read", start)
        starts.append(bench.took.pop("a start, and nothing to read")[0])
    ours = bench.least("exactly once")
    print(f"kafka_pipelines {bench.work} {bench.records / ours.wall_s / 1e6:.3f} M records/s")
    said = ", ".join(f"{each.wall_s:.2f} s ({each.cpu_s:.2f} s of CPU)" for each in starts)
    print(f"a start with nothing to read, one process and two workers: {said}", file=sys.stderr)
    bench.tell("the loop")


def expected(bench: Bench) -> int:
    """Count the bids that pass the filter."""
    _, sought = FILTERS[bench.work]
    found = (sought.search(value) for value in later(bench.records))
    if bench.work == "w1":
        return sum(each is not None for each in found)
    return sum(each is not None and int(each[1]) > LEAST_PRICE for each in found)


def windows(bench: Bench, rounds: int) -> None:
    """Measure windows with and without transactions."""
    for _ in range(rounds):
        bench.measure("exactly once", bench.pipeline(ONCE))
        bench.measure("at least once", bench.pipeline(AGAIN))
    assert len({*bench.rows.values()}) == 1, bench.rows
    ours, other = bench.least("exactly once"), bench.least("at least once")
    print(f"kafka_pipelines w3 {ours.wall_s / other.wall_s:.3f} times the time at least once")
    bench.tell("at least once")


if __name__ == "__main__":
    main(*sys.argv[1:])
