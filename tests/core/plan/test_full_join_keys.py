"""The key of a full join of upserts by their keys, which may be null in both inputs.

Two rows without a match then have the same key. They are right where no reader needs the key.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import ChangelogMatch, TableMatch
from tests.support.plans import plan_of

SOURCES = """name: test
sources:
  a: {files: {path: a.jsonl, ordered: true}, schema: {k: LEFT, n: bigint}}
  b: {files: {path: b.jsonl, ordered: true}, schema: {k: RIGHT, m: bigint}}
steps:
  mine: {from: a, dedup: {key: k, keep: last}}
  theirs: {from: b, dedup: {key: k, keep: last}}
  joined:
    join: {left: mine, right: theirs, on: mine.k = theirs.k, type: full}
    select: {k: mine.k, other: theirs.k, n: n, m: m}
"""
KEY = ("k", "other")
SUMS = "  step: {from: joined, key: n, aggregate: {m: sum(m)}}\n"
BY_ONE_KEY = "  step: {from: joined, key: k, aggregate: {m: sum(m)}}\n"
BY_KEY = "  step: {from: joined, where: n > 1}\n"
FURTHER = (
    "  further: {join: {left: joined, right: mine, on: joined.k = mine.k}, "
    "select: {k: joined.k, other: other, mine: mine.k, n: mine.n}}\n"
)
FURTHER_SUMS = "  step: {from: further, key: n, aggregate: {rows: count(*)}}\n"


def plan_with(
    folder: Path, last: str, left: str = "string", right: str = "string", sinks: str = ""
) -> nodes.Plan:
    """Return the plan of the join with these types of its keys, and of what reads it."""
    text = SOURCES.replace("LEFT", left).replace("RIGHT", right)
    return plan_of(folder, f"{text}{last}sinks:\n  out: {{from: step, console: {{}}}}\n{sinks}")


def matching_of(plan: nodes.Plan) -> object:
    joined = plan.part("joined")
    assert isinstance(joined, nodes.Step) and isinstance(joined.operations[0], nodes.Join)
    return joined.operations[0].matching


@pytest.mark.parametrize("last", [SUMS, BY_ONE_KEY, FURTHER + FURTHER_SUMS])
def test_a_join_has_no_key_if_a_step_needs_all_its_rows(tmp_path: Path, last: str) -> None:
    plan = plan_with(tmp_path, last)
    assert plan.streams["joined"].kind == nodes.Retract()
    assert matching_of(plan) == TableMatch(has_key=False)
    assert "joined@retract" not in plan.streams


@pytest.mark.parametrize("last", [SUMS, BY_ONE_KEY])
@pytest.mark.parametrize(
    ("left", "right"), [("string not null", "string"), ("string", "string not null")]
)
def test_keys_that_are_never_null_are_the_key_of_the_join(
    tmp_path: Path, last: str, left: str, right: str
) -> None:
    plan = plan_with(tmp_path, last, left, right)
    assert plan.streams["joined"].kind == nodes.Upsert(KEY, has_deletes=True)
    assert isinstance(matching_of(plan), ChangelogMatch)


def test_rows_of_tables_have_keys(tmp_path: Path) -> None:
    text = f"{SOURCES}{SUMS}sinks:\n  out: {{from: step, console: {{}}}}\n"
    text = text.replace("LEFT", "string").replace("RIGHT", "string")
    text = text.replace("n: bigint}}", "n: bigint}, table: {key: k}}")
    plan = plan_of(
        tmp_path, text.replace("{from: a, dedup: {key: k, keep: last}}", "{from: a, where: n > 0}")
    )
    assert plan.streams["joined"].kind == nodes.Upsert(KEY, has_deletes=True)


def test_a_sink_that_writes_by_key_reads_the_join_by_key(tmp_path: Path) -> None:
    assert isinstance(matching_of(plan_with(tmp_path, BY_KEY)), ChangelogMatch)
    keyed = "  keyed: {from: joined, files: {path: out}}\n"
    assert isinstance(matching_of(plan_with(tmp_path, SUMS, sinks=keyed)), ChangelogMatch)
    shown = "  shown: {from: joined, console: {}}\n"
    assert plan_with(tmp_path, SUMS, sinks=shown).streams["joined"].kind == nodes.Retract()
