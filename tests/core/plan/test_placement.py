"""The placement of subtasks on workers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from headrace.core.plan import nodes
from headrace.core.plan.layout import list_subtask_ids
from headrace.core.plan.placement import count_usable_workers, place_subtasks
from tests.support.plans import SOURCE, plan_of

KEYED = """
settings: {{parallelism: {parallelism}}}
steps:
  some: {{from: orders, where: id is not null}}
  n: {{from: some, key: id, window: {{count: 10}}, aggregate: {{n: count(*)}}}}
  more: {{from: n, where: n > 1}}
sinks: {{out: {{from: more, console: {{}}}}, other: {{from: more, console: {{}}}}}}
"""


def keyed_plan(folder: Path, parallelism: int) -> nodes.Plan:
    """Return a plan of four tasks: a source, a keyed step, and two sinks that read its output."""
    plan = plan_of(folder, SOURCE + KEYED.format(parallelism=parallelism))
    assert [task.parts for task in plan.tasks] == [
        ("orders", "some"),
        ("n", "more"),
        ("out",),
        ("other",),
    ]
    return plan


def place(plan: nodes.Plan, workers: int) -> dict[str, list[int]]:
    """Return the worker of each subtask, by the first part of its task."""
    placement = place_subtasks(plan, workers)
    assert tuple(placement) == list_subtask_ids(plan)
    placed: dict[str, list[int]] = {}
    for subtask, worker in placement.items():
        placed.setdefault(plan.tasks[subtask.task].parts[0], []).append(worker)
    return placed


def test_one_worker_runs_all(tmp_path: Path) -> None:
    assert set(place_subtasks(keyed_plan(tmp_path, 3), 1).values()) == {0}


def test_a_worker_holds_whole_pipelines(tmp_path: Path) -> None:
    alike = [0, 1, 0, 1]
    assert place(keyed_plan(tmp_path, 4), 2) == dict.fromkeys(
        ("orders", "n", "out", "other"), alike
    )


@pytest.mark.parametrize("parallelism", [2, 3, 5, 8])
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 16])
def test_forward_edges_never_cross_workers(tmp_path: Path, parallelism: int, workers: int) -> None:
    plan = keyed_plan(tmp_path, parallelism)
    placed = place(plan, workers)
    assert placed["n"] == placed["out"] == placed["other"]
    assert all(0 <= worker < workers for each in placed.values() for worker in each)


@pytest.mark.parametrize(("parallelism", "workers"), [(3, 2), (5, 4), (6, 4), (7, 3)])
def test_slots_that_cannot_be_dealt_out_evenly_go_where_least_is(
    tmp_path: Path, parallelism: int, workers: int
) -> None:
    placed = place(keyed_plan(tmp_path, parallelism), workers)
    groups = Counter(placed["orders"]), Counter(placed["n"])
    for counts in groups:
        assert max(counts.values()) - min(counts[each] for each in range(workers)) == 1
    assert {worker for worker, count in groups[0].items() if count == max(groups[0].values())} != {
        worker for worker, count in groups[1].items() if count == max(groups[1].values())
    }


def test_a_lone_sink_is_apart_from_the_first_subtask_of_its_source(tmp_path: Path) -> None:
    text = """
settings: {parallelism: 2}
sinks: {out: {from: orders, console: {}, parallelism: 1}}
"""
    assert place(plan_of(tmp_path, SOURCE + text), 2) == {"orders": [0, 1], "out": [1]}


def test_groups_of_one_slot_share_its_workers(tmp_path: Path) -> None:
    plan = keyed_plan(tmp_path, 2)
    assert place(plan, 4) == {"orders": [0, 1], "n": [2, 3], "out": [2, 3], "other": [2, 3]}


SLOTS = """
settings: {{parallelism: {parallelism}}}
steps:
  some: {{from: orders, where: id is not null}}
  heavy: {{from: some, where: id > 1, slot: heavy{own}}}
sinks: {{out: {{from: heavy, console: {{}}, slot: default}}}}
"""


@pytest.mark.parametrize(
    ("parallelism", "own", "workers", "default", "heavy"),
    [
        (2, 2, 2, [0, 0], [1, 1]),
        (4, 4, 4, [0, 1, 0, 1], [2, 3, 2, 3]),
        (3, 1, 4, [0, 1, 2], [3]),
        (1, 3, 4, [0], [1, 2, 3]),
        (4, 4, 1, [0, 0, 0, 0], [0, 0, 0, 0]),
    ],
)
def test_slots_have_workers_of_their_own(
    tmp_path: Path, parallelism: int, own: int, workers: int, default: list[int], heavy: list[int]
) -> None:
    text = SLOTS.format(parallelism=parallelism, own=f", parallelism: {own}")
    placed = place(plan_of(tmp_path, SOURCE + text), workers)
    assert placed == {"orders": default, "heavy": heavy, "out": default}


@pytest.mark.parametrize("parallelism", [1, 2, 5])
@pytest.mark.parametrize("workers", [2, 3, 7])
def test_slots_never_share_a_worker_if_there_are_enough(
    tmp_path: Path, parallelism: int, workers: int
) -> None:
    plan = plan_of(tmp_path, SOURCE + SLOTS.format(parallelism=parallelism, own=""))
    placed = place(plan, workers)
    assert not {*placed["orders"], *placed["out"]} & {*placed["heavy"]}
    assert len({*placed["orders"], *placed["heavy"]}) == min(workers, 2 * parallelism)


@pytest.mark.parametrize(("default", "heavy"), [(1, 1), (1, 4), (3, 2), (4, 1)])
def test_no_worker_up_to_the_usable_ones_is_without_subtasks(
    tmp_path: Path, default: int, heavy: int
) -> None:
    text = SOURCE + SLOTS.format(parallelism=default, own=f", parallelism: {heavy}")
    plan = plan_of(tmp_path, text)
    usable = count_usable_workers(plan)
    assert usable == 2 * default + heavy  # source and sink are not connected within their slot
    for workers in range(1, usable + 3):
        used = {*place_subtasks(plan, workers).values()}
        assert used == {*range(min(workers, usable))}


def test_slots_share_workers_if_there_are_too_few(tmp_path: Path) -> None:
    text = """
settings: {parallelism: 2}
steps: {one: {from: orders, where: id > 1, slot: one}, two: {from: one, where: id > 2, slot: two}}
sinks: {out: {from: two, console: {}}}
"""
    placed = place(plan_of(tmp_path, SOURCE + text), 2)
    assert placed == {"orders": [0, 0], "one": [1, 1], "two": [0, 0]}
