"""Pipelines that are changed between two runs, and checkpoints of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.connectors.memory import InMemoryData
from headrace.core.api.snapshots import RefusedSnapshot
from headrace.core.api.splits import Progress, Split, SubtaskId
from headrace.core.checkpoint.compatibility import RestoreOptions, check_compatibility
from headrace.core.checkpoint.manifest import build_manifest
from headrace.core.coordination.messages import Snapshot, WriteManifest
from headrace.core.plan import nodes
from headrace.core.plan.nodes import Plan
from tests.support.runtime.memory_pipelines import plan_of

HEAD = """
sources:
  rows:
    memory: {data: in}
    schema: {k: bigint, s: string, v: bigint, x: double, at: timestamp}
    event_time: at
    watermark: {delay: 0s}
"""


def pipeline(step: str, more: str = "", head: str = HEAD) -> str:
    """Return a pipeline of the step `step`, written in one line, and of further steps."""
    sinks = "sinks: {o: {from: step, memory: {data: out}}}\n"
    return f"{head}steps:\n  step: {{{step}}}\n{more}{sinks}"


def plan(folder: Path, text: str) -> Plan:
    """Return the plan of a text."""
    return plan_of(folder, text, {"memory": InMemoryData().build_connector()})


def document(plan: Plan, handles: bool = False) -> dict[str, Any]:
    """Return a checkpoint in which each split of a source has been read a little."""
    ids = [
        SubtaskId(number, index)
        for number, task in enumerate(plan.tasks)
        for index in range(task.parallelism)
    ]
    snapshots = {id: Snapshot(_splits(plan, id)) for id in ids}
    prepared = tuple((id, {"parts": ["p"]}) for id in _writers(plan)) if handles else ()
    return build_manifest(WriteManifest(1, snapshots, prepared), plan, "0", "")


def _splits(plan: Plan, id: SubtaskId) -> dict[Split, Progress]:
    first = plan.tasks[id.task].parts[0]
    is_source = isinstance(plan.part(first), nodes.Source)
    return {Split(first, "0", id.index): Progress(12)} if is_source else {}


def _writers(plan: Plan) -> list[SubtaskId]:
    last = [plan.part(task.parts[-1]) for task in plan.tasks]
    return [SubtaskId(at, 0) for at, part in enumerate(last) if isinstance(part, nodes.Sink)]


def refusal(was: dict[str, Any], now: Plan, *fresh: str, lose: bool = False) -> str:
    """Return why a pipeline cannot resume, and the hint; "" if it can."""
    try:
        check_compatibility(1, was, now, RestoreOptions(frozenset(fresh), lose))
    except RefusedSnapshot as refused:
        return f"{refused.message}\n{refused.hint}"
    return ""


def notes(was: dict[str, Any], now: Plan, *fresh: str, lose: bool = False) -> tuple[str, ...]:
    """Return the reported changes of a pipeline that resumes."""
    return check_compatibility(1, was, now, RestoreOptions(frozenset(fresh), lose))


def refused_unless_anew(was: dict[str, Any], now: Plan, why: str) -> None:
    """Check that a changed step `step` is rejected for this reason, unless it starts fresh."""
    refused = refusal(was, now, lose=True)
    assert refused.startswith(f"checkpoint 1 is not compatible: the state of step {why}")
    assert "\n      was: " in refused
    assert "\n      is:  " in refused
    assert "--reset-state step drops its state" in refused
    assert "step starts fresh, without its state" in notes(was, now, "step")
