"""Helpers for pipelines in tests, built as `headrace validate` builds them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from headrace.connectors.registry import REGISTRY
from headrace.core.errors.problems import Problem
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.plan.nodes import Plan
from headrace.core.plan.plan_assembly import build_plan

SOURCE = """name: test
sources:
  orders:
    files: {path: in}
    schema: {id: bigint not null, name: string, price: "decimal(10,2)", tags: array<string>,
             at: timestamp, extra: string}
    event_time: at
"""

UNTIMED = "  plain: {files: {path: p.jsonl}, schema: {id: bigint, at: timestamp}}\n"
"""A further source, whose rows have no event time."""


def over_orders(step: str) -> str:
    """Return a pipeline of one step over `orders`, with a sink for `late` if the step has it."""
    steps = f"steps:\n  s: {{from: orders, {step}}}\n"
    late = "  l: {from: late, console: {}}\n" if "late_to" in step else ""
    return f"{SOURCE}{steps}sinks:\n  out: {{from: s, console: {{}}}}\n{late}"


def built(folder: Path, text: str) -> tuple[Plan | None, tuple[Problem, ...]]:
    """Return the plan of a pipeline's text, and its problems."""
    file = folder / "p.yaml"
    file.write_text(dedent(text))
    return build_plan(load_pipeline(file, REGISTRY, env={}))


def plan_of(folder: Path, text: str) -> Plan:
    """Return the plan of a text without errors."""
    plan, problems = built(folder, text)
    assert plan is not None, [problem.message for problem in problems]
    return plan


def said(folder: Path, text: str) -> list[str]:
    """Return the problems of a text: the line, the part, the message, and the hint in brackets."""
    return [
        f"{problem.location.line if problem.location else 0}: {problem.subject}: {problem.message}"
        + (f" [{problem.hint}]" if problem.hint else "")
        for problem in built(folder, text)[1]
    ]
