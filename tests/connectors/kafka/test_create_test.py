"""`headrace test --create` reads topics without a trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli.pipeline_tests import source_sample
from tests.support.cli.command_line import Headrace
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Record, Topics

PIPELINE = """
name: shop
sources:
  orders:
    kafka: {brokers: "BROKER", topic: IN, group: GROUP}
    schema: {id: bigint, city: string}
sinks:
  out: {from: orders, console: {}}
"""


@pytest.mark.parametrize("count", [3, 30])
def test_a_test_is_made_of_the_first_rows_of_a_topic(
    headrace: Headrace,
    broker: Broker,
    topics: Topics,
    fresh: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
) -> None:
    topic = topics.create(fresh("orders"), 1)
    rows = [{"id": at, "city": "abc"[at % 3]} for at in range(6)]
    topics.write(topic, (Record(json.dumps(row).encode(), b"", 0) for row in rows))
    text, group = PIPELINE.replace("BROKER", broker.address), fresh("group")
    Path("shop.yaml").write_text(text.replace("IN", topic).replace("GROUP", group), "utf-8")
    monkeypatch.setattr(source_sample, "PATIENCE_S", 2.0)
    for name in ("", ", 2"):
        ran = headrace("test", "shop.yaml", "--create", str(count))
        assert (ran.status, ran.err) == (0, ""), ran.out + ran.err
        first = f"the first {min(count, 6)} rows{name}"
        assert ran.out.startswith(f"created: {first}\n")
    made = Path("shop.test.yaml").read_text("utf-8")
    assert topics.committed(group, topic) == {}
    assert made.count("          - {id: 0, city: a}\n          - {id: 1, city: b}\n") == 2
    assert headrace("test").err.startswith("2 tests: 2 passed")
