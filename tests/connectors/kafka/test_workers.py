"""A job between topics over two workers: each reads its partitions, keys meet at one of them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tests.support.cli.worker_jobs import (
    LONGEST_S,
    read_events,
    running_job,
    wait_for,
    wait_for_events,
)
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Record, Topics

ROWS = 6000
KEYS = 7

PIPELINE = """\
name: counted
sources:
  numbers:
    kafka: {brokers: "BROKER", topic: INPUT}
    schema: {id: bigint, k: bigint}
steps:
  marked: {from: numbers, map: {python: mark.py:mark, returns: {id: bigint, reader: bigint}}}
  totals: {from: numbers, key: k, aggregate: {n: count(*), total: sum(id)}}
sinks:
  all: {from: marked, kafka: {brokers: "BROKER", topic: ALL, delivery: exactly_once}}
  counts: {from: totals, kafka: {brokers: "BROKER", topic: COUNTS, key: k, delivery: exactly_once}}
settings:
  workers: 2
  checkpoint: {every: 300ms}
  restart: {strategy: fixed, attempts: 50, delay: 100ms}
"""

MARK = """\
import os
import polars as pl

def mark(rows):
    return rows.select("id", reader=pl.lit(os.getpid(), pl.Int64))
"""


def write(topics: Topics, topic: str, ids: range) -> None:
    """Write even numbers into partition 0 and odd ones into partition 1."""
    values = {id: json.dumps({"id": id, "k": id % KEYS}).encode() for id in ids}
    topics.write(topic, [Record(value, partition=id % 2) for id, value in values.items()])


def parse(records: list[Record]) -> list[Mapping[str, int]]:
    return [json.loads(record.value or b"") for record in records]


def has_totals(topics: Topics, topic: str, count: int) -> bool:
    """Whether the last totals of all keys together have counted this number of rows."""
    return sum({row["k"]: row["n"] for row in parse(topics.visible(topic))}.values()) >= count


def test_rows_of_partitions_on_different_workers_are_counted_once(
    tmp_path: Path, broker: Broker, topics: Topics, fresh: Callable[..., str]
) -> None:
    numbers, all_rows, counts = (fresh(name) for name in ("numbers", "all", "counts"))
    for topic in (numbers, all_rows, counts):
        topics.create(topic, 2)
    (tmp_path / "mark.py").write_text(MARK)
    text = PIPELINE.replace("BROKER", broker.address).replace("INPUT", numbers)
    with running_job(tmp_path, text.replace("ALL", all_rows).replace("COUNTS", counts)) as job:
        write(topics, numbers, range(ROWS // 2))
        wait_for(partial(has_totals, topics, counts, ROWS // 2), "the first half")
        readers = [
            {row["reader"] for row in parse(topics.visible(all_rows)) if row["id"] % 2 == partition}
            for partition in range(2)
        ]
        workers = [event["pid"] for event in read_events(tmp_path, "worker_started")]
        assert [len(each) for each in readers] == [1, 1]
        assert readers[0] | readers[1] == {*workers}
        os.kill(workers[0], signal.SIGKILL)
        write(topics, numbers, range(ROWS // 2, ROWS))
        wait_for_events(tmp_path, "worker_started", 3)
        wait_for(partial(has_totals, topics, counts, ROWS), "the second half")
        job.send_signal(signal.SIGINT)
        assert job.wait(LONGEST_S) == 0
    assert sorted(row["id"] for row in parse(topics.read(all_rows))) == [*range(ROWS)]
    totals: dict[int, tuple[int, int]] = {}
    for row in parse(topics.read(counts)):
        assert row["n"] > totals.get(row["k"], (0, 0))[0]
        totals[row["k"]] = row["n"], row["total"]
    of_key = {key: range(key, ROWS, KEYS) for key in range(KEYS)}
    assert totals == {key: (len(ids), sum(ids)) for key, ids in of_key.items()}
