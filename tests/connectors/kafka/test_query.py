"""`headrace query` over topics: until their end now, or following them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.cli.command_line import Headrace
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Record, Topics

PIPELINE = """
name: shop
sources:
  orders:
    kafka: {brokers: "BROKER", topic: IN}
    schema: {id: bigint, city: string}
sinks:
  out: {from: orders, console: {}}
"""


def test_a_topic_is_a_table(
    headrace: Headrace, broker: Broker, topics: Topics, fresh: Callable[..., str]
) -> None:
    topic = topics.create(fresh("orders"), 2)
    rows: list[dict[str, Any]] = [{"id": at, "city": "abc"[at % 3]} for at in range(30)]
    topics.write(topic, (Record(json.dumps(r).encode(), b"", r["id"] % 2) for r in rows))
    text = PIPELINE.replace("BROKER", broker.address).replace("IN", topic)
    Path("shop.yaml").write_text(text)
    sql = "select city, count(*) as n from TABLE group by city order by city"
    for table in ("orders", "kafka.orders", f"kafka.`{topic}`"):
        query = (sql.replace("TABLE", table), "-f", "shop.yaml", "--format", "csv")
        ran = headrace("query", *query)
        assert (ran.status, ran.err, ran.out) == (0, "", "city,n\na,10\nb,10\nc,10\n")
