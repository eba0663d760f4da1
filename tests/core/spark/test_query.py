"""`headrace query --batch` prints the rows of a query that runs as tasks."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.cli.command_line import Headrace, headrace

__all__ = ["headrace"]

PAID = "'orders.jsonl' as o join cities.csv as c on o.city = c.city"


def test_rows_are_those_of_tasks(spark: SparkSession, headrace: Headrace) -> None:
    orders = [
        {"id": at, "city": "abc"[at % 3], "amount": at, "at": f"2026-01-31T08:00:{at:02}Z"}
        for at in range(20)
    ]
    Path("orders.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in orders))
    headrace("query", "select city, 'AT' as land from orders.jsonl limit 2", "--to", "cities.csv")
    before = {*Path.cwd().rglob("*")}
    sql = (
        f"select c.land, sum(amount / 3) as paid, max(at) as last from {PAID} group by c.land "
        "union all select city, id, at from orders.jsonl where id % 3 = 0 order by paid, 1 limit 5"
    )
    ran = headrace("query", sql, "--format", "json", "--batch")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == headrace("query", sql, "--format", "json").out != ""
    assert {*Path.cwd().rglob("*")} == before


def test_rows_of_the_text_are_those_of_tasks(spark: SparkSession, headrace: Headrace) -> None:
    sql = (
        "with t(id, name, price) as (values (1, 'a', null), (2L, null, 2.5), (3, 'c', 1.25d))\n"
        "select t.*, s.x from t left join (select 1 as x union all values 3) s on s.x = t.id\n"
        "where exists (select 1 from (values 1) v) and id not in (values 2) order by id"
    )
    ran = headrace("query", sql, "--format", "json", "--batch")
    assert ran.status == 0, ran.err
    assert ran.out == headrace("query", sql, "--format", "json").out != ""
    rows = [tuple(json.loads(line).values()) for line in ran.out.splitlines()]
    assert rows == [tuple(row) for row in spark.sql(sql).collect()]


def test_bad_records_are_left_out_and_counted(spark: SparkSession, headrace: Headrace) -> None:
    Path("orders.jsonl").write_text('{"id": 7}\n' * 40 + '{"id": "four"}\n{"id": \n')
    sql = "select sum(id) as n from orders.jsonl"
    ran = headrace("query", sql, "--skip-bad", "--format", "csv", "--batch")
    assert (ran.status, ran.out) == (0, "n\n280\n")
    assert ran.err.endswith("orders.jsonl: left out 2 bad records\n")
