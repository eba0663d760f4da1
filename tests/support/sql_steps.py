"""Pipelines of one query, and the steps that a plan has for it."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

from headrace.core.errors.problems import Problem
from headrace.core.plan import nodes
from headrace.core.plan.nodes import Plan
from tests.support.plans import built

SOURCES = """name: test
sources:
  orders:
    files: {path: o.jsonl}
    schema: {id: bigint not null, customer: string, amount: double, tags: array<string>,
             at: timestamp}
    event_time: at
  payments:
    files: {path: p.jsonl}
    schema: {order: bigint not null, paid: double, at: timestamp}
    event_time: at
  moves:
    files: {path: m.jsonl}
    schema: {id: string, city: string, at: timestamp}
    event_time: at
    table: {key: id}
  plain: {files: {path: q.jsonl}, schema: {id: bigint, at: timestamp}}
"""
SINKS = """sinks:
  out: {from: q, files: {path: out, changelog: full}}
  a: {from: orders, console: {}}
  b: {from: payments, console: {}}
  c: {from: moves, console: {}}
  d: {from: plain, console: {}}
"""


ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def write_query(sql: str, keys: str = "") -> str:
    """Return a pipeline with a query as its step `q`."""
    return f"{SOURCES}steps:\n  q:\n{keys}    sql: |\n{indent(sql.strip(), ' ' * 6)}\n{SINKS}"


def build_query(folder: Path, sql: str) -> tuple[Plan | None, tuple[Problem, ...]]:
    """Return the plan of a query, and its problems."""
    return built(folder, write_query(sql))


def build_steps(folder: Path, text: str) -> dict[str, nodes.Step]:
    """Return the steps of a pipeline without errors, by name, in their order."""
    plan, problems = built(folder, text)
    assert plan is not None, [(problem.message, problem.hint) for problem in problems]
    return {part.name: part for part in plan.parts if isinstance(part, nodes.Step)}


def list_errors(folder: Path, sql: str, keys: str = "") -> list[str]:
    """Return the errors of a query: what they mark, the message, and the hint in brackets."""
    found = []
    for problem in built(folder, write_query(sql, keys))[1]:
        place = problem.location
        assert place is not None
        assert not place.replaced_value
        if problem.severity == "error":
            marked = place.text[place.column - 1 : place.column - 1 + place.length]
            hint = f" [{problem.hint}]" if problem.hint else ""
            found.append(f"{marked}: {problem.message}{hint}")
    return found


def describe_steps(steps: dict[str, nodes.Step]) -> dict[str, str]:
    """Return what steps do, as text: functions have no equality of their own.

    The steps inside a query are named as in YAML.
    """
    return {
        name.removeprefix("q@"): ADDRESS.sub("", repr(step)).replace("'q@", "'")
        for name, step in steps.items()
    }
