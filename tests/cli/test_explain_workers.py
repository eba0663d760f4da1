"""The workers and their subtasks in `headrace explain`."""

from pathlib import Path

import orjson
import pytest

from headrace.cli.explain_workers import WorkerPlan
from headrace.core.plan.placement import PlacedTask
from tests.support.cli.command_line import Headrace

PIPELINE = """
name: p
settings: {workers: 2}
sources:
  numbers: {generate: {columns: {x: id}}}
steps:
  some: {from: numbers, where: x > 1}
  heavy: {from: some, map: {python: f.py:f, returns: {x: bigint}}, slot: heavy}
sinks:
  out: {from: heavy, console: {}, slot: default, chain: false}
"""


def explain_workers(headrace: Headrace, *arguments: str, text: str = PIPELINE) -> list[str]:
    """Return the lines about workers; none if the plan is without them."""
    Path("f.py").write_text("def f(rows):\n    return rows\n")
    Path("p.yaml").write_text(text)
    ran = headrace("explain", "p.yaml", *arguments)
    assert (ran.status, ran.err) == (0, "")
    before, found, after = ran.out.partition("\nworkers: ")
    assert "    2  heavy, parallelism" in before or text is not PIPELINE
    return (found + after).strip().splitlines()


def test_each_worker_has_its_tasks_and_their_subtasks(headrace: Headrace) -> None:
    assert explain_workers(headrace) == [
        "workers: 2",
        "    1  task 1: subtasks 0, 1; task 3: subtasks 0, 1",
        "    2  task 2: subtasks 0, 1",
    ]
    assert explain_workers(headrace, "--set", "settings.parallelism=10")[2:] == [
        "    2  task 2: subtasks 0, 1, ..., 9"
    ]


def test_workers_without_subtasks_are_not_started(headrace: Headrace) -> None:
    many = ["--set", "settings.parallelism=1", "--set", "settings.workers=12"]
    assert explain_workers(headrace, *many) == [
        "workers: 3",
        "    1  task 1: subtask 0",
        "    2  task 3: subtask 0",
        "    3  task 2: subtask 0",
        "    workers: 12: 3 are used: more would have no subtask",
    ]
    text = PIPELINE.replace(", slot: heavy", "")
    assert explain_workers(headrace, *many, text=text) == [
        "workers: 1",
        "    workers: 12: one process runs everything: a second would have no subtask",
    ]


def test_slots_that_share_processes_are_told(headrace: Headrace) -> None:
    share = "    slots default and heavy share one process: they are apart with workers: 2"
    assert explain_workers(headrace, "--set", "settings.workers=1") == ["workers: 1", share]
    third = explain_workers(headrace, "--set", "sinks.out.slot=third")
    assert third[-1] == (
        "    slots default, heavy and third share 2 workers: they are apart with workers: 3"
    )


def test_a_plan_for_one_process_says_nothing_of_workers(headrace: Headrace) -> None:
    text = PIPELINE.replace(", slot: heavy", "").replace("settings: {workers: 2}", "")
    assert explain_workers(headrace, text=text) == []


def test_standard_input_has_no_workers(headrace: Headrace) -> None:
    text = PIPELINE.replace("generate: {columns: {x: id}}", "stdin: {}, schema: {x: bigint}")
    assert explain_workers(headrace, text=text.replace(", slot: heavy", "")) == [
        "workers: 1",
        "    one process runs everything: numbers cannot be read again",
    ]


def test_json_has_the_placement(headrace: Headrace) -> None:
    explain_workers(headrace)
    document = orjson.loads(headrace("explain", "p.yaml", "--format", "json").out)
    assert [task["slot"] for task in document["tasks"]] == ["default", "heavy", "default"]
    assert document["workers"]["placement"] == [
        {
            "worker": 1,
            "tasks": [
                {"task": 1, "parts": ["numbers", "some"], "slot": "default", "subtasks": [0, 1]},
                {"task": 3, "parts": ["out"], "slot": "default", "subtasks": [0, 1]},
            ],
        },
        {
            "worker": 2,
            "tasks": [{"task": 2, "parts": ["heavy"], "slot": "heavy", "subtasks": [0, 1]}],
        },
    ]
    alone = headrace("explain", "p.yaml", "--format", "json", "--set", "settings.workers=1").out
    assert [each["worker"] for each in orjson.loads(alone)["workers"]["placement"]] == [0]


@pytest.mark.parametrize(
    ("subtasks", "shown"),
    [((1,), "subtask 1"), ((0, 4, 8, 12), "subtasks 0, 4, 8, 12"), (range(5), "0, 1, ..., 4")],
)
def test_many_subtasks_are_abridged(subtasks: tuple[int, ...], shown: str) -> None:
    placed = PlacedTask(3, ("a",), "default", tuple(subtasks))
    lines = [*WorkerPlan(2, None, {1: (placed,), 2: ()}, ()).format_lines()]
    assert lines[1].startswith("    1  task 3: ") and lines[1].endswith(shown)
