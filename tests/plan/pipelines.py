"""Pipelines written out in tests, built as `headrace validate` builds them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from headrace.connectors.registry import REGISTRY
from headrace.core.pipeline.load import load
from headrace.core.plan import Plan, build
from headrace.core.problems import Problem

SOURCE = """name: test
sources:
  orders:
    files: {path: in}
    schema: {id: bigint not null, name: string, price: "decimal(10,2)", tags: array<string>,
             at: timestamp, extra: string}
    event_time: at
"""


def built(folder: Path, text: str) -> tuple[Plan | None, tuple[Problem, ...]]:
    """The plan of a pipeline's text, and its problems."""
    file = folder / "p.yaml"
    file.write_text(dedent(text))
    return build(load(file, REGISTRY, env={}))


def plan_of(folder: Path, text: str) -> Plan:
    """The plan of a text without a mistake."""
    plan, problems = built(folder, text)
    assert plan is not None, [problem.message for problem in problems]
    return plan


def said(folder: Path, text: str) -> list[str]:
    """What is said of a text: the line, the part, the message, and the hint in brackets."""
    return [
        f"{problem.place.line if problem.place else 0}: {problem.subject}: {problem.message}"
        + (f" [{problem.hint}]" if problem.hint else "")
        for problem in built(folder, text)[1]
    ]
