"""Sessions of rows that are inserted, updated and deleted, by hand, with the real runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.core.types.elements import DELETE
from tests.core.operators.changelog.test_table_steps import Change, at, facts, final, run

SESSIONS = "window: {session: 5s}, aggregate: {n: count(*), total: sum(v)}"
STEP = f"  step: {{from: table, key: g, {SESSIONS}}}\n"
ROWS: list[Sequence[Change]] = [[(1, "a", 1, 0), (2, "a", 2, 4), (3, "a", 4, 8), (9, "z", 9, 3)]]


def changes(step: str, more: str) -> str:
    """Return the step with another window."""
    return step.replace("session: 5s", f"session: 5s, {more}")


def test_a_session_has_the_rows_that_are_there_when_it_ends(tmp_path: Path) -> None:
    assert final(tmp_path, STEP, *ROWS) == {
        ("a", at(0), at(13), 3, 7): 1,
        ("z", at(3), at(8), 1, 9): 1,
    }
    assert final(tmp_path, STEP, *ROWS, [(9, "a", 9, 8)]) == {("a", at(0), at(13), 4, 16): 1}


def test_a_removal_splits_a_session(tmp_path: Path) -> None:
    # The row of second 4 moves: the rest of its session is two sessions, of which one has ended.
    moved: list[Sequence[Change]] = [*ROWS, [(2, "b", 2, 9)]]
    assert final(tmp_path, STEP, *moved) == {
        ("a", at(0), at(5), 1, 1): 1,
        ("a", at(8), at(13), 1, 4): 1,
        ("b", at(9), at(14), 1, 2): 1,
        ("z", at(3), at(8), 1, 9): 1,
    }


def test_a_removal_ends_a_session_earlier(tmp_path: Path) -> None:
    moved: list[Sequence[Change]] = [*ROWS, [(3, "a", None, 9)], [(7, "b", 7, 10)]]
    found = final(tmp_path, STEP, *moved)
    assert found[("a", at(0), at(9), 2, 3)] == 1, found


def test_a_change_of_a_session_that_has_ended_is_late(tmp_path: Path) -> None:
    late = changes(STEP, "late_to: late")
    came: list[Sequence[Change]] = [*ROWS, [(5, "b", 5, 14)], [(2, "b", 7, 15)]]
    sinks = "  late_out: {from: late, memory: {data: late}}\n"
    _, memory = run(tmp_path, late, *came, sinks=sinks)
    assert facts(memory, "g", "window_start", "window_end", "n", "total") == {
        ("a", at(0), at(13), 3, 7): 1,
        ("b", at(14), at(20), 2, 12): 1,
        ("z", at(3), at(8), 1, 9): 1,
    }
    (frame,) = memory.outputs["late"]
    assert frame.select("id", "v", "_change").rows() == [(2, 2, "delete")]


def test_a_change_within_the_lateness_changes_a_session(tmp_path: Path) -> None:
    step = changes(STEP, "lateness: 1m")
    came: list[Sequence[Change]] = [*ROWS, [(5, "b", 5, 20)]]
    assert final(tmp_path, step, *came, [(1, "b", 7, 21)], [(9, "z", None, 22)]) == {
        ("a", at(4), at(13), 2, 6): 1,
        ("b", at(20), at(26), 2, 12): 1,
    }
    # One session becomes two, and one again.
    assert final(tmp_path, step, *came, [(2, "b", 2, 21)], [(2, "a", 2, 4)]) == {
        ("a", at(0), at(13), 3, 7): 1,
        ("b", at(20), at(25), 1, 5): 1,
        ("z", at(3), at(8), 1, 9): 1,
    }


def test_only_the_changed_sessions_of_a_key_are_emitted_again(tmp_path: Path) -> None:
    step = changes(STEP, "lateness: 1m")
    came: list[Sequence[Change]] = [[(1, "a", 1, 0), (2, "a", 2, 10)], [(3, "b", 3, 30)]]
    _, memory = run(tmp_path, step, *came, [(2, "a", 5, 10)], [(3, "b", None, 31)])
    rows = [
        row
        for frame in memory.outputs["out"]
        for row in frame.select("g", "window_start", "total", DELETE).rows()
    ]
    assert rows == [
        ("a", at(0), 1, False),
        ("a", at(10), 2, False),
        ("a", at(10), 5, False),
    ]


def test_the_best_rows_of_a_session(tmp_path: Path) -> None:
    step = "  step: {from: table, key: g, window: {session: 5s}, top: {n: 1, by: v desc}, drop: at}"
    assert final(tmp_path, f"{step}\n", *ROWS, [(3, "a", None, 9)]) == {
        (2, "a", 2, 1): 1,
        (9, "z", 9, 1): 1,
    }


@pytest.mark.parametrize("table", ["rows", "table"])
@pytest.mark.parametrize("shape", ["session: 5s", "tumble: 10s"])
def test_a_window_reads_windows_that_can_fire_again(tmp_path: Path, table: str, shape: str) -> None:
    window = f"window: {{{shape}, lateness: 1m}}, aggregate: {{total: sum(v)}}"
    outer = "window: {tumble: 20s}, aggregate: {n: count(*), total: sum(total)}"
    steps = f"  inner: {{from: {table}, key: g, {window}}}\n  step: {{from: inner, {outer}}}\n"
    came: list[Sequence[Change]] = [[(1, "a", 1, 0), (2, "b", 2, 3)], [(3, "b", 3, 50)]]
    came += [[(4, "a", 4, 1), (5, "c", 5, 2)]]
    unused = "  unused: {from: table, memory: {data: unused}}\n"
    assert final(tmp_path, steps, *came, sinks=unused) == {
        (at(0), at(20), 3, 12): 1,
        (at(40), at(60), 1, 3): 1,
    }
