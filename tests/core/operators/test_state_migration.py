"""Rows that are kept as they came, whose columns are others now, or stand in another order."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.api.snapshots import SnapshotError
from headrace.core.operators.changelog.top import ChangelogTopOperator
from tests.core.job import test_changed_pipelines as given
from tests.core.job.test_changed_pipelines import Backend, Job, backend
from tests.support.runtime.changed_pipelines import pipeline

__all__ = ["backend"]

SUMS = "  sums: {from: rows, key: [k, s], aggregate: {n: count(*), v: sum(v)}}\n"
COLUMNS = ["k, s, v", "n, s, v, k", "v, n, k, s", "s, v, k"]


def best(most: int, columns: str) -> str:
    """The best of changes."""
    top = f"from: best, key: k, top: {{n: {most}, by: v desc}}"
    return pipeline(top, f"{SUMS}  best: {{from: sums, select: [{columns}]}}\n")


@pytest.mark.parametrize("most", [2, 1])
def test_new_columns_of_a_top_of_changes_are_null_in_rows_of_before(
    tmp_path: Path, backend: Backend, most: int
) -> None:
    job = Job(tmp_path, backend)
    job.before(best(most, "k, s, v"))
    wanted = [
        (1, 1, 10, "d", 1),
        (1, 2, 3, "c", None),
        (2, 1, 30, "f", 1),
        (2, 2, 2, "b", None),
        (3, 1, 20, "e", 1),
    ]
    found = job.after(best(most, "n, s, v, k"), "k rank v s n")
    assert found == [row for row in wanted if row[1] <= most]


@pytest.mark.parametrize("columns", COLUMNS)
def test_stored_rows_of_large_groups_are_migrated(
    tmp_path: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setattr(ChangelogTopOperator.__init__, "__defaults__", (0,))
    monkeypatch.setattr(given, "BEFORE", [(1, s, at, 0.5, at) for at, s in enumerate("abcdefgh")])
    monkeypatch.setattr(given, "AFTER", [(1, s, -50, 0.5, 10 + at) for at, s in enumerate("hgfed")])
    job = Job(tmp_path, backend)
    job.before(best(1, "k, s, v"))
    assert job.after(best(1, columns), "k rank v s") == [(1, 1, 2, "c")]


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ("c: count(*)", [(1, 10, 3), (2, 30, 2), (3, 20, 1)]),
        ("c: sum(n)", [(1, 10, 1), (2, 30, 1), (3, 20, 1)]),
        ("c: min(s)", [(1, 10, "d"), (2, 30, "f"), (3, 20, "e")]),
    ],
)
def test_a_new_aggregate_sees_the_stored_rows_and_columns_only(
    tmp_path: Path, backend: Backend, more: str, wanted: list[tuple[object, ...]]
) -> None:
    job = Job(tmp_path, backend)
    job.before(pipeline("from: sums, key: k, aggregate: {m: max(v)}", SUMS))
    now = pipeline(f"from: sums, key: k, aggregate: {{m: max(v), {more}}}", SUMS)
    assert job.after(now, "k m c") == wanted


@pytest.mark.parametrize("columns", ["[k, s, v]", "[x, v, k]", "[k, x, s, v]"])
@pytest.mark.parametrize(
    ("before", "now"), [("", ""), ("", ", ttl: 1h"), (", ttl: 1h", ""), (", ttl: 1h", ", ttl: 2h")]
)
def test_rows_that_wait_for_their_time(
    tmp_path: Path, backend: Backend, before: str, now: str, columns: str
) -> None:
    def text(ttl: str, columns: str) -> str:
        step = f"from: rows, dedup: {{key: k, order: event_time{ttl}}}, select: {columns}"
        return pipeline(step).replace("delay: 0s", "delay: 3s")

    job = Job(tmp_path, backend)
    job.before(text(before, "[k, s, v]"))
    found = job.after(text(now, columns), "k v x", lose=True)
    assert found == [(1, 1, None), (2, 2, None), (3, 20, 3.0 if "x" in columns else None)]


@pytest.mark.parametrize(
    "now",
    [
        "key: k, aggregate: {best: max(v), l: min(v)}",
        "key: {kk: k}, aggregate: {m: max(v), l: min(v)}",
    ],
)
def test_a_row_that_may_be_deleted_as_it_was_keeps_its_names(tmp_path: Path, now: str) -> None:
    job = Job(tmp_path)
    job.before(pipeline("from: sums, key: k, aggregate: {m: max(v), l: min(v)}", SUMS))
    with pytest.raises(SnapshotError, match=r'has emitted rows with "?[mk]"?') as refused:
        job.after(pipeline(f"from: sums, {now}", SUMS), "k m l")
    assert "--reset-state step" in refused.value.hint


@pytest.mark.parametrize("now", ["{l: min(v), m: max(v)}", "{m: max(v), more: max(v), l: min(v)}"])
def test_an_aggregate_of_changes_in_another_order_or_twice(
    tmp_path: Path, backend: Backend, now: str
) -> None:
    job = Job(tmp_path, backend)
    job.before(pipeline("from: sums, key: k, aggregate: {m: max(v), l: min(v)}", SUMS))
    found = job.after(pipeline(f"from: sums, key: k, aggregate: {now}", SUMS), "k m l")
    assert found == [(1, 10, 1), (2, 30, 2), (3, 20, 20)]


def test_a_key_that_was_remembered_without_ttl_is_known(
    tmp_path: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given, "BEFORE", [*given.BEFORE, (9, "z", 9, 0.5, 3)])
    step = "from: rows, dedup: {key: k, order: event_time}"
    job = Job(tmp_path, backend)
    job.before(pipeline(step))
    text = pipeline(step.replace("key: k", "key: k, ttl: 1h"))
    assert job.after(text, "k v") == [(1, 1), (2, 2), (3, 20), (9, 9)]


@pytest.mark.parametrize(
    "step", ["dedup: {key: k, keep: last, order: event_time}", "top: {n: 1, by: v}"]
)
def test_keys_may_move_after_the_old_checkpoint_is_removed(
    tmp_path: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    of_the_first = [1, 3, 5, 7]
    monkeypatch.setattr(given, "BEFORE", [(k, "a", k, 0.5, 0) for k in of_the_first])
    monkeypatch.setattr(given, "AFTER", [(k, "b", k, 0.5, 1) for k in range(1, 20)])
    key = "" if "dedup" in step else "key: k, "
    text = pipeline(f"from: rows, {key}{step}").replace("delay: 0s", "delay: 9s")
    job = Job(tmp_path, backend)
    job.before(f"settings: {{parallelism: 1}}\n{text}")
    found = job.after(f"settings: {{parallelism: 2}}\n{text}", "k v")
    assert found == sorted([(k, k) for k in range(1, 20)], key=repr)


@pytest.mark.parametrize("evict", ["{last: 2}", "{within: 1h}"])
@pytest.mark.parametrize("columns", ["x, v, k, s, rank", "s, rank, k, v"])
def test_rows_that_an_evictor_leaves_for_a_top(
    tmp_path: Path, backend: Backend, evict: str, columns: str
) -> None:
    window = f"window: {{tumble: 100s, evict: {evict}}}"
    step = f"from: mixed, key: k, {window}, top: {{n: 2, by: v desc}}, select:"
    mixed = "  mixed: {from: rows, select: [v, x, s, k]}\n"
    job = Job(tmp_path, backend)
    job.before(pipeline(f"{step} [k, rank, v]", mixed))
    assert job.after(pipeline(f"{step} [{columns}]", mixed), "k rank v s") == [
        (1, 1, 10, "d"),
        (1, 2, 3, None),
        (2, 1, 30, "f"),
        (2, 2, 2, None),
        (3, 1, 20, "e"),
    ]
