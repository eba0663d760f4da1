"""`headrace query --batch` prints the rows of a query that runs as tasks."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
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


def test_files_with_different_columns_and_folders_are_read_as_by_tasks(
    spark: SparkSession, headrace: Headrace
) -> None:
    frames: dict[str, dict[str, list[object]]] = {
        "city=Oslo/1": {"id": [1, 2], "paid": [7, None], "name": ["a", "b"]},
        "city=a%2Fb/2": {"note": ["x"], "id": [3], "paid": [1.5]},
        "city=__HIVE_DEFAULT_PARTITION__/3": {"id": [4]},
    }
    for name, columns in frames.items():
        path = Path("in", name)
        path.parent.mkdir(parents=True)
        pl.DataFrame(columns).write_parquet(f"{path}.parquet")
        Path("lines", path).parent.mkdir(parents=True)
        pl.DataFrame(columns).write_ndjson(f"lines/{path}.jsonl")
    for folder in ("in", "lines"):
        sql = f"select city, id, paid, name, note from {folder} order by id"
        ran = headrace("query", sql, "--format", "csv", "--batch")
        assert (ran.status, ran.err) == (0, "")
        assert ran.out == headrace("query", sql, "--format", "csv").out
        rows = "Oslo,1,7.0,a,\nOslo,2,,b,\na/b,3,1.5,,x\n,4,,,\n"
        assert ran.out == f"city,id,paid,name,note\n{rows}"
    sql = "select city, count(*) as n from in group by city order by n desc, city"
    ran = headrace("query", sql, "--format", "csv", "--batch")
    assert ran.out == "city,n\nOslo,2\n,1\na/b,1\n", ran.err


def test_bad_records_are_left_out_and_counted(spark: SparkSession, headrace: Headrace) -> None:
    Path("orders.jsonl").write_text('{"id": 7}\n' * 40 + '{"id": "four"}\n{"id": \n')
    sql = "select sum(id) as n from orders.jsonl"
    ran = headrace("query", sql, "--skip-bad", "--format", "csv", "--batch")
    assert (ran.status, ran.out) == (0, "n\n280\n")
    assert ran.err.endswith("orders.jsonl: left out 2 bad records\n")
