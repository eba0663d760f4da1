"""The clause `process` as an operation of the plan, and the streams of its outputs."""

from __future__ import annotations

from headrace.core.pipeline.clauses.process import Process
from headrace.core.pipeline.model import Step
from headrace.core.plan.columns import PlanProblems
from headrace.core.plan.nodes import (
    Append,
    ProcessBody,
    Stream,
)
from headrace.core.process.declarations import Kind

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
    for name, declared in step.states.items() if not in_time else ():
        without = rules if declared.shared else untimed
        by_time = declared.ttl_us is not None or declared.kind is Kind.TIMER
        if without and by_time and not declared.processing:
            what = "timer" if declared.kind is Kind.TIMER else "ttl of"
            message = f'{what} "{name}" goes by event time, but {without} has none'
            report.add(message, place, EVENT_TIME_HINT.format('time="processing"'))
    outputs = tuple((str(name), columns.schema) for name, columns in written.outputs or ())
    function = written.python
    states = tuple(step.states.items())
    returns = written.returns.schema
    return ProcessBody(function.file, function.name, returns, outputs, in_time, states)


def build_named_outputs(step: Step, timed: bool) -> tuple[Stream, ...]:
    """Return the streams of a step's named outputs."""
    outputs = () if step.process is None else step.process.outputs or ()
    return tuple(
        Stream(f"{step.name}.{name}", columns.schema, Append(), timed) for name, columns in outputs
    )
