"""A table as Debezium envelopes in a topic, as an independent client reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.cli.processes import finished
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Topics

PIPELINE = """\
name: shop
sources:
  rows:
    files: {path: in.jsonl}
    schema: {id: bigint, city: string, amount: bigint}
steps:
  latest: {from: rows, dedup: {key: id, keep: last}}
  cities: {from: latest, key: city, aggregate: {total: sum(amount)}, having: total > 10}
sinks:
  out:
    from: cities
    kafka: {brokers: "BROKER", topic: TOPIC, delivery: exactly_once}
    format: debezium_json
settings: {parallelism: 3, checkpoint: {every: 1s}}
"""
ROWS: list[dict[str, Any]] = [
    *({"id": at, "city": f"c{at % 7}", "amount": at} for at in range(100)),
    *({"id": at, "city": f"c{at % 5}", "amount": at % 3} for at in range(0, 100, 2)),
]
WANTED = {
    f"c{city}": sum(
        row["amount"]
        for row in {row["id"]: row for row in ROWS}.values()
        if row["city"] == f"c{city}"
    )
    for city in range(7)
}


def test_the_envelopes_of_a_topic_give_the_table(
    tmp_path: Path,
    broker: Broker,
    topics: Topics,
    fresh: Callable[..., str],
) -> None:
    topic = topics.create(fresh("cities"), 3)
    text = PIPELINE.replace("BROKER", broker.address).replace("TOPIC", topic)
    (tmp_path / "p.yaml").write_text(text)
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    done = finished(tmp_path, "p.yaml")
    assert done.returncode == 0, done.stderr
    table: dict[Any, Any] = {}
    numbers: dict[Any, int] = {}
    for record in topics.visible(topic):
        key = json.loads(record.key or b"")["city"]
        if record.value is None:
            assert key not in table
            continue
        change = json.loads(record.value)
        assert change["source"]["table"] == "cities"
        assert numbers.get(key, 0) < change["source"]["sequence"]
        numbers[key] = change["source"]["sequence"]
        assert change["before"] == table.pop(key, None)
        assert (
            change["op"]
            == {(True, False): "c", (False, False): "u", (False, True): "d"}[
                change["before"] is None, change["after"] is None
            ]
        )
        if change["after"] is not None:
            table[key] = change["after"]
    assert {key: row["total"] for key, row in table.items()} == {
        key: total for key, total in WANTED.items() if total > 10
    }
