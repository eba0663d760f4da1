"""The subtasks that restart together."""

from __future__ import annotations

from pathlib import Path

from headrace.core.api.splits import SubtaskId
from headrace.core.plan import nodes
from headrace.core.plan.placement import place_subtasks
from headrace.core.plan.regions import find_lost_subtasks, find_regions
from tests.support.plans import SOURCE, UNTIMED, plan_of


def regions_of(plan: nodes.Plan) -> list[set[tuple[str, int]]]:
    """Return the regions, with the first part of the task of each subtask."""
    return [
        {(plan.tasks[subtask.task].parts[0], subtask.index) for subtask in region}
        for region in find_regions(plan)
    ]


FORWARD = """
settings: {parallelism: 3}
steps: {some: {from: orders, where: id is not null}}
sinks: {out: {from: some, console: {}}, other: {from: some, console: {}}}
"""


def test_forward_edges_connect_equal_indices(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SOURCE + FORWARD)
    assert regions_of(plan) == [
        {("orders", index), ("out", index), ("other", index)} for index in range(3)
    ]


def test_an_exchange_connects_all_that_it_reads_and_writes(tmp_path: Path) -> None:
    text = """
settings: {parallelism: 2}
steps:
  n: {from: orders, key: id, window: {count: 10}, aggregate: {n: count(*)}}
sinks: {out: {from: n, console: {}}, other: {from: orders, console: {}}}
"""
    (only,) = regions_of(plan_of(tmp_path, SOURCE + text))
    assert only == {(part, index) for part in ("orders", "n", "other") for index in range(2)}


def test_a_rebalance_joins_the_pipelines_before_it(tmp_path: Path) -> None:
    text = """
settings: {parallelism: 3}
sinks: {one: {from: orders, console: {}, parallelism: 2}}
"""
    (only,) = regions_of(plan_of(tmp_path, SOURCE + text))
    assert len(only) == 5


def test_pipelines_that_share_nothing_are_apart(tmp_path: Path) -> None:
    text = """
sinks: {out: {from: orders, console: {}}, other: {from: plain, console: {}}}
"""
    assert regions_of(plan_of(tmp_path, SOURCE + UNTIMED + text)) == [
        {("orders", 0)},
        {("plain", 0)},
    ]


def test_a_worker_takes_all_subtasks_of_its_regions_with_it(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SOURCE + FORWARD)
    regions, placement = find_regions(plan), place_subtasks(plan, 2)
    assert find_lost_subtasks(regions, placement, 1) == {SubtaskId(task, 1) for task in range(3)}
    assert len(find_lost_subtasks(regions, placement, 0)) == 6
    assert find_lost_subtasks([frozenset(placement)], placement, 1) == set(placement)
    assert find_lost_subtasks(regions, placement, 2) == set()
