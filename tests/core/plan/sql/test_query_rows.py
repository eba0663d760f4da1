"""The rows of queries with conditions and joins that YAML has no clause for, as DuckDB has them.

All queries run in one job, over tables in which rows change and are deleted.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb

from tests.support.cli.command_line import Headrace

PIPELINE = """
name: t
sources:
  t:
    files: {path: t.jsonl}
    schema: {id: bigint not null, x: bigint, s: string}
    table: {key: id}
  u:
    files: {path: u.jsonl}
    schema: {id: bigint not null, y: bigint, z: bigint}
    table: {key: id}
  f:
    files: {path: f.jsonl}
    schema: {id: bigint not null, x: bigint, s: string}
  empty:
    files: {path: empty.jsonl}
    schema: {id: bigint not null, y: bigint, z: bigint}
sinks:
  out: {from: f, console: {}}
"""
X, Y = (None, 1, 2, 3, 4), (1, None, 3, 1, 3)
T: list[dict[str, Any]] = [
    *({"id": n, "x": x, "s": "ab"[n % 2]} for n, x in enumerate(X)),
    {"id": 4, "x": 9, "s": "a"},
    {"id": 1, "_change": "delete"},
]
U: list[dict[str, Any]] = [
    *({"id": n, "y": y, "z": n % 3} for n, y in enumerate(Y)),
    {"id": 3, "y": 2, "z": 1},
    {"id": 4, "_change": "delete"},
]
DELETED = {"t": {1}, "u": {4}, "f": set(), "empty": set()}

QUERIES = [
    "select id, x in (select y from u) as v from {t}",
    "select id, x not in (select y from u where y is not null) as v from {t}",
    "select id, x not in (select y from u where y > 100) as v from {t}",
    "select id, (x not in (select y from u where y is not null)) as v from {t}",
    "select id, not ((x not in (select y from u))) as v from {t}",
    "select id, not (not x in (select y from u where z > 0)) as v from {t}",
    "select id, 1 as v from {t} where (x not in (select y from u)) is null or (id not in (1, 2))",
    "select id, x in (select y from empty) as v from {t}",
    "select id, x in (select y from u where u.z = {t}.id) as v from {t}",
    "select id, id not in (select id from u) as v from {t}",
    "select id, 1 as v from {t} where x not in (select y from u)",
    "select id, 1 as v from {t} where x not in (select y from u where y is not null)",
    "select id, 1 as v from {t} where x not in (select y + 1 from empty)",
    "select id, 1 as v from {t} where x in (select y from u) or s = 'a'",
    "select id, 1 as v from {t} where not (x in (select y from u) and s = 'a')",
    "select id, if(exists (select 1 from u where u.y = {t}.x), 1, 0) as v from {t}",
    "select id, not exists (select 1 from u where u.y = {t}.x and z > 0) as v from {t}",
    "select id, 1 as v from {t} where exists (select 1 from u where y > 2)",
    "select id, 1 as v from {t} where not exists (select 1 from empty)",
    "select id, 1 as v from {t} where exists (select 1 from u where u.y > {t}.x)",
    "select id, 1 as v from {t} where not exists (select 1 from u where u.y > {t}.x)",
    "select id, 1 as v from {t} where x in (select y from u union all select z from u) or x > 8",
    "select id, x as v from {t} where (x in (select y from u where z > 0) and id > 1)"
    " or (x in (select y from u where z = 0) and id < 4)",
    "select id, 1 as v from {t} where 1 in (select y from u)",
    "select id, 3 - 1 in (select y from u where z > 0) as v from {t}",
    "select id, 1 as v from {t} where 9 not in (select y from u where y is not null)",
    "select id, 9 not in (select y from u) as v from {t}",
    "select id, 9 not in (select y from empty) as v from {t}",
    "select id, 1 as v from {t} where 'a' in (select lower(s) from f) and 2 in (select z from u)",
    "select id, 1 as v from {t} where x in (select 2) or 4 in (select 4 from empty)",
    "select x as id, count(*) as v from {t} group by x having 3 in (select y from u)",
    "select id, 1 as v from {t} where 1 in (select y from u where u.z < {t}.x)",
    "select id, 1 as v from {t} where (select max(z) from u) in (select y from u)",
    "select id, 1 as v from {t} where (id, x) in (select id, y from u)",
    "select id, 1 as v from {t} where (id, x) in (select z, max(y) from u group by z)",
    "select id, (id, 1) not in (select id, 1 from u) as v from {t}",
    "select id, 1 as v from {t} where exists (values (1)) and not exists (select 1 where 1 > 2)",
    "select id, 1 as v from {t} where exists (select 1 from u where id = {t}.x)",
    "select id, exists (select z from u group by z having count(*) > 1) as v from {t}",
    "select id, exists (select count(*) from empty) as v from {t}",
    "select id, exists (select distinct z from u where u.y = {t}.x) as v from {t}",
    "select id, 1 as v from {t} where exists (select z from u where u.y = {t}.x group by z)",
    "select id, 1 as v from {t} where exists (select 1 from u where u.y = {t}.x limit 1)",
    "select id, 1 as v from {t} where not exists (select y from u where u.y = {t}.x order by y)",
    "select id, 1 as v from {t} where exists (select y from empty union all select z from u)",
    "select id, 1 as v from {t} where exists"
    " (select 1 from u where u.y = {t}.x and u.z in (select x from f))",
    "select id, 1 as v from {t} where x in (select y from u where u.id <> {t}.id and exists"
    " (select 1 from f where f.x = u.z))",
    "select id, (select max(y) from u where u.y = {t}.x"
    " and z < (select max(x) from f where f.id = u.id)) as v from {t}",
    "select id, (select max(y) from u where u.y = {t}.x) as v from {t}",
    "select id, (select count(*) * 10 + coalesce(sum(y), 5) from empty) as v from {t}",
    "select x as id, sum(id + (select max(y) from u where u.id = {t}.id)) as v from {t} group by x",
    "select 1 as id, count(*) filter (where x in (select y from u)) as v from {t}",
    "select x % 2 as id, count(*) - (select min(y) from u) as v from {t} group by 1",
    "select (select count(*) from u) as id, x as v from {t} group by 2",
    "select (select count(*) from empty) as id, x as v from {t} group by all",
    "select x as id, (select max(z) from u where u.y = {t}.x) as v from {t} group by x",
    "select y as id, (select max(t.id) from t where t.x = u.y) as v from u group by u.y",
    "select x as id, exists (select 1 from u where u.y = {t}.x) as v from {t} group by x",
    "select coalesce(x, (select max(y) from u)) as id, count(*) as v from {t} group by 1",
    "select if(x in (select y from u), 1, 2) as id, count(*) as v from {t}"
    " group by if(x in (select y from u), 1, 2)",
    "select x as id, count(*) as v from {t} group by x"
    " having count(*) < (select sum(y) from u where u.y = {t}.x)",
    "select sum((select max(y) from u)) as id, sum((select min(y) from u)) as v from {t}"
    " having sum((select max(y) from u)) > (select count(*) from u)",
    "select x as id, count(*) - (select count(*) from u) + grouping(x) as v from {t}"
    " group by rollup(x)",
    "select {t}.id, m as v from {t} cross join (select max(y) as m from u) b",
    "select {t}.id, u.id as v from {t}, u",
    "select {t}.id, u.id as v from {t} join u on {t}.x < u.y",
    "select {t}.id, u.id as v from {t} left join u on {t}.x < u.y",
    "select u.id, {t}.id as v from {t} right join u on {t}.x < u.y",
    "select coalesce({t}.id, 100) as id, u.id as v from {t} full join u on {t}.x < u.y",
    "select {t}.id, u.id as v from {t} left join u on {t}.x = u.y and {t}.id < u.id",
    "select {t}.id, u.id as v from {t} full join u on {t}.x = u.y and {t}.id < u.z",
    "select a.id, b.id as v from {t} a join {t} b on a.s = b.s and a.id < b.id",
    "select {t}.id, u.z as v from {t} join u on ({t}.x = u.y and z = 1) or ({t}.x = u.y and z = 2)",
    "select id, z as v from {t} join u using (id)",
    "select id, z as v from {t} natural left join u",
    "select id, x + 10 as v from {t} order by v % 3 desc nulls last, id limit 2",
    "select distinct x % 2 as id, s as v from {t} order by length(v) + id desc, v limit 2",
    "select id, x as v from {t} union all select y, z from u order by id + v desc, id limit 3",
    "select x as id, count(*) as v from {t} group by x order by v % 2, id desc limit 2",
    "select x as id, count(*) as v from {t} group by x order by v desc, max({t}.id) limit 2",
    "select x as id, sum(x) as v from {t} group by x order by"
    " cast(v as double) / count(*) + min({t}.id) desc nulls last, x limit 2",
    "select id + 1 as id, id % 2 as v from {t} order by v * x desc nulls last, {t}.id + id limit 3",
    "select x as id, sum(x) - (select max(y) from u) as v from {t} group by x"
    " order by max(s) || 'b' desc nulls last, id nulls last limit 2",
    "select id, sum(x) over (partition by s) as v from {t}",
    "select id, sum(id) over (partition by x) as v from {t}",
    "select id, id * 100 / sum(id) over () as v from {t} where id > 0",
    "select id, count(*) filter (where x > 1) over (partition by x > 2, s) as v from {t}",
    "select id, max(x) over w - min(x) over w as v from {t} window w as (partition by upper(s))",
    "select id, sum(x) over (partition by s) * 100 + count(*) over (partition by x, s) * 10"
    " + count(x) over (partition by 1) as v from {t}",
    "select x as id, count(*) * 100 / sum(count(*)) over () as v from {t} group by x",
    "select x + 1 as id, sum(count(*)) over (partition by x + 1) as v from {t} group by 1",
    "select {t}.id, sum(z) over (partition by y) as v from {t} left join u on {t}.x = u.y",
    "select id, x as v from {t} qualify x = max(x) over (partition by s)",
    "select id, count(*) over (partition by s) as v from {t} qualify v > 2 and id <> 0",
    "select id, sum(x) over (partition by s) as v from {t} order by v desc, id limit 2",
    "select id, sum(id) over (partition by s) as v from {t}"
    " qualify row_number() over (partition by s order by x desc, id) = 1",
    "select distinct length(s) as id, count(distinct x) over (partition by s) as v from {t}",
    "select id, count(*) over (partition by x in (select y from u)) as v from {t}",
    "select id, v from (select id, sum(x) over (partition by s) as v from {t}) a where v > 3",
    "select id, x as v from {t} where x in (select max(x) over (partition by s) from f)",
]


def test_rows_are_those_of_duckdb(headrace: Headrace) -> None:
    database, folder = duckdb.connect(), Path()
    for name, rows in {"t": T, "u": U, "f": T[:5], "empty": []}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        last = {row["id"]: row for row in rows if row["id"] not in DELETED[name]}
        columns = ["id", "y", "z"] if name in ("u", "empty") else ["id", "x", "s"]
        types = ["bigint", "bigint", "bigint" if columns[2] == "z" else "varchar"]
        listed = ", ".join(f"{c} {t}" for c, t in zip(columns, types, strict=True))
        database.execute(f"create table {name} ({listed})")
        for row in last.values():
            database.execute(f"insert into {name} values (?, ?, ?)", [row[c] for c in columns])
    (folder / "p.yaml").write_text(PIPELINE)
    queries = [
        query.format(t=table)
        for at, query in enumerate(QUERIES)
        for table in ("t", "f")[: 1 + at % 2]
    ]
    united = " union all ".join(
        f"select {at} as q, id, cast(v as string) as v from ({query}) as q{at}"
        for at, query in enumerate(queries)
    )
    ran = headrace("query", "-f", "p.yaml", united, "--format", "json")
    assert ran.status == 0, ran.err
    found: dict[int, Counter[tuple[object, ...]]] = {at: Counter() for at in range(len(queries))}
    for line in ran.out.splitlines():
        row = json.loads(line)
        found[row["q"]][row["id"], row["v"]] += 1
    for at, query in enumerate(queries):
        wanted = database.execute(f"select id, cast(v as string) as v from ({query})").fetchall()
        assert found[at] == Counter(wanted), query


def test_names_in_an_order_mean_columns_of_the_result_first(headrace: Headrace) -> None:
    rows = [{"id": 1, "v": 5}, {"id": 2, "v": 3}, {"id": 3, "v": 4}]
    Path("o.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first = "select 0 - id as id, v from 'o.jsonl' order by id % 3, v limit 1"
    for query, wanted in {
        first: {"id": -2, "v": 3},
        f"select v as id, id as v from ({first}) order by id + 1 limit 1": {"id": 3, "v": -2},
        "select v as id, id as v from 'o.jsonl' order by id + 1 limit 1": {"id": 3, "v": 2},
        "select 0 - v as v from 'o.jsonl' order by 0 - v limit 1": {"v": -3},
        "select sum(v) as v from 'o.jsonl' group by id order by sum(v) limit 1": {"v": 3},
    }.items():
        ran = headrace("query", query, "--format", "json")
        assert [json.loads(line) for line in ran.out.splitlines()] == [wanted], ran.err


TIMED = """
name: t
sources:
  orders:
    files: {path: orders.jsonl}
    schema: {id: bigint, customer: string, at: timestamp}
    event_time: at
    table: {key: id}
  clicks:
    files: {path: clicks.jsonl}
    schema: {customer: string, ms: bigint, at: timestamp}
    event_time: at
sinks:
  out: {from: clicks, console: {}}
"""


def test_bounds_in_time_of_a_table_that_changes_are_conditions(headrace: Headrace) -> None:
    folder = Path()
    (folder / "p.yaml").write_text(TIMED)
    files = {
        "orders": [
            {"id": 1, "customer": "ann", "at": "2026-01-01T10:00:00Z"},
            {"id": 2, "customer": "ann", "at": "2026-01-01T12:00:00Z"},
            {"id": 2, "customer": "ann", "at": "2026-01-01T13:00:00Z"},
            {"id": 3, "customer": "ann", "at": "2026-01-01T10:00:00Z"},
            {"id": 3, "_change": "delete"},
        ],
        "clicks": [
            {"customer": "ann", "ms": ms, "at": f"2026-01-01T{hour}Z"}
            for ms, hour in ((1, "09:59:59"), (2, "10:30:00"), (3, "12:30:00"), (4, "14:00:00"))
        ],
    }
    for name, rows in files.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text)
    query = (
        "select o.id, c.ms from orders o left join clicks c on o.customer = c.customer "
        "and c.at between o.at and o.at + interval 1 hour"
    )
    ran = headrace("query", "-f", "p.yaml", query, "--format", "json")
    assert ran.status == 0, ran.err
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert sorted((row["id"], row["ms"]) for row in found) == [(1, 2), (2, 4)]


def test_functions_by_event_time_stand_beside_aggregates_of_partitions(headrace: Headrace) -> None:
    schema = "{id: bigint, who: string, amount: bigint, at: timestamp}"
    source = f"files: {{path: orders.jsonl}}, schema: {schema}, event_time: at"
    Path("p.yaml").write_text(
        f"name: t\nsources:\n  orders: {{{source}}}\n"
        "sinks:\n  out: {from: orders, console: {}}\n"
    )
    amounts = [("ann", 5), ("ann", 7), ("bob", 11), ("ann", 2), (None, 3)]
    rows = [
        {"id": at, "who": who, "amount": amount, "at": f"2026-01-01T00:00:0{at}Z"}
        for at, (who, amount) in enumerate(amounts)
    ]
    Path("orders.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    query = (
        "select id, sum(o.amount) over (partition by who) as s, sum(amount) over () as t, "
        "o.amount - lag(amount) over (partition by who order by at) as p, p + s as q "
        "from orders o where id < 9 "
        "qualify s > 3 and max(amount) over (order by at rows 1 preceding) < 11"
    )
    ran = headrace("query", "-f", "p.yaml", query, "--format", "json")
    assert ran.status == 0, ran.err
    found = [tuple(json.loads(line).values()) for line in ran.out.splitlines()]
    assert sorted(found) == [(0, 14, 28, None, None), (1, 14, 28, 2, 16)]
