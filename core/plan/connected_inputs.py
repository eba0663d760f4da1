"""The typed parts of a process step with two inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.core.expressions.typed import reference_field
from headrace.core.pipeline.model import Step
from headrace.core.plan.columns import UNKNOWN_COLUMNS, KnownColumns, PlanProblems
from headrace.core.plan.keyed_operations import KeyedInput, KeyedOperationBuilder
from headrace.core.plan.nodes import ComputedColumn, Join, JoinSide, Operation
from headrace.core.plan.nodes.matching import ConnectedMatch
from headrace.core.plan.processes import build_process_body


def build_connected_inputs(
    step: Step,
    sides: Sequence[tuple[str, KnownColumns, bool]],
    report: PlanProblems,
    *,
    is_append: bool,
) -> tuple[KnownColumns, tuple[Operation, ...]]:
    """Return the output columns of a class of two inputs, and the operation if it is valid.

    `sides` has the name of each input, its known columns, and whether it has an event time.
    `is_append`: both are append-only; if not, that is reported elsewhere.
    """
    if step.process is None:
        return UNKNOWN_COLUMNS, ()  # this has been reported
    if step.process.changes and is_append:
        message = "process: a class of two inputs gets no changes"
        report.add(message, step.keys_at["process"].locate(), "leave out changes: true")
    everywhere = step.broadcast is not None
    by_left = everywhere and step.process.order == "arrival"  # rules have no time then
    timed = sides[0][2] if by_left else all(is_timed for *_, is_timed in sides)
    untimed = ["" if is_timed else f'"{name}"' for name, _, is_timed in sides]
    rules = untimed.pop() if everywhere else ""
    body = build_process_body(step, step.process, next(filter(None, untimed), ""), report, rules)
    made = list[JoinSide]()
    for name, known, is_timed in sides:
        keyless = everywhere and bool(made)
        about = report.subject
        report.subject = about if everywhere else f'{about}: input "{name}"'
        key = (
            ()
            if keyless
            else KeyedOperationBuilder(
                step, KeyedInput(replace(known, has_row_place=False), is_timed, ()), report
            ).build_step_key()
        )
        report.subject = about
        columns = tuple(ComputedColumn(f.name, reference_field(f)) for f in known.schema)
        made.append(JoinSide(name, key, columns))
    left, right = made
    _check_keys(step, left, right, report)
    matching = ConnectedMatch(body, everywhere)
    join = Join(left, right, "inner", matching, None, "", _get_late_streams(step), timed)
    sound = everywhere or len(left.key) == len(right.key)
    return KnownColumns(body.returns), (join,) if sound else ()


def _check_keys(step: Step, left: JoinSide, right: JoinSide, report: PlanProblems) -> None:
    """Check that the keys of both inputs have the same types."""
    for one, other in zip(left.key, right.key, strict=False):
        if one.value.type != other.value.type:
            message = (
                f'key "{one.name}" is {one.value.type} in "{left.name}",'
                f' but {other.value.type} in "{right.name}"'
            )
            report.add(message, step.keys_at["key"].locate(), "cast one of them in an earlier step")


def _get_late_streams(step: Step) -> tuple[str | None, str | None]:
    """Return the streams of late rows of the left and the right input; rules are never late."""
    if step.broadcast is not None and step.process is not None:
        late = step.process.late_to
        return late and str(late), None
    sides = step.connect.late_to if step.connect is not None else None
    if sides is None:
        return None, None
    return sides.left and str(sides.left), sides.right and str(sides.right)
