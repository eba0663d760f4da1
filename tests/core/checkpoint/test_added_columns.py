"""States that count rows get a new column if earlier rows are removed with null in it, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from headrace.core.api.state_backend import StateBackend
from headrace.core.types.elements import DELETE
from headrace.state.memory.backend import MemoryBackend
from headrace.state.rocks.backend import RocksBackend
from tests.core.job import test_changed_pipelines as given
from tests.core.job.test_changed_pipelines import Job
from tests.support.runtime.changed_pipelines import HEAD, document, notes, pipeline, plan, refusal
from tests.support.runtime.crashing_jobs import Fate

Rows = list[tuple[Any, ...]]

BEFORE: Rows = [(1, "a", 1, 9.0, 0), (2, "b", 1, 9.0, 1), (3, "a", 2, 9.0, 2), (4, "c", 3, 9.0, 3)]
WITHOUT_X: Rows = [(k, s, v, None, at) for k, s, v, _, at in BEFORE]
AFTER: Rows = [
    (1, "b", 1, 2.0, 4),
    (5, "a", 3, 5.0, 5),
    (2, "b", -1, 4.0, 6),
    (3, "a", 2, 7.0, 7),
    (4, "c", 3, 1.0, 8),
    (4, "a", 3, None, 9),
    (6, "d", 4, 6.0, 60),
]
"""Rows that replace others by `k`; those with a negative `v` are removed."""

STEPS = """\
steps:
  latest: {from: rows, dedup: {key: k, keep: last}}
  clean: {from: latest, where: v > 0, select: [k, s, v]}
  joined:
    join: {left: {from: clean, as: a}, right: {from: clean, as: b}, on: a.v = b.k, type: left}
    select: {k: a.k, s: a.s, v: a.v, t: b.s}
  sums: {from: joined, key: s, aggregate: {n: count(*), total: sum(v)}}
  least: {from: joined, key: s, aggregate: {n: count(*), m: min(v)}}
  best: {from: joined, key: s, top: {n: 2, by: [v, k]}}
  again: {from: least, key: n, aggregate: {groups: count(*)}}
  timed: {from: clean, key: s, window: {tumble: 10s}, aggregate: {n: count(*)}}
  ranked: {from: clean, key: s, window: {session: 5s}, top: {n: 2, by: k}}
"""
CHANGES = {
    "[k, s, v]": "[k, s, x, v]",
    "t: b.s": "t: b.s, x: a.x, y: b.x",
    "sum(v)": "sum(v), xs: count(x), t: sum(cast(x as bigint))",
    "min(v)": "min(v), xs: count(x)",
    "groups: count(*)": "groups: count(*), xs: sum(xs)",
    "10s}, aggregate: {n: count(*)": "10s}, aggregate: {n: count(*), xs: count(x), most: max(x)",
}
KEYS = {
    "joined": ["k"],
    "sums": ["s"],
    "least": ["s"],
    "best": ["s", "rank"],
    "again": ["n"],
    "timed": None,
    "ranked": None,
}
SINKS = "".join(f"  {name}_out: {{from: {name}, memory: {{data: {name}}}}}\n" for name in KEYS)
OLD = f"{HEAD}{STEPS}sinks:\n{SINKS}"


def changed(text: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


NEW = changed(OLD, CHANGES)


def tables(job: Job) -> dict[str, list[dict[str, Any]]]:
    """Return the final rows of each sink."""
    found = {}
    for name, key in KEYS.items():
        rows: dict[object, dict[str, Any]] = {}
        changes = (row for f in job.memory.outputs[name] for row in f.rows(named=True))
        for number, row in enumerate(changes):
            id = number if key is None else tuple(row[each] for each in key)
            rows[id] = row
            if row.get(DELETE):
                del rows[id]
        shown = [{n: v for n, v in row.items() if n[:2] != "__"} for row in rows.values()]
        found[name] = sorted(shown, key=repr)
    return found


def test_the_result_is_that_of_earlier_rows_without_the_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state that is migrated is on disk, the other one in memory."""
    found = dict[str, Mapping[str, Any]]()
    backends: tuple[Callable[[], StateBackend], ...] = (
        lambda: RocksBackend(str(tmp_path / f"state-{uuid4()}"), 1),
        MemoryBackend,
    )
    for backend, before, rows in zip(backends, (OLD, NEW), (BEFORE, WITHOUT_X), strict=True):
        monkeypatch.setattr(given, "BEFORE", rows)
        monkeypatch.setattr(given, "AFTER", AFTER)
        folder = tmp_path / str(len(found))
        folder.mkdir()
        job = Job(folder, backend)
        job.before(before)
        job.after(NEW, "", fate=Fate(parallelism=2))
        found[before] = tables(job)
        if before == OLD:
            told = job.told
    assert found[OLD] == found[NEW]
    assert [row["s"] for row in found[OLD]["sums"]] == ["a", "b", "d"]
    assert "joined has column `a.x` only for new rows" in told


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"t: b.s": "t: b.s, u: b.v"},
            "the state of joined has other columns: column `b.v`; a row",
        ),
        ({"t: b.s": "t: b.s, z: a.v * 2"}, "the state of best has other columns: column z; a row"),
        ({"sum(v)": "sum(v), c: count(v)"}, "the state of sums has other columns: count(v) of"),
        ({**CHANGES, "min(v)": "min(v), xs: max(x)"}, "of least has other columns: max(x) of"),
        ({**CHANGES, "a.x": "a.x + 1"}, "the state of best has other columns: column x; a row"),
        ({"t: b.s": "t: a.s"}, "removed as they were added, and joined has changed: was t = b.s"),
    ],
)
def test_other_columns_are_refused(tmp_path: Path, change: dict[str, str], reason: str) -> None:
    refused = refusal(document(plan(tmp_path, OLD)), plan(tmp_path, changed(OLD, change)))
    assert reason in refused
    assert "undo the change" in refused
    assert "--reset-state clean@retract --reset-state joined " in refused


def test_a_column_may_not_take_the_name_of_one_that_is_lost(tmp_path: Path) -> None:
    """Also if the loss is allowed: stored rows have the values of the other one."""
    old = changed(OLD, {"[k, s, v]": "[k, s, v, x]", "t: b.s": "t: b.s, z: a.x"})
    now = changed(old, {"[k, s, v, x]": "{k: k, s: s, v: v, w: x}", "z: a.x": "z: a.w"})
    assert "joined" in refusal(document(plan(tmp_path, old)), plan(tmp_path, now), lose=True)


LATEST = "  latest: {from: rows, dedup: {key: k, keep: last}}\n"


@pytest.mark.parametrize(
    ("aggregates", "is_accepted"),
    [
        ("b: min(k), n: count(*), a: max(v)", False),
        ("a: max(v), more: min(v), b: min(k)", False),
        ("n: count(*), a: max(v), b: min(k)", True),
    ],
)
def test_counted_values_keep_their_places(
    tmp_path: Path, aggregates: str, is_accepted: bool
) -> None:
    step = "from: latest, key: s, aggregate: {{{}}}"
    was = document(
        plan(tmp_path, pipeline(step.format("a: max(v), b: min(k), n: count(*)"), LATEST))
    )
    now = plan(tmp_path, pipeline(step.format(aggregates), LATEST))
    if is_accepted:
        assert notes(was, now) == ()
    else:
        assert "the state of step has other co" in refusal(was, now)
