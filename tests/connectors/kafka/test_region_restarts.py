"""Regions that restart alone, from topic to topic: a reader sees each row once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
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
from tests.support.kafka.topics import Topics

PIPELINES = """\
name: copied
sources:
  numbers: {generate: {rows: 16000, rate: 2000/s, columns: {id: id}}}
  copies:
    kafka: {brokers: "BROKER", topic: FIRST}
    schema: {id: bigint}
sinks:
  first: {from: numbers, kafka: {brokers: "BROKER", topic: FIRST, delivery: exactly_once, transaction_timeout: 10m}}
  second: {from: copies, kafka: {brokers: "BROKER", topic: SECOND, delivery: exactly_once, transaction_timeout: 10m}}
settings:
  workers: 2
  checkpoint: {every: 300ms}
  restart: {strategy: fixed, attempts: 50, delay: 100ms}
"""  # noqa: E501


def has_rows(topics: Topics, topic: str, count: int) -> bool:
    return len(topics.visible(topic)) >= count


def test_each_row_is_there_once_and_no_transaction_stays_open(
    tmp_path: Path, broker: Broker, topics: Topics, fresh: Callable[..., str]
) -> None:
    first, second = topics.create(fresh("first"), 2), topics.create(fresh("second"), 2)
    numbers = sorted(b'{"id":%d}' % id for id in range(16000))
    text = PIPELINES.replace("BROKER", broker.address)
    with running_job(tmp_path, text.replace("FIRST", first).replace("SECOND", second)) as job:
        wait_for_events(tmp_path, "worker_started", 2)
        for restarts, worker in enumerate((1, 2, 1), start=1):
            wait_for_events(tmp_path, "checkpoint", 2 + len(read_events(tmp_path, "checkpoint")))
            pids = {each["worker"]: each["pid"] for each in read_events(tmp_path, "worker_started")}
            os.kill(pids[worker], signal.SIGKILL)
            wait_for_events(tmp_path, "region_restarted", restarts)
        for topic in (first, second):
            wait_for(partial(has_rows, topics, topic, len(numbers)), f"rows of {topic}")
        job.send_signal(signal.SIGINT)
        assert job.wait(LONGEST_S) == 0
    assert not read_events(tmp_path, "restarting")
    for topic in (first, second):
        assert sorted(value or b"" for value in topics.values(topic)) == numbers
