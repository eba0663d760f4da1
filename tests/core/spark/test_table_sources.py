"""A source that is a table is the same table in a batch as in a stream."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from headrace.core.operators.indistinct_rows import IndistinctRows
from headrace.core.spark.errors import to_failure
from tests.support.spark.batches import batch, read_columns, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """
name: tables
sources:
  cities:
    files: {path: in}
    schema: {id: bigint, city: string, seq: bigint, at: timestamp}
    event_time: at
    table: TABLE
    on_error: {to: bad}
steps:
  counts: {from: cities, key: city, aggregate: {n: count(*), most: max(id)}}
sinks:
  rows: {from: cities, files: {path: rows, mode: overwrite}}
  out: {from: counts, files: {path: out, mode: overwrite}}
  letters: {from: bad, files: {path: letters, mode: overwrite}}
"""
KINDS = [None, None, "insert", "update_after", "update_before", "delete", "truncate"]


def changes(chance: random.Random, count: int) -> list[dict[str, Any]]:
    found = []
    for at in range(count):
        row: dict[str, Any] = {"id": chance.randrange(9), "seq": chance.choice([None, *range(8)])}
        kind = chance.choice(KINDS)
        if kind != "delete" or chance.random() < 0.5:
            row |= {"city": chance.choice("abc"), "at": f"2026-01-01T00:00:{at % 60:02}Z"}
        found.append(row | ({"_change": kind} if kind else {}))
    return found


DEBEZIUM = """
name: shop
sources:
  orders:
    files: {path: in}
    format: debezium_json
    schema: {id: bigint, city: string, amount: "decimal(10,2)"}
    table: {key: id, sequence: source.lsn}
    event_time: timestamp_millis(source.ts_ms)
steps:
  cities: {from: orders, key: city, aggregate: {n: count(*), total: sum(amount)}}
sinks:
  out: {from: cities, files: {path: out, mode: overwrite}}
"""


def test_messages_of_debezium_are_the_same_table_in_a_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = tmp_path / "shop.yaml"
    config.write_text(DEBEZIUM)
    (tmp_path / "in").mkdir()
    chance, lsns = random.Random(3), list(range(60))
    chance.shuffle(lsns)
    for at in range(2):
        lines = []
        for lsn in lsns[at::2]:
            id, amount = chance.randrange(9), f"{chance.randrange(100)}.50"
            row = {"id": id, "city": chance.choice("abc"), "amount": amount}
            op = chance.choice("crudd")
            parts = {"before": {"id": id}} if op == "d" else {"after": row}
            message = {"op": op, "source": {"lsn": lsn, "ts_ms": lsn}, **parts}
            lines += [json.dumps(message), '{"ts_ms": 1}']
        (tmp_path / f"in/{at}.jsonl").write_text("\n".join(lines))
    found = []
    for run in (lambda: stream(config), lambda: batch(spark, config)):
        run()
        found.append(table_of(tmp_path / "out", "city"))
    assert found[0] == found[1]
    assert found[0]


@pytest.mark.parametrize("table", ["{key: id, sequence: seq, ttl: 365d}", "{key: [id]}"])
def test_a_table_is_the_same_in_a_batch_as_in_a_stream(
    spark: SparkSession, tmp_path: Path, table: str
) -> None:
    config = tmp_path / "tables.yaml"
    config.write_text(PIPELINE.replace("TABLE", table))
    (tmp_path / "in").mkdir()
    chance = random.Random(table)
    for at in range(3):
        text = "\n".join(map(json.dumps, changes(chance, 40)))
        (tmp_path / f"in/{at}.jsonl").write_text(text)
    found = []
    for run in (lambda: stream(config), lambda: batch(spark, config)):
        run()
        letters = read_columns(tmp_path / "letters", "error", "raw")
        found.append(
            (table_of(tmp_path / "rows", "id"), table_of(tmp_path / "out", "city"), letters)
        )
    assert found[0] == found[1]
    assert all(map(len, found[0]))


ORDERED = """
name: ordered
sources:
  cities:
    files: {path: in}
    format: FORMAT
    schema: {id: bigint, city: string, seq: bigint, at: timestamp}
    event_time: at
    table: {key: id, sequence: "SEQUENCE"}
steps:
  lists:
    from: cities
    key: city
    aggregate: {ids: collect_list(id), one: first(id), other: last(id)}
sinks:
  out: {from: lists, files: {path: out, mode: overwrite}}
"""


@pytest.mark.parametrize(
    "sequence",
    [
        "seq",
        "timestamp_millis(seq - 4)",
        "cast(timestamp_millis(seq - 4) as timestamp_ntz)",
        "date_add(date '1970-01-01', cast(seq as int) - 4)",
    ],
)
@pytest.mark.parametrize("format", ["parquet", "json"])
def test_rows_go_by_the_sequence_of_their_table_in_a_batch(
    spark: SparkSession, tmp_path: Path, sequence: str, format: str
) -> None:
    config = tmp_path / "ordered.yaml"
    config.write_text(ORDERED.replace("SEQUENCE", sequence).replace("FORMAT", format))
    (tmp_path / "in").mkdir()
    chance = random.Random(sequence)
    schema = {
        "id": pl.Int64(),
        "city": pl.String(),
        "seq": pl.Int64(),
        "at": pl.Datetime("us", "UTC"),
    }
    newest: dict[int, tuple[int, int, int, str]] = {}
    for file in range(2):
        rows = [
            (chance.randrange(30), chance.choice("ab"), chance.randrange(9), at)
            for at in (datetime(2026, 1, 1, second=n, tzinfo=UTC) for n in range(40))
        ]
        frame = pl.DataFrame(rows, schema, orient="row")
        path = tmp_path / f"in/{file}.{format}"
        if format == "parquet":
            frame.write_parquet(path)
        else:
            frame.with_columns(pl.col("at").dt.to_string("iso:strict")).write_ndjson(path)
        for at, (id, city, seq, _) in enumerate(rows):
            change = (seq, file, at, city)
            newest[id] = max(newest.get(id, change), change)
    ids = sorted(newest, key=lambda id: newest[id][:3])
    lists = {city: [id for id in ids if newest[id][3] == city] for city in "ab"}
    for run in (lambda: stream(config), lambda: batch(spark, config)):
        run()
        found = table_of(tmp_path / "out", "city")
        assert {city: row["ids"] for city, row in found.items()} == lists
        ends = {city: [row["one"], row["other"]] for city, row in found.items()}
        assert ends == {city: [ids[0], ids[-1]] for city, ids in lists.items()}


VERSIONS = """
name: versions
settings: {parallelism: PARALLELISM}
sources:
  orders:
    files: {path: orders}
    schema: {id: bigint, number: bigint, at: timestamp}
    event_time: at
  cities:
    files: {path: in}
    schema: {id: bigint, city: string, seq: bigint, at: timestamp}
    event_time: at
    watermark: {delay: 1h}
    table: TABLE
    on_error: {to: bad}
steps:
  some: {from: cities, where: city <> 'c', with: {town: upper(city)}}
  all:
    join: {left: orders, right: cities, on: orders.id = cities.id, as_of: true, type: left}
    select: {number: number, city: city, seq: seq}
  met:
    join: {left: orders, right: {from: some, as: c}, on: orders.id = c.id, as_of: true, ttl: 9s}
    select: {number: number, town: town}
sinks:
  out: {from: all, files: {path: out, mode: overwrite}}
  met_out: {from: met, files: {path: met, mode: overwrite}}
  rows: {from: cities, files: {path: rows, mode: overwrite}}
  letters: {from: bad, files: {path: letters, mode: overwrite}}
"""


@pytest.mark.parametrize(
    ("table", "parallelism"), [("{key: id, sequence: seq}", 3), ("{key: [id]}", 1)]
)
def test_as_of_sees_the_same_versions_of_a_table_in_a_batch(
    spark: SparkSession, tmp_path: Path, table: str, parallelism: int
) -> None:
    config = tmp_path / "versions.yaml"
    text = VERSIONS.replace("TABLE", table).replace("PARALLELISM", str(parallelism))
    config.write_text(text)
    chance = random.Random(f"{table} {parallelism}")
    write_changes_and_orders(tmp_path, chance)
    found = []
    for run in (lambda: stream(config), lambda: batch(spark, config)):
        run()
        found.append(
            (
                read_columns(tmp_path / "out", "number", "city", "seq"),
                read_columns(tmp_path / "met", "number", "town"),
                table_of(tmp_path / "rows", "id"),
                read_columns(tmp_path / "letters", "error", "raw"),
            )
        )
    assert found[0] == found[1]
    assert all(map(len, found[0]))
    assert sum(1 for number, city, seq in found[0][0] if city is not None) > 20


VALUES = """
name: values
settings: {parallelism: PARALLELISM}
sources:
  orders:
    files: {path: orders}
    schema: {id: bigint, number: bigint, at: timestamp}
    event_time: at
    watermark: {delay: 1h}
  cities:
    files: {path: in}
    schema: {id: bigint, city: string, seq: bigint, at: timestamp}
    event_time: at
    watermark: {delay: 1h}
    table: {key: id, sequence: seq}
    on_error: skip
steps:
  placed:
    from: cities
    lookup: {file: {path: lands.csv}, on: [city], add: [land], on_miss: drop}
  shouted:
    from: placed
    map: {python: "m.py:shout", mode: row, returns: {id: bigint, land: string, at: timestamp}}
  lands: {from: shouted, key: land, aggregate: {n: count(*), most: max(id)}}
  near:
    join: {left: orders, right: cities, on: number % 8 = cities.seq, type: full, ttl: 5s}
    select: {number: number, city: city}
  cities_near: {from: near, key: city, aggregate: {n: count(*), total: sum(number)}}
sinks:
  out: {from: lands, files: {path: out, mode: overwrite}}
  pairs: {from: cities_near, files: {path: pairs, mode: overwrite}}
"""


@pytest.mark.parametrize("parallelism", [1, 3])
def test_values_of_tables_and_joins_with_a_ttl_are_the_same_in_a_batch(
    spark: SparkSession, tmp_path: Path, parallelism: int
) -> None:
    config = tmp_path / "values.yaml"
    config.write_text(VALUES.replace("PARALLELISM", str(parallelism)))
    (tmp_path / "lands.csv").write_text("city,land\na,AT\nb,IT\n")
    (tmp_path / "m.py").write_text(
        "def shout(row):\n"
        "    if row['id'] == 3:\n        return None\n"
        "    return {'id': row['id'], 'land': row['land'] + '!', 'at': row['at']}\n"
    )
    chance = random.Random(parallelism + 4)
    write_changes_and_orders(tmp_path, chance)
    found = []
    for run in (lambda: stream(config), lambda: batch(spark, config)):
        run()
        found.append((table_of(tmp_path / "out", "land"), table_of(tmp_path / "pairs", "city")))
    assert found[0] == found[1]
    assert all(map(len, found[0]))


def write_changes_and_orders(folder: Path, chance: random.Random) -> None:
    """Write files of changes and of orders."""
    for name in ("in", "orders"):
        (folder / name).mkdir()
    for at in range(3):
        (folder / f"in/{at}.jsonl").write_text("\n".join(map(json.dumps, changes(chance, 40))))
    orders = [
        {"id": chance.randrange(9), "number": at, "at": f"2026-01-01T00:00:{at % 60:02}Z"}
        for at in range(120)
    ]
    (folder / "orders/0.jsonl").write_text("\n".join(map(json.dumps, orders)))


WRITE_FULL = """
name: write
settings: {parallelism: 2}
sources:
  cities:
    files: {path: in}
    schema: {id: bigint, city: string, seq: bigint}
    table: {key: id, sequence: seq}
sinks:
  out: {from: cities, format: FORMAT, files: {path: full, changelog: full, roll: {rows: 7}}}
"""
READ_FULL = """
name: read
settings: {parallelism: 3}
sources:
  cities:
    files: {path: full}
    format: FORMAT
    schema: {id: bigint, city: string, _sequence: bigint}
    table: {key: id, sequence: _sequence}
sinks:
  out: {from: cities, files: {path: out, mode: overwrite}}
"""


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_full_changelog_reads_back_as_the_same_table(
    spark: SparkSession, tmp_path: Path, format: str
) -> None:
    write, read = tmp_path / "write.yaml", tmp_path / "read.yaml"
    write.write_text(WRITE_FULL.replace("FORMAT", format))
    read.write_text(READ_FULL.replace("FORMAT", format))
    (tmp_path / "in").mkdir()
    chance, wanted = random.Random(format), dict[object, str]()
    for at in range(4):
        lines = []
        for seq in range(at * 50, at * 50 + 50):
            id, city = chance.randrange(9), chance.choice("abc")
            deletes = chance.random() < 0.3
            wanted[id] = city
            if deletes:
                del wanted[id]
            lines.append(json.dumps({"id": id, "city": city, "seq": seq, "_delete": deletes}))
        (tmp_path / f"in/{at}.jsonl").write_text("\n".join(lines))
    stream(write)
    for run in (lambda: stream(read), lambda: batch(spark, read)):
        run()
        found = {id: row["city"] for id, row in table_of(tmp_path / "out", "id").items()}
        assert found == wanted


def table_of(folder: Path, key: str) -> dict[object, dict[str, object]]:
    """Return the table that written changes make."""
    table: dict[object, dict[str, object]] = {}
    for part in sorted(folder.glob("*.jsonl")):
        for row in map(json.loads, part.read_text().splitlines()):
            table[row[key]] = row
            if row["_delete"]:
                del table[row[key]]
    return table


FULL = """
name: full
sources:
  a: {files: {path: a.jsonl}, schema: {id: bigint, v: string}}
  b: {files: {path: b.jsonl}, schema: {id: bigint, w: string}}
steps:
  mine: {from: a, dedup: {key: id, keep: last}}
  theirs: {from: b, dedup: {key: id, keep: last}}
  joined:
    join: {left: mine, right: theirs, on: CONDITION, type: full}
    select: {i: mine.id, v: v, j: theirs.id, w: w}
sinks:
  out: {from: joined, files: {path: out, mode: overwrite}}
"""


@pytest.mark.parametrize("condition", ["mine.id = theirs.id", "mine.v = theirs.w"])
def test_two_rows_of_a_full_join_with_one_key_fail_in_a_batch_as_in_a_stream(
    spark: SparkSession, tmp_path: Path, condition: str
) -> None:
    config = tmp_path / "full.yaml"
    config.write_text(FULL.replace("CONDITION", condition))
    (tmp_path / "a.jsonl").write_text('{"id": 1, "v": "x"}\n{"id": null, "v": "y"}\n')
    (tmp_path / "b.jsonl").write_text('{"id": 1, "w": "x"}\n')
    batch(spark, config)
    assert len(table_of(tmp_path / "out", "v")) == 2
    (tmp_path / "b.jsonl").write_text('{"id": 1, "w": "x"}\n{"id": null, "w": "z"}\n')
    with pytest.raises(Exception, match="key of nulls") as failed:
        batch(spark, config)
    failure = to_failure(failed.value)
    assert (failure.message, failure.step) == (str(IndistinctRows()), "joined")
