"""The clause `process` as an operation of the plan, and the streams of its outputs."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.expressions.typed import ColumnReference, Span
from headrace.core.pipeline.model import Step
from headrace.core.pipeline.process import Process
from headrace.core.plan.columns import UNKNOWN_COLUMNS, KnownColumns, PlanProblems
from headrace.core.plan.matching import ConnectedMatch
from headrace.core.plan.nodes import (
    Append,
    ComputedColumn,
    Join,
    JoinSide,
    Operation,
    ProcessBody,
    Stream,
)
from headrace.core.process.declared import Kind
from headrace.core.types import Field

EVENT_TIME_HINT = "set event_time in the source, or {}"


def build_process_body(
    step: Step, written: Process, untimed: str, report: PlanProblems, rules: str = ""
) -> ProcessBody:
    """Return the user-defined class; report uses of event time over rows without one.

    `untimed` is the name of the input without event time, `rules` that of such a broadcast input.
    """
    in_time = written.order == "event_time"
    place = step.keys_at["process"].locate()
    if in_time and (untimed or rules):
        message = f"process goes by event time, but {untimed or rules} has none"
        report.add(message, place, EVENT_TIME_HINT.format("order: arrival"))
    for name, said in step.states.items() if not in_time else ():
        without = rules if said.shared else untimed
        by_time = said.ttl_us is not None or said.kind is Kind.TIMER
        if without and by_time and not said.processing:
            what = "timer" if said.kind is Kind.TIMER else "ttl of"
            message = f'{what} "{name}" goes by event time, but {without} has none'
            report.add(message, place, EVENT_TIME_HINT.format('time="processing"'))
    outputs = tuple((str(name), columns.schema) for name, columns in written.outputs or ())
    function = written.python
    states = tuple(step.states.items())
    returns = written.returns.schema
    return ProcessBody(function.file, function.name, returns, outputs, in_time, states)


def build_connected_inputs(
    step: Step, sides: Sequence[tuple[str, KnownColumns, bool]], report: PlanProblems
) -> tuple[KnownColumns, tuple[Operation, ...]]:
    """Return the output columns of a class of two inputs, and the operation if it is valid.

    `sides` has the name of each input, its known columns, and whether it has an event time.
    """
    if step.process is None:
        return UNKNOWN_COLUMNS, ()  # this has been reported
    everywhere = step.broadcast is not None
    by_left = everywhere and step.process.order == "arrival"  # rules have no time then
    timed = sides[0][2] if by_left else all(is_timed for *_, is_timed in sides)
    untimed = ["" if is_timed else f'"{name}"' for name, _, is_timed in sides]
    rules = untimed.pop() if everywhere else ""
    body = build_process_body(step, step.process, next(filter(None, untimed), ""), report, rules)
    # Imported here, because keyed imports this module.
    from headrace.core.plan.keyed import KeyedInput, KeyedOperationBuilder

    made = list[JoinSide]()
    for name, known, is_timed in sides:
        keyless = everywhere and bool(made)
        about = report.subject
        report.subject = about if everywhere else f'{about}: input "{name}"'
        key = (
            ()
            if keyless
            else KeyedOperationBuilder(
                step, KeyedInput(known, is_timed, ()), report
            ).build_step_key()
        )
        report.subject = about
        columns = tuple(ComputedColumn(f.name, keep_input_column(f)) for f in known.schema)
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


def keep_input_column(field: Field) -> ColumnReference:
    """Return a column unchanged."""
    return ColumnReference(field.type, field.nullable, Span(0, 0), field.name)


def build_named_outputs(step: Step, timed: bool) -> tuple[Stream, ...]:
    """Return the streams of a step's named outputs."""
    outputs = () if step.process is None else step.process.outputs or ()
    return tuple(
        Stream(f"{step.name}.{name}", columns.schema, Append(), timed) for name, columns in outputs
    )
