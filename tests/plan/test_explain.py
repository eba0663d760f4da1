"""`explain` shows the same plan four ways, and no name or text breaks any of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.core.plan import FORMATS, explain
from tests.plan.pipelines import SOURCE, plan_of

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
