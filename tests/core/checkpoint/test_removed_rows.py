"""States that count added and removed rows resume together, and only if nothing has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.runtime.changed_pipelines import (
    document,
    notes,
    pipeline,
    plan,
    refusal,
)

BEFORE = """\
  latest: {from: rows, dedup: {key: k, keep: last}}
  clean: {from: latest, where: v > 0}
  joined:
    join: {left: {from: clean, as: a}, right: {from: latest, as: b}, on: a.v = b.k, type: left}
    select: {k: a.k, s: b.s, v: a.v}
"""
STEP = "from: joined, key: s, aggregate: {n: count(*), total: sum(v)}"
TOGETHER = "--reset-state {}".format(
    " --reset-state ".join(("clean@retract", "latest@retract", "joined", "step"))
)


def changed(folder: Path, step: str, more: str) -> str:
    was = document(plan(folder, pipeline(STEP, BEFORE)))
    return refusal(was, plan(folder, pipeline(step, more)))


def test_a_pipeline_that_is_written_otherwise_resumes(tmp_path: Path) -> None:
    was = document(plan(tmp_path, pipeline(STEP, BEFORE)))
    now = pipeline(STEP.replace("n:", "rows:"), BEFORE.replace("v > 0", "v>0"))
    assert notes(was, plan(tmp_path, now)) == ()


@pytest.mark.parametrize(
    ("step", "more", "change"),
    [
        (STEP, BEFORE.replace("v: a.v}", "v: a.v + 1}"), "joined has changed: was v = a.v"),
        (STEP.replace("key:", "where: v > 1, key:"), BEFORE, "step has changed: is where (v > 1)"),
    ],
)
def test_rows_are_removed_as_they_were_added(
    tmp_path: Path, step: str, more: str, change: str
) -> None:
    refused = changed(tmp_path, step, more)
    assert f"are removed as they were added, and {change}" in refused
    assert f"undo the change; or {TOGETHER}" in refused


def test_an_aggregate_more_has_not_seen_the_rows_that_may_be_removed(tmp_path: Path) -> None:
    refused = changed(tmp_path, STEP.replace("n: ", "c: count(v), n: "), BEFORE)
    assert "the state of step has other columns: count(v) of bigint" in refused


def test_a_changed_aggregate_is_named_with_all_states_to_drop(tmp_path: Path) -> None:
    """Also if nothing is counted by values then, and the emitted row is not stored any more."""
    least = STEP.replace("sum(v)", "min(v)")
    was = document(plan(tmp_path, pipeline(least, BEFORE)))
    now = plan(tmp_path, pipeline(STEP, BEFORE))
    refused = refusal(was, now)
    assert "the state of step has another total" in refused
    assert f"{TOGETHER} drops their states" in refused
    assert (
        notes(was, now, *TOGETHER.split()[1::2])[0]
        == "clean@retract starts fresh, without its state"
    )


def test_a_step_cannot_start_fresh_alone(tmp_path: Path) -> None:
    was = document(plan(tmp_path, pipeline(STEP, BEFORE)))
    now = plan(tmp_path, pipeline(STEP, BEFORE))
    refused = refusal(was, now, "step")
    assert (
        "step would start without the rows that clean@retract, latest@retract, joined count"
        in refused
    )
    assert f"{TOGETHER} starts all of them fresh" in refused
    names = TOGETHER.replace("--reset-state ", "").split()
    assert notes(was, now, *names)[0] == "clean@retract starts fresh, without its state"


def test_what_comes_before_the_stored_rows_may_change(tmp_path: Path) -> None:
    was = document(plan(tmp_path, pipeline(STEP, BEFORE)))
    now = plan(tmp_path, pipeline(STEP, BEFORE.replace("v > 0", "v > 1")))
    change = "clean has changed: was where (v > 0), is where (v > 1)"
    assert notes(was, now) == (f"upstream of clean@retract, joined, step: {change}",)


def test_a_sink_that_is_added_later_does_not_get_the_rows_that_are_there(tmp_path: Path) -> None:
    was = document(plan(tmp_path, pipeline(STEP, BEFORE)))
    line = " gets the changes from now on: rows that are there are left out"

    def report(sinks: str) -> list[str]:
        text = pipeline(STEP, BEFORE).replace("o: {from: step, memory: {data: out", sinks)
        return [note for note in notes(was, plan(tmp_path, text)) if "now on" in note]

    keep = "o: {from: step, memory: {data: out"
    assert report(keep) == []
    assert report(f"{keep}}}}}, p: {{from: step, memory: {{data: more") == [f"p{line}"]
    assert report(f"{keep}, changelog: full") == [f"o{line}"]
    appended = "p: {from: rows, memory: {data: more"
    assert report(f"{keep}}}}}, {appended}") == []


MOVES = """\
from headrace import Process, value


class Moves(Process):
    STATE
    def on_row(self, row, state, out): out(row.v)
"""


@pytest.mark.parametrize("state", ["", "n = value('int')"])
def test_a_class_over_changes_resumes_with_the_states_before_it(tmp_path: Path, state: str) -> None:
    (tmp_path / "moves.py").write_text(MOVES.replace("STATE", state))
    step = (
        "from: joined, key: s, process: {python: 'moves.py:Moves', order: arrival, changes: true, "
        "returns: {v: bigint}}"
    )
    now = plan(tmp_path, pipeline(step, BEFORE))
    assert notes(document(now), now) == ()


MINE = """\
from headrace import Aggregate


class Mine(Aggregate):
    def partial(self, v): return 1
    def merge(self, partials): return 1
    def finish(self, partial): return 1
"""


@pytest.mark.parametrize("more", ["", ", least: min(s)"])
def test_a_class_that_retracts_now_has_another_state(tmp_path: Path, more: str) -> None:
    mine = "m: {python: w.py:Mine, of: v, returns: double}"
    step = STEP.replace("n: count(*)", f"{mine}{more}")
    (tmp_path / "w.py").write_text(MINE)
    was = document(plan(tmp_path, pipeline(step, BEFORE)))
    (tmp_path / "w.py").write_text(f"{MINE}    def retract(self, partial, removed): return 1\n")
    refused = refusal(was, plan(tmp_path, pipeline(step, BEFORE)))
    assert "the state of step has w.py:Mine(v) -> double of another type" in refused


def test_rows_that_an_older_version_stored_are_counted(tmp_path: Path) -> None:
    step = STEP.replace("n: count(*)", "least: min(v)")
    now = plan(tmp_path, pipeline(step, BEFORE))
    was: Any = document(now)
    was["kept"]["step"]["states"] = ["keys", "rows"]
    assert notes(was, now) == ()
    was["kept"]["step"]["states"] = ["keys", "others"]
    refused = refusal(was, now)
    assert "the state of step has other contents: keys, others, not keys, values" in refused
