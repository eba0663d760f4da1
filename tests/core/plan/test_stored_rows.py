"""What `explain` says of the rows that steps over tables store."""

import json
from pathlib import Path

import pytest

from headrace.core.plan.explain import explain
from headrace.core.plan.stored_rows import measure_stored_rows
from tests.support.plans import plan_of

DOCUMENT = """\
name: t
sources:
  rows:
    files: {path: in.jsonl}
    schema: {id: bigint, k: string, n: int, tags: array<string>, at: timestamp}
    event_time: at
  changed:
    files: {path: changed.jsonl}
    schema: {id: bigint, n: int}
    table: {key: id, sequence: n}
steps:
  odd: {from: latest, key: {odd: id % 2}, aggregate: {n: max(n)}}
  latest: {from: rows, dedup: {key: id, keep: last}}
  other: {from: rows, dedup: {key: id, keep: last}}
  joined:
    join: {left: latest, right: other, on: latest.n = other.n}
    select: {id: latest.id, k: other.k, tags: latest.tags}
  unkeyed: {from: latest, select: [k, n]}
  least: {from: unkeyed, key: k, aggregate: {least: min(n)}}
  first: {from: unkeyed, key: k, top: {n: 1, by: n}}
  total: {from: unkeyed, key: k, aggregate: {total: sum(n)}}
sinks:
  o1: {from: joined, console: {}}
  o2: {from: unkeyed, files: {path: out, changelog: full}}
  o3: {from: least, console: {}}
  o4: {from: first, console: {}}
  o5: {from: total, console: {}}
  o6: {from: odd, console: {}}
  o7: {from: changed, console: {}}
"""
TEXT, LIST = "20 for a text", "100 for an array or map"


@pytest.mark.parametrize(
    ("step", "state", "columns", "assumptions", "counted"),
    [
        ("latest@retract", "keys", {"key id": 8, "id": 8, "k": 20, "n": 4}, (TEXT, LIST), False),
        ("joined", "left", {"key n": 4, "latest.id": 8, "latest.tags": 100}, (LIST,), True),
        ("joined", "right", {"key n": 4, "other.k": 20}, (TEXT,), True),
        ("unkeyed@changes", "rows", {"k": 20, "n": 4}, (TEXT,), True),
        ("least", "values", {"n": 4}, (), True),
        ("least", "keys", {"key k": 20, "least": 4}, (TEXT,), False),
        ("total", "keys", {"key k": 20}, (TEXT,), False),
        ("odd", "keys", {"key odd": 8, "n": 4}, (), False),
        ("odd", "rows", {"key odd": 8, "row id": 20, "n": 4}, (TEXT,), False),
        ("changed@table", "keys", {"key id": 8, "sequence": 4, "place": 8}, (), False),
        ("first", "ranking", {"key k": 20, "k": 20, "n": 4}, (TEXT,), True),
    ],
)
def test_a_stored_row_has_the_widths_of_its_columns(
    tmp_path: Path,
    step: str,
    state: str,
    columns: dict[str, int],
    assumptions: tuple[str, ...],
    counted: bool,
) -> None:
    plan = plan_of(tmp_path, DOCUMENT)
    size = measure_stored_rows(plan, plan.part(step))[state]
    assert {*columns.items()} <= {*size.columns}
    rest = dict(size.columns).keys() - columns.keys()
    assert rest <= {"tags", "at", "event time", "count", "other.id", "deleted"}
    assert ("count" in rest, size.is_counted) == (counted, counted)
    assert (size.bytes, size.assumptions) == (sum(dict(size.columns).values()), assumptions)


def test_explain_shows_the_kind_and_the_key_of_each_edge(tmp_path: Path) -> None:
    lines = explain(plan_of(tmp_path, DOCUMENT)).splitlines()
    edges = [line.strip() for line in lines[lines.index("edges") + 1 :]]
    assert "latest > latest@retract: forward, upsert(id)" in edges
    assert "latest@retract > joined: forward, retract(id)" in edges
    assert "unkeyed > least: forward, retract" in edges
    assert not any("upsert" in line for line in edges if line.startswith("rows > "))


def test_explain_shows_the_size_of_rows_and_why_they_are_counted(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, DOCUMENT)
    lines = explain(plan).splitlines()
    at = lines.index("    state rows, runs by k, n: counted rows")
    assert lines[at + 1 : at + 3] == [
        "      each row: about 32 bytes (20 for a text): k 20, n 4, count 8",
        "      rows are counted: the changes of a key may arrive through several subtasks",
    ]
    parts = {part["name"]: part for part in json.loads(explain(plan, "json"))["parts"]}
    (state, numbers) = parts["unkeyed@changes"]["keeps"]["states"]
    assert state["row"]["bytes"] == 32 and state["row"]["counted"]
    assert "row" not in numbers
    (sums,) = parts["total"]["keeps"]["states"]
    assert sums["row"]["bytes"] == 20 and sums["aggregates"][0]["bytes"] == 16
