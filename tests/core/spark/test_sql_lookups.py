"""Lookups in queries give the same rows as a stream and in batch, of facts and of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.spark.batches import batch, read_columns, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """
name: lookups
settings: {parallelism: PARALLELISM}
sources:
  orders:
    files: {path: orders.jsonl}
    schema: {id: bigint, customer: string, amount: bigint, at: timestamp}
    event_time: at
  customers:
    files: {path: customers.jsonl}
    schema: {id: string, city: string, at: timestamp}
    event_time: at
    table: {key: id}
steps:
  named:
    lookups:
      lands: {file: {path: lands.csv}, on: [city], add: {land: string, size: bigint}}
      names: {file: {path: names.csv}, on: [id], add: {id: string, city: string}}
    sql: |
      select o.id, n.id as customer, n.city, l.land
      from orders o
      left join names for system_time as of current_timestamp() as n on n.id = o.customer
      left join lands for system_time as of current_timestamp() as l on l.city = n.city
      where coalesce(l.size, 9) > 1
  per_minute:
    lookups:
      names: {file: {path: names.csv}, on: [id], add: {city: string}}
    sql: |
      select n.city, count(*) as n, window_end as ends
      from orders join names for system_time as of current_timestamp() as n on n.id = customer
      group by n.city, tumble(at, interval 1 minute)
  per_land:
    lookups:
      lands: {file: {path: lands.csv}, on: [city], add: {land: string, size: bigint}}
    sql: |
      select l.land, count(*) as customers, sum(l.size) as total
      from customers c
      join lands for system_time as of current_timestamp() as l on l.city = c.city
      group by l.land
sinks:
  a: {from: named, files: {path: out/named, mode: overwrite}}
  b: {from: per_minute, files: {path: out/per_minute, mode: overwrite}}
  c: {from: per_land, files: {path: out/per_land, mode: overwrite, changelog: full}}
"""


@pytest.mark.parametrize("parallelism", [1, 3])
def test_lookups_of_queries_give_the_same_rows_in_a_batch(
    quick: SparkSession, tmp_path: Path, parallelism: int
) -> None:
    config = tmp_path / "lookups.yaml"
    config.write_text(PIPELINE.replace("PARALLELISM", str(parallelism)))
    (tmp_path / "lands.csv").write_text("city,land,size\nWien,AT,2\nGraz,AT,1\nRoma,IT,3\n")
    (tmp_path / "names.csv").write_text("id,city\nann,Wien\nbob,Graz\ncat,Oslo\n")
    (tmp_path / "orders.jsonl").write_text(
        "".join(
            f'{{"id": {n}, "customer": "{name}", "amount": {n}, "at": "2026-01-01T00:0{n}:00Z"}}\n'
            for n, name in enumerate(["ann", "bob", "cat", "dan", "ann"])
        )
    )
    (tmp_path / "customers.jsonl").write_text(
        "".join(
            f'{{"id": "{name}", "city": "{city}", "at": "2026-01-01T00:00:0{n}Z"}}\n'
            for n, (name, city) in enumerate(
                [
                    ("ann", "Wien"),
                    ("bob", "Graz"),
                    ("cat", "Oslo"),
                    ("ann", "Roma"),
                    ("eva", "Wien"),
                ]
            )
        )
    )
    out = tmp_path / "out"
    for run in (lambda: stream(config), lambda: batch(quick, config)):
        run()
        assert read_columns(out / "named", "id", "customer", "city", "land") == [
            (0, "ann", "Wien", "AT"),
            (2, "cat", "Oslo", None),
            (3, None, None, None),
            (4, "ann", "Wien", "AT"),
        ]
        assert [row[:2] for row in read_columns(out / "per_minute", "city", "n", "ends")] == [
            ("Graz", 1),
            ("Oslo", 1),
            ("Wien", 1),
            ("Wien", 1),
        ]
        left = dict[object, int]()
        for land, customers, total, change in read_columns(
            out / "per_land", "land", "customers", "total", "_change"
        ):
            row = (land, customers, total)
            left[row] = left.get(row, 0) + (-1 if change in ("delete", "update_before") else 1)
        assert {row for row, count in left.items() if count} == {("AT", 2, 3), ("IT", 1, 3)}
