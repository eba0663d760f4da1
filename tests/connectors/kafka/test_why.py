"""What is found of a job whose topics have an idle partition, too few partitions, or no records."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.cli.control.client import JobClient, NoAnswer, NotListening
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.support.cli.command_process import start_headrace
from tests.support.cli.processes import limited
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Record, Topics

PIPELINE = """
name: stuck
sources:
  orders:
    kafka: {brokers: "BROKER", topic: ORDERS}
    schema: {id: bigint, at: timestamp}
    event_time: at
  closed: {kafka: {brokers: "BROKER", topic: CLOSED}, schema: {id: bigint}}
steps: {n: {from: orders, window: {tumble: 5s}, aggregate: {n: count(*)}}}
sinks:
  out: {from: n, files: {path: out}}
  rest: {from: closed, files: {path: rest}}
settings: {parallelism: 3}
"""
CAUSES = {"idle_split", "subtasks_without_splits", "no_rows"}
POLL_S = 0.5


def test_a_job_that_waits_for_partitions_is_told_which(
    broker: Broker, topics: Topics, fresh: Callable[..., str], tmp_path: Path
) -> None:
    orders, closed = topics.create(fresh("orders"), 2), topics.create(fresh("closed"), 3)
    text = PIPELINE.replace("BROKER", broker.address)
    text = text.replace("ORDERS", orders).replace("CLOSED", closed)
    (tmp_path / "stuck.yaml").write_text(text)
    with (tmp_path / "log").open("w") as log:
        process = limited(start_headrace("run", "stuck.yaml", cwd=tmp_path, stdout=log, stderr=log))
    client = JobClient(Home(LocalDisk(), str(tmp_path / ".headrace"), "stuck"))
    second, found = 0, dict[tuple[str, str], Any]()
    topics.write(orders, [describe_order(0, 1)])
    try:
        while {cause for cause, _ in found} != CAUSES | {"windows_wait"}:
            assert process.poll() is None, (tmp_path / "log").read_text()
            second += 1
            topics.write(orders, [describe_order(second, 0)])
            try:
                status, document = client.send_request("GET", "/v1/findings")
            except (NotListening, NoAnswer):
                continue
            if status == 200:
                found = {(each["cause"], each["part"]): each for each in document["findings"]}
            time.sleep(POLL_S)
    finally:
        process.kill()
        process.wait()
    idle = found["idle_split", "orders"]
    assert idle["message"].startswith(f"split {orders}-1 has no rows and holds the watermark at ")
    assert idle["message"].endswith("while others are further; n waits for it")
    assert idle["setting"] == "`watermark: {idle: 30s}` of source orders"
    empty = found["subtasks_without_splits", "orders"]
    assert empty["message"].startswith("1 of 3 subtasks has no split to read: there are 2 splits")
    none = found["no_rows", "closed"]
    assert none["message"] == "no row yet; its 3 splits are read to the end"
    assert "`topic:`" in none["setting"]


def describe_order(second: int, partition: int) -> Record:
    """Return a record with a time."""
    row = {"id": second, "at": f"2026-01-31T08:{second // 60:02}:{second % 60:02}Z"}
    return Record(json.dumps(row).encode(), None, partition)
