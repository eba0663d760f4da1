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
        at = step.keys_at["process"].locate()
        report.add("process: a class of two inputs gets no changes", at, "leave out changes: true")
    everywhere = step.broadcast is not None
    by_left = everywhere and step.process.order == "arrival"  # rules have no time then
    timed = sides[0][2] if by_left else all(is_timed for *_, is_timed in sides)
    untimed = ["" if is_timed else f'"{name}"' for name, _, is_timed in sides]
    rules = untimed.pop() if everywhere else ""
    body = build_process_body(step, step.process, next(filter(None, untimed), ""), report, rules)
    left, right = (
        _build_side(step, side, report, keyless=keyless, is_named=not everywhere)
        for side, keyless in zip(sides, (False, everywhere), strict=True)
    )
    _check_keys(step, left, right, report)
    late, matching = _get_late_streams(step), ConnectedMatch(body, everywhere)
    join = Join(left, right, "inner", matching, None, "", late, timed)
    sound = everywhere or len(left.key) == len(right.key)
    return KnownColumns(body.returns), (join,) if sound else ()


def _build_side(
    step: Step,
    side: tuple[str, KnownColumns, bool],
    report: PlanProblems,
    *,
    keyless: bool,
    is_named: bool,
) -> JoinSide:
    """Return an input with its key; `is_named`: problems of the key say which input it is."""
    name, known, is_timed = side
    about = report.subject
    report.subject = f'{about}: input "{name}"' if is_named else about
    columns = KeyedInput(replace(known, has_row_place=False), is_timed, ())
    key = () if keyless else KeyedOperationBuilder(step, columns, report).build_step_key()
    report.subject = about
    return JoinSide(
        name, key, tuple(ComputedColumn(f.name, reference_field(f)) for f in known.schema)
    )


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
