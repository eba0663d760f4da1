"""Topics with the changes of a table: tombstones delete rows, and our own output reads back."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli.command_line import Headrace
from tests.support.cli.processes import start
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Record, Topics

Fresh = Callable[..., str]
Table = dict[str, dict[str, Any]]

CITIES = """
name: cities
settings: {parallelism: 2, checkpoint: {every: 50ms}}
sources:
  customers:
    kafka: {brokers: "BROKER", topic: IN}
    schema: {id: string, city: string not null}
    table: {key: id}
steps:
  cities: {from: customers, key: city, aggregate: {n: count(*)}}
sinks:
  copy: {from: customers, kafka: {brokers: "BROKER", topic: COPY, delivery: exactly_once}}
  out: {from: cities, kafka: {brokers: "BROKER", topic: CITIES, delivery: exactly_once}}
"""

BACK = """
name: back
sources:
  copy:
    kafka: {brokers: "BROKER", topic: COPY, stop: latest}
    schema: {SCHEMA}
    table: {key: KEY}
sinks:
  out: {from: copy, files: {path: back}}
"""


def changes(chance: random.Random, count: int, table: dict[str, str]) -> Iterator[Record]:
    """Yield changes of customers, and apply them to the table; a key is in one partition."""
    for _ in range(count):
        number = chance.randrange(30)
        key, partition = f"c{number}", number % 3
        if chance.random() < 0.3:
            table.pop(key, None)
            yield Record(None, key.encode(), partition)
        else:
            table[key] = chance.choice(["Wien", "Roma", "Bonn"])
            value = json.dumps({"id": key, "city": table[key]}).encode()
            yield Record(value, key.encode(), partition)


def table_in(topics: Topics, topic: str) -> Table:
    """Return the table that the records of a topic make."""
    table: Table = {}
    for record in topics.visible(topic):
        key = (record.key or b"").decode()
        table.pop(key, None)
        if record.value is not None:
            table[key] = json.loads(record.value)
    return table


def lines(folder: Path) -> list[dict[str, Any]]:
    parts = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_text().splitlines()]


def test_a_table_of_tombstones_survives_kills_and_reads_back(
    headrace: Headrace, tmp_path: Path, broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    source, copy, cities = fresh("in"), fresh("copy"), fresh("cities")
    for topic, partitions in ((source, 3), (copy, 2), (cities, 1)):
        topics.create(topic, partitions)
    names = {"IN": source, "COPY": copy, "CITIES": cities, "BROKER": broker.address}
    (tmp_path / "p.yaml").write_text(_replaced(CITIES, names))
    chance, table = random.Random(5), dict[str, str]()
    for _ in range(2):
        topics.write(source, changes(chance, 300, table))
        process = start(tmp_path, "--quiet", "p.yaml")
        before = len(_manifests(tmp_path))
        while len(_manifests(tmp_path)) == before or not topics.visible(cities):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.kill()
        process.communicate()
    topics.write(source, changes(chance, 300, table))
    wanted = {key: {"id": key, "city": city} for key, city in table.items()}
    counts = {city: {"city": city, "n": n} for city, n in Counter(table.values()).items()}
    process = start(tmp_path, "--quiet", "p.yaml")
    while table_in(topics, copy) != wanted or table_in(topics, cities) != counts:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.terminate()
    process.communicate()
    assert table_in(topics, copy) == wanted
    assert table_in(topics, cities) == counts
    schema = {"SCHEMA": "id: string, city: string not null", "KEY": "id"}
    (tmp_path / "b.yaml").write_text(_replaced(BACK, names | schema))
    ran = headrace("run", "--quiet", str(tmp_path / "b.yaml"))
    assert ran.status == 0, ran.err
    back: dict[str, str] = {}
    for row in lines(tmp_path / "back"):
        back[row["id"]] = row["city"]
        if row["_delete"]:
            del back[row["id"]]
    assert back == table


@pytest.mark.parametrize(
    ("schema", "key", "keys"),
    [
        ("id: bigint, v: string", "id", (b"1", b"2")),
        ("id: bigint, v: string", "id", (b'{"id":1}', b'{"schema": {}, "payload": {"id": 2}}')),
        (
            "id: int, day: date, v: string",
            "[id, day]",
            (b'{"id":1,"day":"2026-01-01"}', b'{"day":"2026-01-02","id":2}'),
        ),
    ],
)
def test_the_key_of_a_tombstone_is_that_of_the_row(
    headrace: Headrace,
    tmp_path: Path,
    broker: Broker,
    topics: Topics,
    fresh: Fresh,
    schema: str,
    key: str,
    keys: tuple[bytes, ...],
) -> None:
    topic = topics.create(fresh())
    rows = [
        {"id": at, "v": "x"} | ({"day": f"2026-01-0{at}"} if "day" in schema else {})
        for at in (1, 2, 3)
    ]
    values = [Record(json.dumps(row).encode()) for row in rows]
    topics.write(topic, [*values, *(Record(None, each) for each in keys)])
    names = {"COPY": topic, "BROKER": broker.address, "SCHEMA": schema, "KEY": key}
    (tmp_path / "b.yaml").write_text(_replaced(BACK, names))
    ran = headrace("run", "--quiet", str(tmp_path / "b.yaml"))
    assert ran.status == 0, ran.err
    rest: dict[int, bool] = {}
    for row in lines(tmp_path / "back"):
        rest[row["id"]] = row["_delete"]
    assert [id for id, deleted in rest.items() if not deleted] == [3]


def test_messages_of_debezium_are_changes_and_heartbeats_are_counted(
    headrace: Headrace, tmp_path: Path, broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    rows = [
        {"op": "r", "after": {"id": 1, "v": "a"}, "source": {"lsn": 1}},
        {"op": "u", "before": {"id": 1}, "after": {"id": 2, "v": "b"}, "source": {"lsn": 2}},
        {"ts_ms": 5},
        {"op": "c", "after": {"id": 3, "v": "c"}, "source": {"lsn": 3}},
        {"op": "d", "before": {"id": 3}, "source": {"lsn": 4}},
        {"op": "u", "after": {"id": 3, "v": "old"}, "source": {"lsn": 3}},
    ]
    values = [Record(json.dumps(row).encode()) for row in rows]
    topics.write(topic, [*values, Record(None, b'{"id": 3}')])
    names = {"COPY": topic, "BROKER": broker.address, "SCHEMA": "id: bigint, v: string"}
    table = "[id], sequence: source.lsn}\n    format: debezium_json #"
    (tmp_path / "b.yaml").write_text(_replaced(BACK, names | {"KEY": table}))
    ran = headrace("run", str(tmp_path / "b.yaml"))
    assert ran.status == 0, ran.err
    assert "2 records without a row left out in total" in ran.err
    rest = {row["id"]: (row["v"], row["_delete"]) for row in lines(tmp_path / "back")}
    assert rest.pop(2) == ("b", False)
    assert all(deleted for _, deleted in rest.values())


def test_a_tombstone_whose_key_is_no_key_of_the_table_fails_the_job(
    headrace: Headrace, tmp_path: Path, broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    topics.write(topic, [Record(b'{"id":1,"v":"x"}'), Record(None, b"one")])
    names = {"COPY": topic, "BROKER": broker.address, "SCHEMA": "id: bigint, v: string"}
    (tmp_path / "b.yaml").write_text(_replaced(BACK, names | {"KEY": "id"}))
    ran = headrace("run", "--quiet", str(tmp_path / "b.yaml"))
    assert ran.status == 1
    assert "no value, and the key of the record cannot be read" in ran.err
    assert 'wanted bigint, got "one"' in ran.err


def _manifests(folder: Path) -> list[Path]:
    return [*(folder / ".headrace/cities/checkpoints/manifests").glob("*")]


def _replaced(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(name, value)
    return text
