"""Forms of queries have the same rows here and in batch, and those that Spark computes itself.

Random queries (`test_random_sql`) have most other forms. Where Spark writes a form in another way,
its query is beside ours.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from datetime import datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import click
import pytest

from headrace.cli.batch import query_run
from headrace.cli.shell_query.execution import run_tasks
from headrace.cli.shell_query.pipeline import QueryInputs, ShellQuery, plan_query
from headrace.connectors.registry import REGISTRY
from headrace.core.job.signals import SignalHandler
from headrace.core.pipeline.loader import LoadedPipeline, load_pipeline
from headrace.core.spark.batch_job import BatchOutcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """
name: forms
sources:
  orders:
    files: {path: orders.jsonl}
    schema: {id: bigint not null, who: string, amount: bigint, tags: array<string>, at: timestamp}
    event_time: at
  payments:
    files: {path: payments.jsonl}
    schema: {order: bigint not null, paid: double, at: timestamp}
    event_time: at
  people:
    files: {path: people.jsonl}
    schema: {id: string not null, city: string}
    table: {key: id}
sinks:
  out: {from: orders, console: {}}
"""
SCHEMAS = {
    "orders": "id bigint, who string, amount bigint, tags array<string>, at timestamp",
    "payments": "`order` bigint, paid double, at timestamp",
}
PEOPLE = "values ('ann', 'Linz'), ('bob', 'Roma'), ('cat', 'Oslo'), ('eve', null) as t(id, city)"

QUERIES = [
    "select count(*) as n, sum(amount) as s from orders where id > 1000",
    "select window.start as a, sum(amount) as n from orders"
    " group by window(at, '1 minute', '1 minute', '15 seconds')",
    "select who, session_window.start as a, session_window.end as b, count(*) as n from orders"
    " group by who, session_window(at, '30 seconds')",
    "select window.start as w, who, count(*) from orders"
    " group by window(at, '2 minutes'), rollup(who)",
    "select who, amount, count(*) as n, grouping(who) as g, grouping_id() as i from orders"
    " group by cube(who, amount)",
    "select who, amount, count(*) as n from orders"
    " group by who, amount grouping sets ((who, amount), who, ())",
    "select who, amount % 2 as odd, sum(id) from orders group by who, rollup(amount % 2)",
    "select city, count(*) as n from people group by city with cube",
    "select who, amount % 3 as m, count(*) as n from orders group by all",
    "select upper(who) as c, count(*) as n from orders group by c having n > 3",
    "select o.id from orders o semi join people p on o.who = p.id and o.amount > 2",
    "select o.id, p.city from orders o left join people p on o.who = p.id"
    " and length(p.city) < o.amount",
    "select o.id, p.paid, c.city from orders o join payments p on o.id = p.order"
    " and p.at between o.at - interval 5 minutes and o.at + interval 5 minutes"
    " left join people c on c.id = o.who",
    "select id, m from orders cross join (select max(paid) as m from payments)",
    "select o.id, p.order from orders o join payments p on o.id < p.order and p.paid > 2"
    " and o.amount > 8",
    "select id, city, s from (select who as id, sum(amount) as s from orders group by who)"
    " natural full join people",
    "select a.id, b.id as other from people a join people b on a.id < b.id",
    "select id % 5 as x from orders intersect all select order % 7 from payments",
    "select id % 5 as x from orders except all select order % 7 from payments",
    "select who from orders union select id from people except select 'bob' intersect"
    " select city from people",
    "select o.id, (select max(city) from people where id = o.who) as city from orders o",
    "select o.id from orders o where exists (select 1 from people where id = o.who)",
    "select o.id, (select count(*) from payments p where p.order = o.id) as n from orders o",
    "select id from orders o where amount > (select avg(amount) from orders i where i.who = o.who)",
    "select id as k, (select count(*) from people) as n from orders order by orders.id limit 3",
    "select who as k, (select count(*) from people) as n, sum(amount) as s from orders group by who"
    " order by who limit 3",
    "select id, pos, tag from orders lateral view outer posexplode(tags) t as pos, tag",
    "select id, a.tag, b.tag as other from orders lateral view explode(tags) a as tag"
    " lateral view explode(tags) b as tag",
    "select id, k, v from orders lateral view explode(map('a', id, 'b', amount)) as k, v",
    "select o.id, t.name from orders o join (values ('ann', 'A'), ('bob', null)) as t(id, name)"
    " on t.id = o.who",
    "select id, case when amount > 5 then 'big' when amount > 1 then 'mid' end as size,"
    " case who when 'ann' then 1 else 2 end as k from orders",
    "select id, amount, dense_rank() over (partition by who order by amount desc) as r from orders"
    " qualify r <= 2",
    "select id from (select *, rank() over (partition by who order by at) as n from orders)"
    " where n <= 2",
    "select id, first_value(amount, true) over (partition by who order by at) as a,"
    " nth_value(amount, 2) over (partition by who order by at) as b,"
    " collect_list(id) over (partition by who order by at rows 1 preceding) as c,"
    " max(amount) over (partition by who order by at rows between unbounded preceding and 1"
    " preceding) as d from orders",
    "select who from orders group by who order by sum(amount) desc, who limit 2 offset 1",
    "select count(distinct who) as a, count(distinct amount, who) as b, sum(distinct amount) as c"
    " from orders",
    "select who, max(struct(amount, id)).id as a, max_by(id, at) as b, listagg(distinct who) as c,"
    " count_if(amount > 3) as d, median(amount) as e from orders group by who",
    "select percentile_cont(0.5) within group (order by amount) as a,"
    " percentile_disc(0.25) within group (order by amount desc) as b from orders",
    "select w, sum(n) as n from (select window.end as w, count(*) as n from orders"
    " group by who, window(at, '1 minute')) group by w",
    "select id as a, a + 1 as b, b * a as c from orders where id < 9",
    "select id, count(*) over (partition by id order by at) as n, n + id as m,"
    " count(id) over (partition by id order by at) + m as k from orders",
    "select who, count(*) as n, sum(count(*)) over () as total, 100 * n / total as share"
    " from orders group by who",
    "select who, sum(amount) as s, count(*) as n, s / n as mean, mean + max(id) as m from orders"
    " group by who having mean > 2",
    "with a(x, y) as (with b as (select id, amount from orders where amount > 2)"
    " select id + 1, amount from b) select x, y from a where y > 3",
]
OURS = {
    "select who, count(*) as n, window_start from orders group by who, tumble(at, interval 1"
    " minute)": "select who, count(*), window.start from orders"
    " group by who, window(at, '1 minute')",
    "select count(*) as n, window_end from orders group by hop(at, interval 30 seconds, interval 1"
    " minute)": "select count(*), window.end from orders"
    " group by window(at, '1 minute', '30 seconds')",
    "select who, count(*) as n, window_end from orders group by who, session(at, interval 40"
    " seconds)": "select who, count(*), session_window.end from orders"
    " group by who, session_window(at, '40 seconds')",
}
"""Queries with windows as functions, and Spark's."""
OTHER = [
    "select count(*) as n, window_start, window_end from orders"
    " group by cumulate(at, interval 1 minute, interval 3 minutes)",
]
"""Queries that Spark has no form for."""


@pytest.fixture
def forms(tmp_path: Path, quick: SparkSession) -> LoadedPipeline:
    """The tables: files with rows, which Spark knows as views."""
    chance = Random(5)

    def at(number: int) -> str:
        minutes, seconds = divmod(number, 60)
        return f"2026-01-01T00:{minutes:02}:{seconds:02}Z"

    tables: dict[str, list[dict[str, Any]]] = {
        "orders": [
            {
                "id": number,
                "who": chance.choice(["ann", "bob", "cat", "dan", None]),
                "amount": chance.choice([None, 1, 2, 3, 5, 8, 13]),
                "tags": ["a", "b", "c"][: number % 4] if number % 5 else None,
                "at": at(number * 17),
            }
            for number in range(40)
        ],
        "payments": [
            {
                "order": chance.randrange(45),
                "paid": chance.choice([None, 1.5, 2.0, 8.0]),
                "at": at(number * 19 + 5),
            }
            for number in range(35)
        ],
        "people": [
            {"id": "ann", "city": "Oslo"},
            *({"id": each, "city": city} for each, city in (("bob", "Roma"), ("cat", "Oslo"))),
            *({"id": "eve"}, {"id": "ann", "city": "Linz"}, {"id": "fay", "city": "Graz"}),
            {"id": "fay", "_change": "delete"},
        ],
    }
    for name, rows in tables.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for name, schema in SCHEMAS.items():
        frame = quick.read.schema(schema).json(str(tmp_path / f"{name}.jsonl"))
        frame.cache().createOrReplaceTempView(name)
    quick.sql(f"select * from {PEOPLE}").createOrReplaceTempView("people")
    (tmp_path / "p.yaml").write_text(PIPELINE)
    return load_pipeline(tmp_path / "p.yaml", REGISTRY, env={})


def test_forms_have_the_rows_of_spark(forms: LoadedPipeline, quick: SparkSession) -> None:
    wanted = {**dict(zip(QUERIES, QUERIES, strict=True)), **OURS}
    inputs, wrong = QueryInputs(forms, "home"), []
    with click.Context(click.Command("query")), SignalHandler() as signals:
        for sql in (*wanted, *OTHER):
            planned = plan_query(sql, inputs)
            run_tasks(planned, signals, ())
            found = take_rows(planned)
            planned = plan_query(sql, inputs)
            assert isinstance(query_run._run_in_session(planned, quick), BatchOutcome)
            batched = take_rows(planned)
            spark = found
            if sql in wanted:
                spark = Counter(map(make_comparable, quick.sql(wanted[sql]).collect()))
            if not found or not found == batched == spark:
                wrong.append((sql, found - spark, spark - found, batched - found))
    assert not wrong, wrong


def take_rows(planned: ShellQuery) -> Counter[Any]:
    rows = planned.order.apply(planned.rows.take_rows(planned.schema), planned.sort)
    return Counter(map(make_comparable, rows.rows()))


def make_comparable(value: Any) -> Any:
    """Return a value that is equal in Polars and in pyspark, where a struct is a row."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else round(value, 9)
        case datetime():
            return value.replace(tzinfo=None)
        case dict():
            return tuple(map(make_comparable, value.values()))
        case list() | tuple():
            return tuple(map(make_comparable, value))
    return value
