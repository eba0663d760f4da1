"""Rows that a query has in its text: `values`, and `select` without `from`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from tests.support.cli.command_line import Headrace
from tests.support.cli.processes import stop_behind
from tests.support.sql_steps import list_errors

QUERIES = [
    "select id, name from (values (1, 'a'), (2, null)) as t(id, name)",
    "select * from (values (1, 2.5), (3, null), (null, 20.25)) t(a, b) where a is not null",
    "with n(x) as (values (1), (2), (3)) select sum(x) as s, count(*) as c from n where x > 1",
    "select x from (values (1), (2), (2)) t(x) where x in (values (2), (4))",
    "select x, y from (values (1, 'a'), (2, 'b')) l(x, z) join (values (2, 'c')) r(x, y) using (x)",
    "select x, y from (values (1), (2)) l(x) left join (values (2, 'c')) r(k, y) on k = x",
    "select 1 as a union all select 2 union all (values (3), (3))",
    "values (1, 'a'), (2, 'b') except values (1, 'a')",
    "select 1 + x as y from (select 1 as x)",
    "select count(*) as n where 1 = 0",
    "select 1 as a where exists (select 1 from (values (1)) t(b) where b > 3)",
    "select 1 as a, (select max(b) from (values (1), (4)) t(b)) as m",
    "select case when exists (select 1 from (values (1)) t(b)) then 'yes' end as a",
    "select x, row_number() over (partition by x order by y desc) as n from"
    " (values (1, 1), (1, 2), (2, 1)) t(x, y) qualify n <= 1",
    "select distinct x from (values (1), (1)) t(x)",
]


@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_those_of_duckdb(headrace: Headrace, query: str) -> None:
    ran = headrace("query", query, "--format", "json")
    assert ran.status == 0, ran.err
    rows = Counter(tuple(json.loads(line).values()) for line in ran.out.splitlines())
    wanted = duckdb.execute(f"select * from ({query})").fetchall()
    assert rows == Counter(tuple(map(_convert, row)) for row in wanted)


def _convert(value: object) -> object:
    """Return a value as JSON has it, with decimals as text."""
    return value if value is None or isinstance(value, int) else str(value)


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("values (1, null), (2L, 'x'), (3, 'y')", "col1 bigint, col2 string"),
        (
            "values (1, 1, 1.5), (1.25, 1d, 20)",
            "col1 decimal(12,2), col2 double, col3 decimal(11,1)",
        ),
        ("values (array(1)), (array(2L))", "col1 array<bigint>"),
        ("values date'2026-01-01', timestamp'2026-01-01 00:00:00'", "col1 timestamp"),
        ("select 1 as x, current_date() as d", "x int not null, d date not null"),
        ("select * from values (1, 2) as t(a, b)", "a int, b int"),
    ],
)
def test_types_fit_all_rows(headrace: Headrace, query: str, columns: str) -> None:
    write_pipeline(query)
    ran = headrace("explain", "p.yaml")
    assert ran.status == 0, ran.err
    step = next(each for each in ran.out.split("\n\n") if each.startswith("step q,"))
    assert step.splitlines()[-1].replace(" not null", "") == (
        f"    -> {columns}".replace(" not null", "")
    )


def write_pipeline(query: str) -> None:
    """Write a pipeline of one query, without sources."""
    Path("p.yaml").write_text(
        f'name: p\nsteps:\n  q: {{sql: "{query}"}}\n'
        "sinks:\n  out: {from: q, files: {path: out}}\n"
    )


def test_pipeline_needs_no_source(headrace: Headrace) -> None:
    write_pipeline("select id, name from (values (1, 'a'), (2L, null)) as t(id, name)")
    assert headrace("run", "p.yaml").status == 0
    parts = Path("out").glob("part-*")
    rows = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
    assert rows == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    ran = headrace("validate", "p.yaml")
    assert ran.err == "p.yaml: no problems; checked 0 sources, 1 step, 0 expressions, 1 sink\n"


MISTAKES = {
    "values (1, 2), (1), (1, 2, 3)": [
        "(1): wanted 2 values, as in the first row, got 1"
        " [all rows of values have equally many columns; null stands for no value]",
        "1, 2, 3: wanted 2 values, as in the first row, got 3"
        " [all rows of values have equally many columns; null stands for no value]",
    ],
    "values (1, 2), ('a', true), (count(*), id)": [
        "'a': column 1 of values is int in the rows before, got string"
        " [cast it: cast(... as int), or those]",
        "true: column 2 of values is int in the rows before, got boolean"
        " [cast it: cast(... as int), or those]",
        "count(*): values has no rows that count could aggregate"
        " [select count(...) from (values ...) aggregates them]",
        "id: unknown column \"id\" [there is no table that has columns; text goes in quotes: 'id']",
    ],
    "values (1, null), (2, null)": [
        "null: column 2 of values needs a type, and null has none"
        " [give it a type: cast(null as string)]"
    ],
    "select a from (values (1, 2)) as t(a)": [
        "a: wanted 2 names of columns, got 1 [they are col1, col2]"
    ],
    "select *": [
        "*: * stands for the columns of tables, and there is no from"
        " [from names the table, as in select * from orders]"
    ],
    "select t.* where exists (values 1)": ['t.*: unknown table "t" [there is no from]'],
    "select t.*": ['t.*: unknown table "t" [there is no from]'],
    "select nope": [
        'nope: unknown column "nope"'
        " [there is no table that has columns; text goes in quotes: 'nope']"
    ],
}


@pytest.mark.parametrize("query", MISTAKES)
def test_mistake_is_marked(tmp_path: Path, query: str) -> None:
    assert list_errors(tmp_path, query) == MISTAKES[query]


JOINED = """\
name: joined
settings: {parallelism: 2, key_groups: 16, checkpoint: {every: 100ms}}
sources:
  numbers: {generate: {rows: 30000, rate: 10000/s, columns: {x: id % 3}}}
steps:
  q:
    sql: |
      select name, count(*) as n
      from numbers join (values (0, 'a'), (1, 'b'), (2, 'c')) as t(id, name) on x = id
      group by name
sinks:
  out: {from: q, files: {path: out}}
"""


def test_resumes_from_a_savepoint(headrace: Headrace) -> None:
    Path("p.yaml").write_text(JOINED)
    stop_behind(Path.cwd(), 4)
    exported = headrace("state", "export", "joined", "--to", "moved")
    assert exported.status == 0, exported.err
    Path(".headrace").rename("before")
    Path("out").rename("out-before")
    at_once = ("--set", "sources.numbers.generate.rate=10000000/s")
    ran = headrace("run", "p.yaml", "--from-savepoint", "moved", "--parallelism", "3", *at_once)
    assert ran.status == 0, ran.err
    assert "resumed from savepoint moved" in ran.err
    found = dict[str, int]()
    for part in Path().glob("out*/part-*"):
        for row in map(json.loads, part.read_text().splitlines()):
            found[row["name"]] = max(row["n"], found.get(row["name"], 0))
    assert found == dict.fromkeys("abc", 10_000)
