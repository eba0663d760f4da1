"""Windows of rows that are inserted, updated and deleted, by hand, with the real runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.connectors.memory import InMemoryData
from headrace.core.types.elements import DELETE
from tests.core.operators.changelog.test_table_steps import (
    FIRST,
    Change,
    at,
    facts,
    final,
    run,
)
from tests.support.plans import SOURCE, said
from tests.support.runtime.committed_output import Values


def test_a_row_moves_from_one_window_to_another(tmp_path: Path) -> None:
    windows = "window: {tumble: 10s}, aggregate: {n: count(*), total: sum(v)}"
    step = f"  step: {{from: table, key: g, {windows}, select: [g, window_start, n, total]}}\n"
    came: list[Sequence[Change]] = [
        [(1, "a", 10, 0), (2, "a", 20, 1), (3, "b", 5, 2)],
        [(1, "a", 10, 12)],
    ]
    assert final(tmp_path, step, *came, [(3, "b", None, 25)]) == {
        ("a", at(0), 1, 20): 1,
        ("b", at(0), 1, 5): 1,
        ("a", at(10), 1, 10): 1,
    }


def test_the_best_rows_of_a_window_are_those_that_are_there_when_it_ends(tmp_path: Path) -> None:
    step = "  step: {from: table, key: g, window: {tumble: 10s}, top: {n: 1, by: v desc}, drop: at}"
    came: list[Sequence[Change]] = [
        [(1, "a", 10, 0), (2, "a", 20, 1), (3, "b", 5, 2)],
        [(2, "a", None, 3)],
    ]
    assert final(tmp_path, f"{step}\n", *came, [(3, "b", 6, 4)]) == {
        (1, "a", 10, 1): 1,
        (3, "b", 6, 1): 1,
    }


def test_a_change_of_a_closed_window_is_late(tmp_path: Path) -> None:
    windows = "window: {tumble: 10s, late_to: late}, aggregate: {n: count(*)}"
    step = f"  step: {{from: table, key: g, {windows}, select: [g, window_start, n]}}\n"
    late = "  late_out: {from: late, memory: {data: late}}\n"
    came: list[Sequence[Change]] = [
        [(1, "a", 10, 0), (2, "a", 20, 1)],
        [(3, "b", 5, 15)],
        [(1, "a", 99, 16)],
    ]
    _, memory = run(tmp_path, step, *came, sinks=late)
    assert facts(memory, "g", "window_start", "n") == {
        ("a", at(0), 2): 1,
        ("a", at(10), 1): 1,
        ("b", at(10), 1): 1,
    }
    (frame,) = memory.outputs["late"]
    assert frame.select("id", "v", "_change").rows() == [(1, 10, "delete")]


def list_changes(memory: InMemoryData, *names: str) -> list[Values]:
    """Return each emitted change, with whether it deletes a row."""
    frames = memory.outputs["out"]
    return [row for frame in frames for row in frame.select(*names, DELETE).rows()]


SUM = "aggregate: {n: count(*), total: sum(v)}"


@pytest.mark.parametrize(
    "shape", ["tumble: 10s", "slide: 10s, every: 10s, offset: 0s", "cumulate: 10s, every: 10s"]
)
def test_a_change_within_the_lateness_fires_a_window_again(tmp_path: Path, shape: str) -> None:
    step = f"  step: {{from: table, key: g, window: {{{shape}, lateness: 1m}}, {SUM}}}\n"
    came: list[Sequence[Change]] = [FIRST, [(3, "b", 5, 15)], [(1, "b", 10, 16)]]
    _, memory = run(tmp_path, step, *came, [(2, "a", None, 17)])
    assert [each for each in list_changes(memory, "g", "n", "total") if each[0] == "a"] == [
        ("a", 2, 30, False),
        ("a", 1, 20, False),
        ("a", 0, None, True),
    ]


def test_only_the_windows_without_rows_are_deleted(tmp_path: Path) -> None:
    window = "window: {slide: 10s, every: 5s, lateness: 1m}"
    step = f"  step: {{from: table, key: g, {window}, {SUM}}}\n"
    came: list[Sequence[Change]] = [[(1, "a", 1, 0), (2, "a", 2, 7)], [(3, "b", 5, 20)]]
    assert final(tmp_path, step, *came, [(1, "b", 1, 21)], [(3, "b", None, 22)]) == {
        ("a", at(0), at(10), 1, 2): 1,
        ("a", at(5), at(15), 1, 2): 1,
        ("b", at(15), at(25), 1, 1): 1,
        ("b", at(20), at(30), 1, 1): 1,
    }


def test_a_trigger_by_time_emits_the_changes_of_a_window(tmp_path: Path) -> None:
    window = "window: {tumble: 1m, trigger: {every: 5s}}"
    step = f"  step: {{from: table, key: g, {window}, {SUM}}}\n"
    came: list[Sequence[Change]] = [FIRST, [(1, "b", 10, 6)], [(2, "b", 20, 12)]]
    _, memory = run(tmp_path, step, *came)
    of_a = [each for each in list_changes(memory, "g", "n", "total") if each[0] == "a"]
    assert of_a[0] == ("a", 2, 30, False) and of_a[-1] == ("a", 0, None, True)


def test_a_window_that_lost_its_rows_after_it_fired_is_deleted_at_its_end(tmp_path: Path) -> None:
    window = "window: {tumble: 10s, trigger: {every: 4s}}"
    step = f"  step: {{from: table, key: g, {window}, {SUM}}}\n"
    came: list[Sequence[Change]] = [[(1, "a", 10, 0), (3, "b", 5, 5)], [(1, "b", 10, 11)]]
    _, memory = run(tmp_path, step, *came)
    of_a = [each for each in list_changes(memory, "g", "n", "total") if each[0] == "a"]
    assert of_a == [("a", 1, 10, False), ("a", 0, None, True)]


def test_the_global_window_has_the_rows_that_are_there_at_the_end(tmp_path: Path) -> None:
    step = f"  step: {{from: table, key: g, window: global, {SUM}}}\n"
    came: list[Sequence[Change]] = [FIRST, [(1, "b", 10, 6)], [(2, "a", None, 12)]]
    _, memory = run(tmp_path, step, *came)
    assert facts(memory, "g", "n", "total") == {("b", 1, 10): 1}


def test_an_evictor_selects_among_the_rows_that_are_there(tmp_path: Path) -> None:
    step = f"  step: {{from: table, key: g, window: {{tumble: 1m, evict: {{last: 2}}}}, {SUM}}}\n"
    came: list[Sequence[Change]] = [FIRST, [(3, "a", 40, 3)], [(2, "a", None, 5)]]
    _, memory = run(tmp_path, step, *came)
    assert facts(memory, "g", "n", "total") == {("a", 2, 50): 1}


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("session: 1m", None),
        ("tumble: 1m, lateness: 1m", None),
        ("global: true", "a global window fires at the end, but its input has no end"),
        ("global: true, trigger: {every: 1m}", 'every "name" is stored until its last row'),
    ],
)
def test_only_windows_without_bounds_grow(tmp_path: Path, window: str, message: str | None) -> None:
    source = SOURCE.replace("{path: in}", "{path: in, watch: 1s, ordered: true}")
    steps = (
        "steps:\n  latest: {from: orders, dedup: {key: id, keep: last}}\n"
        f"  step: {{from: latest, key: name, window: {{{window}}}, aggregate: {{n: count(*)}}}}\n"
    )
    lines = said(tmp_path, f"{source}{steps}sinks: {{out: {{from: step, console: {{}}}}}}\n")
    assert len(lines) == (message is not None), lines
    assert all(message in line for line in lines if message)
