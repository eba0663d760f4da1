"""The clause `process` of a step as the plan has it, and the streams of its outputs."""

from __future__ import annotations

from headrace.core.pipeline.model import Step
from headrace.core.pipeline.process import Process
from headrace.core.plan.columns import Report
from headrace.core.plan.nodes import Append, Body, Stream
from headrace.core.process.declared import Kind

NO_TIME = "set event_time in the source, or {}"


def body_of(step: Step, written: Process, timed: bool, report: Report) -> Body:
    """The user's class; what needs an event time where rows have none is reported."""
    in_time = written.order == "event_time"
    place = step.keys_at["process"].locate()
    if in_time and not timed:
        message = "process goes by event time, and its input has none"
        report.add(message, place, NO_TIME.format("order: arrival"))
    for name, said in step.states.items() if not timed and not in_time else ():
        if not said.processing and (said.ttl_us is not None or said.kind is Kind.TIMER):
            what = "timer" if said.kind is Kind.TIMER else "ttl of"
            message = f'{what} "{name}" goes by event time, and the input of process has none'
            report.add(message, place, NO_TIME.format('time="processing"'))
    outputs = tuple((str(name), columns.schema) for name, columns in written.outputs or ())
    function = written.python
    states = tuple(step.states.items())
    returns = written.returns.schema
    return Body(function.file, function.name, returns, outputs, in_time, states)


def named_outputs(step: Step, timed: bool) -> tuple[Stream, ...]:
    """The streams of its named outputs."""
    outputs = () if step.process is None else step.process.outputs or ()
    return tuple(
        Stream(f"{step.name}.{name}", columns.schema, Append(), timed) for name, columns in outputs
    )
