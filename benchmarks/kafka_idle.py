"""The share of a core that a join of two slow topics takes: 450 records a second on each.

Every record of one has a match on the other, and is written to a third. The figure is the CPU of
the pipeline's process for a second of work, in percent of a core. On stderr: the latency of the
pairs from the producer to a consumer, and the rows of a batch.
`python -m benchmarks.kafka_idle [SECONDS] [RATE]`
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.kafka_latency import WARM_S, Bench, Latency
from benchmarks.kafka_work import headrace
from benchmarks.timing import compile_all
from tests.support.kafka.broker import Broker

PIPELINE = """
name: idle
sources:
  left: &bids
    kafka: {{brokers: "{address}", topic: {left}}}
    json: {{epoch: us}}
    schema: {{auction: bigint, bidder: bigint, price: bigint, channel: string, url: string,
             ts: timestamp}}
    event_time: ts
    watermark: {{delay: 1s, idle: 5s}}
  right:
    <<: *bids
    kafka: {{brokers: "{address}", topic: {right}}}
steps:
  pairs:
    join:
      left: left
      right: right
      on: left.auction = right.auction and left.bidder = right.bidder and left.price = right.price
      within: 2s
      type: semi
    select: {{auction: auction, price: price, ts: unix_micros(ts)}}
sinks:
  out:
    from: pairs
    kafka: {{brokers: "{address}", topic: {target}, delivery: at_least_once}}
"""


def cpu_s(process: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def main(seconds: str = "20", rate: str = "450") -> None:
    """Print the figure."""
    compile_all()
    with tempfile.TemporaryDirectory() as name, Broker(Path(name) / "broker") as broker:
        bench = Bench(broker.address, Path(name), int(rate), int(seconds))
        bench.directly("warm")  # a new broker is slow
        left, right, target = map(bench.topic, ("left", "right", "out"))
        text = PIPELINE.format(address=bench.address, left=left, right=right, target=target)
        with subprocess.Popen([sys.executable, *headrace(bench.folder, text)]) as process:
            for first in [bench.end("produce", topic, "10", "1") for topic in (left, right)]:
                first.wait()
            count = str(10 + int(rate) * int(seconds))
            consumer = bench.end("consume", target, count, str(10 + int(rate) * WARM_S))
            assert consumer.stdout is not None and consumer.stdout.readline() == "ready\n"
            producers = [bench.end("produce", topic, rate, seconds) for topic in (left, right)]
            before = cpu_s(process.pid)
            for producer in producers:
                producer.wait()
            used = cpu_s(process.pid) - before
            print(Latency(*map(float, consumer.communicate()[0].split())), file=sys.stderr)
            process.terminate()
    print(f"kafka_idle {used / int(seconds):.1%} of a core")


if __name__ == "__main__":
    main(*sys.argv[1:])
