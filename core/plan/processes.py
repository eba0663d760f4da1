"""The clause `process` as an operation of the plan, and the streams of its outputs."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.expressions.typed import Column, Span
from headrace.core.pipeline.model import Step
from headrace.core.pipeline.process import Process
from headrace.core.plan.columns import UNKNOWN, Known, Report
from headrace.core.plan.matching import Connected
from headrace.core.plan.nodes import Append, Body, Computed, Join, Operation, Side, Stream
from headrace.core.process.declared import Kind
from headrace.core.types import Field

NO_TIME = "set event_time in the source, or {}"


def body_of(step: Step, written: Process, untimed: str, report: Report, rules: str = "") -> Body:
    """Return the user-defined class; report uses of event time over rows without one.

    `untimed` is the name of the input without event time, `rules` that of such a broadcast input.
    """
    in_time = written.order == "event_time"
    place = step.keys_at["process"].locate()
    if in_time and (untimed or rules):
        message = f"process goes by event time, but {untimed or rules} has none"
        report.add(message, place, NO_TIME.format("order: arrival"))
    for name, said in step.states.items() if not in_time else ():
        without = rules if said.shared else untimed
        by_time = said.ttl_us is not None or said.kind is Kind.TIMER
        if without and by_time and not said.processing:
            what = "timer" if said.kind is Kind.TIMER else "ttl of"
            message = f'{what} "{name}" goes by event time, but {without} has none'
            report.add(message, place, NO_TIME.format('time="processing"'))
    outputs = tuple((str(name), columns.schema) for name, columns in written.outputs or ())
    function = written.python
    states = tuple(step.states.items())
    returns = written.returns.schema
    return Body(function.file, function.name, returns, outputs, in_time, states)


def connected(
    step: Step, sides: Sequence[tuple[str, Known, bool]], report: Report
) -> tuple[Known, tuple[Operation, ...]]:
    """Return the output columns of a class of two inputs, and the operation if it is valid.

    `sides` has the name of each input, its known columns, and whether it has an event time.
    """
    if step.process is None:
        return UNKNOWN, ()  # this has been reported
    everywhere = step.broadcast is not None
    by_left = everywhere and step.process.order == "arrival"  # rules have no time then
    timed = sides[0][2] if by_left else all(is_timed for *_, is_timed in sides)
    untimed = ["" if is_timed else f'"{name}"' for name, _, is_timed in sides]
    rules = untimed.pop() if everywhere else ""
    body = body_of(step, step.process, next(filter(None, untimed), ""), report, rules)
    # Imported here, because keyed imports this module.
    from headrace.core.plan.keyed import KeyedClauses, Rows

    made = list[Side]()
    for name, known, is_timed in sides:
        keyless = everywhere and bool(made)
        about = report.about
        report.about = about if everywhere else f'{about}: input "{name}"'
        key = () if keyless else KeyedClauses(step, Rows(known, is_timed, ()), report).own_key()
        report.about = about
        columns = tuple(Computed(f.name, as_it_is(f)) for f in known.schema)
        made.append(Side(name, key, columns))
    left, right = made
    _check_keys(step, left, right, report)
    matching = Connected(body, everywhere)
    join = Join(left, right, "inner", matching, None, "", _late_to(step), timed)
    sound = everywhere or len(left.key) == len(right.key)
    return Known(body.returns), (join,) if sound else ()


def _check_keys(step: Step, left: Side, right: Side, report: Report) -> None:
    """Check that the keys of both inputs have the same types."""
    for one, other in zip(left.key, right.key, strict=False):
        if one.value.type != other.value.type:
            message = (
                f'key "{one.name}" is {one.value.type} in "{left.name}",'
                f' but {other.value.type} in "{right.name}"'
            )
            report.add(message, step.keys_at["key"].locate(), "cast one of them in an earlier step")


def _late_to(step: Step) -> tuple[str | None, str | None]:
    """Return the streams of late rows of the left and the right input; rules are never late."""
    if step.broadcast is not None and step.process is not None:
        late = step.process.late_to
        return late and str(late), None
    sides = step.connect.late_to if step.connect is not None else None
    if sides is None:
        return None, None
    return sides.left and str(sides.left), sides.right and str(sides.right)


def as_it_is(field: Field) -> Column:
    """Return a column unchanged."""
    return Column(field.type, field.nullable, Span(0, 0), field.name)


def named_outputs(step: Step, timed: bool) -> tuple[Stream, ...]:
    """Return the streams of a step's named outputs."""
    outputs = () if step.process is None else step.process.outputs or ()
    return tuple(
        Stream(f"{step.name}.{name}", columns.schema, Append(), timed) for name, columns in outputs
    )
