"""The compatibility of states that count rows which are added and removed.

Such a state is right only if each row that is removed was added before. So it resumes only
together with the states that remove rows, and only if nothing between them has changed: a changed
expression would remove other rows than it has added. What comes before those states may change:
they remove the rows that they have stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from headrace.core.plan import nodes
from headrace.core.plan.layout import (
    get_input_streams,
    get_keyed_operation,
    get_two_input_operation,
)
from headrace.core.plan.nodes.matching import TableMatch
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RemovedRowsConflict:
    """A reason for which a step cannot resume: a message and hints."""

    message: str
    hints: tuple[str, ...] = ()


def counts_rows(step: nodes.PlanPart) -> bool:
    """Whether a step has a state that counts rows which are added and removed."""
    if isinstance(step, nodes.Step) and step.round_inputs:  # it stores other inputs of a join
        return not step.round_inputs.issuperset(step.inputs)
    keyed = get_keyed_operation(step)
    match keyed:
        case nodes.Aggregate() | nodes.Top():
            return keyed.reads_retractions
        case nodes.Process():
            return keyed.reads_changes and bool(keyed.body.states)
        case nodes.ChangelogConversion():
            return keyed.output != "retract"
    return _is_table_join(step)


def find_conflicts(
    plan: nodes.Plan,
    resumed: Collection[str],
    describe_change: Callable[[str], str],
    describe_input_change: Callable[[str], str],
) -> Iterator[RemovedRowsConflict]:
    """Yield the reasons against resuming the states of these steps.

    The functions return what has changed in a part, or in its clauses before its state, since the
    checkpoint; "" if nothing has.
    """
    for group in list_groups(plan):
        resets = " ".join(f"--reset-state {name}" for name in group.steps)
        fresh = [name for name in group.steps if name not in resumed]
        changes = [(name, describe_change(name)) for name in group.upstream]
        if not fresh:
            last = (name for name in group.steps if name not in group.upstream)
            changes += [(name, describe_input_change(name)) for name in last]
        changed = next((f"{name} {change}" for name, change in changes if change), "")
        if fresh and len(fresh) < len(group.steps):
            others = ", ".join(name for name in group.steps if name in resumed)
            message = f"{', '.join(fresh)} would start without the rows that {others} count"
            yield RemovedRowsConflict(message, (f"{resets} starts all of them fresh",))
        elif changed and not fresh:
            names = ", ".join(group.steps)
            message = f"rows in the states of {names} are removed as they were added, and {changed}"
            yield RemovedRowsConflict(message, ("undo the change", f"or {resets}"))


@dataclass(frozen=True, slots=True)
class StepGroup:
    """Steps that count the same rows, and so resume together."""

    steps: tuple[str, ...]
    upstream: tuple[str, ...]
    """The parts from which rows that may be removed reach them."""


def list_groups(plan: nodes.Plan) -> tuple[StepGroup, ...]:
    """Return the groups of steps that count the same rows, in the order of the plan."""
    # No row of the table of a round is removed.
    steps = [part for part in plan if isinstance(part, nodes.Step)]
    whole = {name for step in steps for name in step.round_inputs}
    removing = {
        stream.name: part.name
        for part in plan
        for stream in _list_outputs(part)
        if isinstance(stream.kind, nodes.Retract) and stream.name not in whole
    }
    groups: list[tuple[set[str], set[str]]] = []
    for step in plan:
        if counts_rows(step):
            upstream = _find_upstream(step, plan, removing)
            together = {step.name, *(n for n in upstream if _removes_rows(plan.part(n)))}
            above = set(upstream)
            for group in [each for each in groups if each[0] & together]:
                groups.remove(group)
                together, above = together | group[0], above | group[1]
            groups.append((together, above))
    names = [part.name for part in plan]
    return tuple(
        StepGroup(tuple(n for n in names if n in steps), tuple(n for n in names if n in above))
        for steps, above in groups
    )


def _is_table_join(step: nodes.PlanPart) -> bool:
    join = get_two_input_operation(step)
    return join is not None and isinstance(join.matching, TableMatch)


def _removes_rows(step: nodes.PlanPart) -> bool:
    """Whether a step has a state from which it removes rows downstream."""
    keyed = get_keyed_operation(step)
    is_conversion = isinstance(keyed, nodes.ChangelogConversion) and keyed.output == "retract"
    return is_conversion or _is_table_join(step)


def _find_upstream(
    step: nodes.PlanPart, plan: nodes.Plan, removing: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the parts from which rows that may be removed reach a step, the nearest first.

    `removing` are the parts by their streams that remove rows.
    """
    found: dict[str, None] = {}
    pending = [step]
    while pending:
        for stream in get_input_streams(pending.pop(0)):
            name = removing.get(stream)
            if name is not None and name not in found:
                found[name] = None
                pending.append(plan.part(name))
    return tuple(found)


def _list_outputs(part: nodes.PlanPart) -> tuple[nodes.Stream, ...]:
    return () if isinstance(part, nodes.Sink) else part.outputs
