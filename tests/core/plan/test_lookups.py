"""Lookups in plans: their columns, tasks, errors and descriptions."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from headrace.connectors.registry import REGISTRY
from headrace.core.errors.problems import Problem
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.plan import nodes
from headrace.core.plan.canonical import list_clause_texts
from headrace.core.plan.explain import explain
from headrace.core.plan.layout import get_lookup
from headrace.core.plan.nodes import Plan
from headrace.core.plan.plan_assembly import build_plan

DOCUMENT = """
name: t
sources:
  a:
    files: {{path: in}}
    schema: {{id: int, d: double, b: binary, name: string, at: timestamp}}
steps:
  s: {step}
  {more}
sinks:
  o: {{from: {last}, files: {{path: out}}}}
  {sinks}
"""


def built(
    folder: Path, step: str, more: str = "", last: str = "s", sinks: str = "", **env: str
) -> tuple[Plan | None, tuple[Problem, ...]]:
    """Return the plan of a document with that step, and its problems."""
    file = folder / "p.yaml"
    file.write_text(dedent(DOCUMENT).format(step=step, more=more, last=last, sinks=sinks))
    return build_plan(load_pipeline(file, REGISTRY, env=env))


def plan_of(folder: Path, step: str, more: str = "", last: str = "s", **env: str) -> Plan:
    plan, problems = built(folder, step, more, last, **env)
    assert plan is not None, problems
    return plan


def test_looked_up_columns_follow_the_input_columns(tmp_path: Path) -> None:
    step = """{from: a, lookup: {file: {path: c.csv}, on: [id],
      add: {tier: int not null, who: {column: name}}}, drop: [b]}"""
    plan = plan_of(tmp_path, step)
    assert str(plan.streams["s"].schema) == (
        "id int, d double, name string, at timestamp, tier int, who string"
    )
    dropping = step.replace("on: [id]", "on: [id], on_miss: drop")
    schema = plan_of(tmp_path, dropping).streams["s"].schema
    assert str(schema).endswith("tier int not null, who string")


def test_a_lookup_starts_a_task_and_requests_only_used_columns(tmp_path: Path) -> None:
    step = "{from: a, lookup: {file: {path: c.csv}, on: {k: id}, add: [x, y, z]}}"
    plan = plan_of(tmp_path, step, "t: {from: s, where: y > x, select: [x]}", "t")
    assert [task.parts for task in plan.tasks] == [("a",), ("s", "t", "o")]
    lookup = get_lookup(plan.part("s"))
    assert lookup is not None
    assert [found.column for found in lookup.columns] == ["x", "y"]
    source = plan.part("a")
    assert source.decoded_columns == ("id",)  # type: ignore[union-attr]


HTTP = "{{http: {{url: 'http://h/{}'}}, on: {{id: id}}, add: [x]}}"


@pytest.mark.parametrize(
    ("lookup", "said"),
    [
        (
            "{file: {path: c.csv}, on: {id: nme}, add: [x]}",
            'unknown column "nme" [did you mean "name"?]',
        ),
        (
            "{file: {path: c.csv}, on: [idd], add: [x]}",
            'unknown column "idd" [did you mean "id"?]',
        ),
        (
            "{file: {path: c.csv}, on: id = cid, add: [x]}",
            "lookup.on: wanted columns of the table and what they equal, as in {id: customer_id}, "
            'got "id = cid" [write {id: cid}]',
        ),
        (
            "{file: {path: c.csv}, on: {id: d}, add: [x]}",
            'on: "id" is double, which cannot be a key '
            "[cast it, as in cast(d as bigint): one number may have several texts]",
        ),
        (
            "{file: {path: c.csv}, on: {id: b}, add: [x]}",
            'on: "id" is binary, which cannot be a key [convert it to text: hex(b)]',
        ),
        (
            "{file: {path: c.csv}, on: {k: id}, add: [name]}",
            'there is a column "name" already '
            "[give it another name: add: {new_name: {column: name}}]",
        ),
        (
            "{file: {path: customers}, on: [id], add: [x]}",
            '"customers" does not say its format [add format: json, csv or parquet]',
        ),
        (
            "{file: {path: c.csv, json: {epoch: ms}}, on: [id], add: [x]}",
            '"json" has the options of format: json, but the format is csv',
        ),
        (
            "{file: {path: c.csv, csv: {header: false}}, on: [id], add: [x]}",
            "a file that is looked up needs a header [its first line names the columns]",
        ),
        (
            "{file: {path: c.csv, csv: {union_by_name: true}}, on: [id], add: [x]}",
            "a file that is looked up has all columns [remove union_by_name]",
        ),
        (
            "{file: {path: c.csv}, on: {k: id}, add: {x: {column: k, type: string}}}",
            '"k" is int in on, and string in add [declare it as int]',
        ),
        (
            "{sql: {url: 'sqlite:///c', table: c}, on: [id], add: {x: array<int>}}",
            '"x": a column of a database cannot be read as array<int> '
            "[declare it as string, which gets its JSON]",
        ),
        (HTTP.format("{idd}"), 'url: "{idd}" is not in on [on has id]'),
        (
            HTTP.format(""),
            'url: column "id" of on has no placeholder in it [write {id} where it belongs]',
        ),
        (
            "{http: {url: 'ftp://h/{id}'}, on: [id], add: [x]}",
            "url: wanted http:// or https://",
        ),
        (
            "{http: {url: 'http://me:se@h/{id}', headers: {authorization: x}}, on: [id], add: [x]}",
            "url has a user, and headers has Authorization: only one may authenticate "
            "[remove one of them]",
        ),
        (
            "{http: {url: 'http://me:se/same@h/{id}'}, on: [id], add: [x]}",
            "url: wanted a host, and after a colon its port, if any "
            "[in a password, percent-encode all but letters and digits: %2F for /]",
        ),
    ],
)
def test_lookup_errors_are_reported(tmp_path: Path, lookup: str, said: str) -> None:
    _, problems = built(tmp_path, f"{{from: a, lookup: {lookup}}}")
    lines = [f"{p.message} [{p.hint}]" if p.hint else p.message for p in problems]
    assert said in lines
    assert all(problem.subject == 'step "s"' for problem in problems)
    assert not any("me:se" in str(problem.location) for problem in problems)


def test_changes_are_looked_up_by_key(tmp_path: Path) -> None:
    step = "{from: a, key: id, aggregate: {n: count(*)}}"
    lookup = "lookup: {file: {path: c.csv}, on: [n], add: [x]}"
    plan, _ = built(tmp_path, step, f"t: {{from: s, {lookup}}}", "t")
    assert plan is not None
    assert plan.streams["t"].kind == nodes.Upsert(("id",), has_deletes=True)
    unkeyed = f"u: {{from: s, drop: id}}\n  t: {{from: u, {lookup}}}"
    _, problems = built(tmp_path, step, unkeyed, "t")
    assert [p.message for p in problems if p.severity == "error"] == [
        "lookup does not take a stream of changes without a key"
    ]


def test_the_stream_of_misses_is_read_by_somebody_and_has_the_columns_that_came(
    tmp_path: Path,
) -> None:
    step = "{from: a, lookup: {file: {path: c.csv}, on: [id], add: [x], on_miss: {to: no}}}"
    _, problems = built(tmp_path, step)
    assert any(problem.message.startswith('nothing reads "no"') for problem in problems)
    plan, problems = built(tmp_path, step, sinks="p: {from: no, files: {path: no}}")
    assert plan is not None, problems
    assert plan.streams["no"].schema == plan.streams["a"].schema


def test_a_plan_tells_of_its_lookups_and_of_no_password(tmp_path: Path) -> None:
    step = """{from: a, lookup: {sql: {url: "${env:DB}", table: c}, on: {k: upper( name )},
      add: {x: int}, cache: {rows: 10, ttl: 60s}, ordered: false, on_miss: drop}}"""
    plan = plan_of(tmp_path, step, DB="postgresql://me:hidden@h/db")
    shown = explain(plan)
    assert "hidden" not in shown + explain(plan, "json")
    assert dedent("""\
        from a
        lookup in sql (url postgresql://****@h/db, table c)
        lookup on k = upper( name ), adds x int
        rows without a match: dropped
        calls: 10 at a time, 10s each, 3 retries, rows are emitted as calls return
        caches 10 keys for 1m
    """) in dedent(shown[shown.index("    from a") :].split("    ->")[0])
    before, _ = list_clause_texts(plan.part("s"))
    assert before == [
        "from a",
        "lookup in sql url postgresql://****@h/db, table c",
        "lookup k = upper(name)",
        "x int from x",
        "on_miss drop",
    ]
