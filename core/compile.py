"""The steps of a task as one chain of operators.

Neighbouring `where`, `select`, `with` and `drop` become one operator, across steps; every other
operation is an operator of its own. Inside a step, operators are joined by names that no user can
give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from headrace.core import dead_letters
from headrace.core.operators.columns import Columns
from headrace.core.operators.explode import Explode
from headrace.core.operators.map import FailedRow, Map
from headrace.core.operators.operator import Chain, Operator, Output
from headrace.core.operators.route import Route
from headrace.core.plan import nodes


@dataclass(frozen=True, slots=True)
class Setting:
    """What operators are made with: the clock, the pipeline's folder, the streams that are read."""

    now_us: Callable[[], int]
    folder: Path
    read: frozenset[str]


@dataclass(slots=True)
class Compiled:
    """A chain, and the counts of rows that its operators keep."""

    chain: Chain | None
    columns: list[Columns] = field(default_factory=list)
    ends: set[str] = field(default_factory=set)
    """The steps at whose end an operator ends."""
    failed: dict[str, int] = field(default_factory=dict)
    """How many rows a user's function failed on, by step."""

    def left(self, step: nodes.Step, came: int) -> int:
        """How many rows left a step to which so many came."""
        if self.chain is not None and step.name in self.ends:
            rows = [out.name for out in step.outputs if out.name != step.on_error]
            return sum(self.chain.put_out[name] for name in rows)
        passed = [
            columns.passed[step.name] for columns in self.columns if step.name in columns.passed
        ]
        return passed[-1] if passed else came


def compile_steps(steps: Sequence[nodes.Step], setting: Setting) -> Compiled:
    """The operators of steps that follow each other; no steps, no chain."""
    compiled = Compiled(None)
    work = [(step, operation) for step in steps for operation in step.operations or (None,)]
    operators: list[tuple[str, Operator]] = []
    name = steps[0].name + "#" if steps else ""
    at = 0
    while at < len(work):
        step, operation = work[at]
        run = _run(work, at)
        last = work[at + len(run) - 1][0] if run else step
        at += max(len(run), 1)
        ends = at == len(work) or work[at][0] is not last
        if ends:
            compiled.ends.add(last.name)
        leaves = last.name if ends else f"{last.name}#{at}"
        if run or operation is None:
            columns = Columns(leaves, run, setting.now_us)
            compiled.columns.append(columns)
            operators.append((name, columns))
        else:
            operators.append((name, _operator(step, operation, leaves, setting, compiled)))
        name = work[at][0].inputs[0] if ends and at < len(work) else leaves
    compiled.chain = Chain(operators) if operators else None
    return compiled


def _run(
    work: Sequence[tuple[nodes.Step, nodes.Operation | None]], at: int
) -> list[tuple[str, nodes.Filter | nodes.Project]]:
    """The column operations from here on that can be one operator."""
    run: list[tuple[str, nodes.Filter | nodes.Project]] = []
    for step, operation in work[at:]:
        if not isinstance(operation, nodes.Filter | nodes.Project):
            break
        run.append((step.name, operation))
    return run


def _operator(
    step: nodes.Step,
    operation: nodes.Operation,
    leaves: str,
    setting: Setting,
    compiled: Compiled,
) -> Operator:
    match operation:
        case nodes.Explode():
            return Explode(leaves, operation)
        case nodes.Route():
            return Route(step.name, operation, setting.read)
        case nodes.Map():
            failed = partial(_fail, step, setting, compiled) if step.on_error != "fail" else None
            return Map(step.name, leaves, operation, setting.folder, failed)
    raise AssertionError(operation)


def _fail(
    step: nodes.Step, setting: Setting, compiled: Compiled, rows: list[FailedRow]
) -> Iterator[Output]:
    """What becomes of the rows on which a user's function failed."""
    compiled.failed[step.name] = compiled.failed.get(step.name, 0) + len(rows)
    if step.on_error != "skip":
        pairs = ((row.error, row.row) for row in rows)
        yield step.on_error, dead_letters.of_rows(step.name, pairs, setting.now_us())
