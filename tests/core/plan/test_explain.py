"""`explain` shows the same plan four ways, and no name or text breaks any of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.core.plan.explain import FORMATS, explain
from tests.support.plans import SOURCE, over_orders, plan_of

TEXT = (
    SOURCE
    + """
steps:
  a-b: {from: orders, where: "name = '\\"<b>#;|&\\\\\\\\'", select: [id, name]}
  end: {from: a-b, route: {big: id is null}, parallelism: 2}
sinks:
  one: {from: end.big, files: {path: out}}
  two: {from: end.else, console: {}}
"""
)


def test_the_text_says_what_every_part_does(tmp_path: Path) -> None:
    lines = explain(plan_of(tmp_path, TEXT)).splitlines()
    assert lines[0] == "test: 1 source, 2 steps, 2 sinks; 128 key groups"
    assert "    decodes 3 of 6 columns: id, name, at" in lines
    assert "    -> end.big id bigint not null, name string" in lines
    assert "    1  orders > a-b, parallelism 1" in lines
    assert "    a-b > end: rebalance" in lines


def test_explode_names_its_array(tmp_path: Path) -> None:
    lines = explain(plan_of(tmp_path, over_orders("explode: {tag: tags, outer: true}")))
    assert "    explode tag from tags (array<string>), keeping empty ones\n" in lines


def test_json_holds_every_part_edge_and_task(tmp_path: Path) -> None:
    document = json.loads(explain(plan_of(tmp_path, TEXT), "json"))
    assert [part["name"] for part in document["parts"]] == ["orders", "a-b", "end", "one", "two"]
    assert document["edges"][0] == {
        "stream": "orders",
        "from": "orders",
        "to": "a-b",
        "exchange": "forward",
        "key": [],
    }
    assert document["parts"][2]["outputs"][0]["columns"][0] == {
        "name": "id",
        "type": "bigint",
        "nullable": False,
    }


def test_mermaid_has_a_node_a_part_and_no_raw_markup(tmp_path: Path) -> None:
    text = explain(plan_of(tmp_path, TEXT), "mermaid")
    nodes = [line for line in text.splitlines() if line.startswith("    n")]
    assert len({line.split("[")[0].split("(")[0] for line in nodes}) == 5
    assert "#quot;#lt;b#gt;#35;" in text
    for line in nodes:
        assert line.count('"') == 2


def test_dot_escapes_quotes_and_backslashes(tmp_path: Path) -> None:
    text = explain(plan_of(tmp_path, TEXT), "dot")
    assert '\\"<b>#;|&' in text
    assert '"end" -> "one" [label="end.big: rebalance"];' in text
    for line in text.splitlines():
        assert line.replace("\\\\", "").replace('\\"', "").count('"') % 2 == 0


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_ends_in_one_newline(tmp_path: Path, format: str) -> None:
    text = explain(plan_of(tmp_path, TEXT), format)
    assert text.endswith("\n") and not text.endswith("\n\n")


KEYED = (
    SOURCE.replace("path: in", "path: in.jsonl")
    + """
settings: {parallelism: 2, key_groups: 6}
steps:
  sums:
    from: orders
    key: {day: to_date(at), name: name}
    window: {slide: 1m, every: 10s, offset: 5s, lateness: 1s, late_to: late, evict: {last: 3},
             trigger: {every: 1s, time: processing}}
    aggregate: {n: count(*), total: sum(id)}
    having: n > 1
  runs: {from: orders, key: name, aggregate: {n: max(id)}, ttl: {after: 90m, time: processing}}
  best: {from: orders, top: {n: 3, by: [price desc, id nulls last]}, parallelism: 1}
  once: {from: orders, dedup: {key: [id, name], ttl: 1h, order: event_time}}
sinks:
  a: {from: sums, console: {}}
  b: {from: late, console: {}}
  c: {from: runs, console: {}}
  d: {from: best, console: {}}
  e: {from: once, console: {}}
"""
)


def test_a_keyed_step_is_explained_by_clause_with_its_states(tmp_path: Path) -> None:
    text = explain(plan_of(tmp_path, KEYED))
    steps = {part.split()[1].strip(","): part for part in text.split("\n\n") if part[:4] == "step"}
    assert [line.strip() for line in steps["sums"].splitlines()[2:-2]] == [
        "key day = to_date(at), name",
        "window slide 1m every 10s offset 5s, lateness 1s, late rows to late, "
        "fires every 1s by the wall clock, sees the last 3 rows",
        "aggregate n = count(*), total = sum(id)",
        "having n > 1",
        "state windows, runs by time, day, name: id",
        "state changed, runs by time, day, name",
        "key groups 0-2 in subtask 0, 3-5 in subtask 1",
    ]
    assert "    key name\n    aggregate n = max(id)\n    ttl 90m by the wall clock\n" in text
    assert "    no key: one group of all rows\n    top 3 by price desc, id nulls last\n" in text
    assert "    all of it in subtask 0\n" in steps["best"]
    assert "    orders > sums: hash by day, name\n" in text
    assert "    orders > best: hash by no key, all to one subtask\n" in text
    assert (
        "    dedup by id, name, keep first by event time, ttl 1h\n"
        "    state waiting, runs by time, id, name: buffered input rows\n"
        "    state keys, a table by id, name" in text
    )


def test_json_has_the_states_of_a_step_and_the_owners_of_its_key_groups(tmp_path: Path) -> None:
    document = json.loads(explain(plan_of(tmp_path, KEYED), "json"))
    keeps = {part["name"]: part.get("keeps") for part in document["parts"]}
    assert keeps["a"] is keeps["orders"] is None
    assert keeps["runs"] == {
        "key": ["name"],
        "states": [
            {
                "name": "keys",
                "shape": "table",
                "columns": [{"name": "max(id).max", "type": "bigint"}],
                "aggregates": [
                    {"call": "max(id)", "bytes": 8, "has_values": False, "entries": None}
                ],
            }
        ],
        "key_groups": [
            {"subtask": 0, "first": 0, "last": 2},
            {"subtask": 1, "first": 3, "last": 5},
        ],
    }
    assert "state keys, a table by name" in explain(plan_of(tmp_path, KEYED), "mermaid")
