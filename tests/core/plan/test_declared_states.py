"""Every state that the operators of a step open is one that its plan declares.

Migration drops the other ones, and `explain` does not show them. Held for every kind of step: fresh
here, for all pipelines of the repository; after rows in what older versions have stored, and in all
tests that restore operators (`operator_subtasks.Subtasks`).
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from docs.snippets import pages, refreshed
from headrace.cli.pipeline_file import check_pipeline
from headrace.core.api.state import NO_CLOCK_US
from headrace.core.dataflow.operator_factory import OperatorContext, SubtaskSlice, compile_steps
from headrace.core.plan import nodes
from headrace.core.plan.nodes import Plan
from headrace.core.plan.states import get_step_state
from headrace.state.memory.backend import MemoryBackend
from tests.core.operators.process.test_snapshots import plan_of_two
from tests.recovery.stored.site import HERE, STORED, Stored, lay_out, newest
from tests.support.paths import ROOT
from tests.support.runtime.operator_subtasks import Subtasks, list_declared_names, script

CONFIGS = sorted([*(ROOT / "configs").glob("*.yaml"), *(ROOT / "configs/nexmark").glob("*.yaml")])


def list_stateful(plan: Plan) -> list[nodes.Step]:
    """Return the steps with state."""
    return [
        part
        for part in plan
        if isinstance(part, nodes.Step) and get_step_state(part, plan.key_groups)
    ]


def list_opened_names(plan: Plan, step: nodes.Step, folder: Path) -> frozenset[str]:
    """Return the states that are open before the first row."""
    read = frozenset(stream.name for stream in step.outputs)
    context = OperatorContext(lambda: NO_CLOCK_US, folder, read, MemoryBackend())
    built = compile_steps([step], context, SubtaskSlice(0, 1, plan.key_groups))
    try:
        return frozenset(name for state in built.states[step.name] for name in state.freeze().names)
    finally:
        built.close()


def check_fresh(file: Path) -> dict[str, frozenset[str]]:
    """Check all steps of a pipeline; return what they open, by step."""
    plan = check_pipeline(str(file), ()).plan
    assert plan is not None, file
    opened = {each.name: list_opened_names(plan, each, file.parent) for each in list_stateful(plan)}
    for step, names in opened.items():
        assert names <= list_declared_names(plan, step), (file.name, step)
    return opened


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_shipped_pipelines_open_declared_states(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    check_fresh(file)


def test_pipelines_of_the_docs_open_declared_states(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: dict[str, frozenset[str]] = {}

    def check(line: str, folder: Path) -> str:
        monkeypatch.chdir(folder)
        for file in folder.glob("*.yaml"):
            if check_pipeline(str(file), ()).plan is not None:  # some pages show mistakes
                opened.update(check_fresh(file))
        return ""

    for page in pages():
        refreshed(page.read_text("utf-8"), check)
        monkeypatch.chdir(ROOT)
    assert len([names for names in opened.values() if names]) > 10


JOIN, BROADCAST = "join: {left: a, right: b, on: a.k = b.k", "from: a, broadcast: {rules: b"
AFTER = "select: {k: a.k, w: b.v}"
JOINS = [
    f"{JOIN}, within: 2s, type: full}}, {AFTER}",
    f"{JOIN}, as_of: true, type: left}}, {AFTER}",
    f"{JOIN}, as_of: true, ttl: 2s}}, {AFTER}",
    f"{JOIN}}}, window: {{tumble: 5s}}, {AFTER}",
    f"{JOIN}}}, window: {{session: 2s, lateness: 4s}}, {AFTER}",
    f"{BROADCAST}, on: a.k = b.k}}, select: {{k: a.k, w: b.v}}",
    f"{BROADCAST}, on: a.k = b.k, order: arrival}}, select: {{k: a.k, w: b.v}}",
]


@pytest.mark.parametrize("step", JOINS)
def test_joins_open_declared_states_after_rows(step: str) -> None:
    subtasks = Subtasks(plan_of_two(step), 2)
    for event in script(Random(step), 12, sides=2):
        subtasks.said(event)
        assert subtasks.freeze()  # holds the names of all states to the declared ones


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored.name)
def test_stored_states_are_declared(tmp_path: Path, stored: Stored) -> None:
    """What was opened after rows came, by the code of that time, is declared by the code of today.

    But for what the operator of a broadcast opened where rows never wait, and for steps whose
    states are described otherwise today: they read the old ones at a resume.
    """
    with tarfile.open(HERE / stored.name / "memory.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    lay_out(tmp_path, stored)
    file = tmp_path / f"{stored.name}.yaml"
    opened = check_fresh(file)
    plan = check_pipeline(str(file), stored.waits).plan
    assert plan is not None and opened
    for step, names in list_stored_names(newest(tmp_path, stored)):
        if step in stored.described_otherwise:
            continue
        unused = {"waiting"} if step == "allowed_at_once" else set()
        assert names - unused <= list_declared_names(plan, step), step
        assert opened[step] <= names, step


def list_stored_names(manifest: Any) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the names of the stored states of each step."""
    for step, subtasks in manifest["states"].items():
        yield step, frozenset(name for each in subtasks for part in each for name in part["states"])
