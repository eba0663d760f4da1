"""The event time of a step: moved to the source of its rows, which computes it for each split.

A subtask of a step mixes the rows of splits, so a watermark made there would not hold for the rows
of slower splits. In the source, each split has its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.core.expressions import type_expression
from headrace.core.expressions.function import TypedCall
from headrace.core.expressions.functions import FUNCTIONS
from headrace.core.expressions.typed import (
    NOWHERE,
    ProcessingTime,
    TypedExpression,
    is_fallible,
    is_random,
    reference_field,
    substitute_columns,
    walk,
)
from headrace.core.pipeline.model import Pipeline, Step
from headrace.core.plan import nodes
from headrace.core.plan.columns import KnownColumns, PlanProblems
from headrace.core.plan.event_times import type_time_expression
from headrace.core.types.data_types import Schema
from headrace.core.types.lazy_dataclass import dataclass

_HINT = "set event_time in the source, or in a step before"


def build_row_time(
    step: Step, known: KnownColumns, report: PlanProblems, *, timed: bool
) -> tuple[nodes.RowTime, ...]:
    """Return the operation that gives the changes of a step their event time; none if it cannot.

    Rows pass on the watermarks of their sources: their own time may be any.
    """
    assert step.event_time is not None
    hint = "compute it in a step before, as in with: {seen: now()}, which stores it"
    typed = type_time_expression(step.event_time, "event_time", known, report, hint)
    if step.watermark is not None:
        place = step.keys_at["watermark"].locate()
        report.add("watermark: changes have the watermarks of their sources", place, "leave it out")
    if not timed:
        message = "event_time of changes needs the watermarks of their sources, which have none"
        report.add(message, step.event_time.locate(), "set event_time in the sources")
    if typed is None or report.has_errors_of_subject:
        return ()
    if typed.nullable:
        text = f"raise_error('event_time of step {step.name} is null')"
        failure = type_expression(text, Schema(()))
        typed = FUNCTIONS["coalesce"].resolve(TypedCall("coalesce", (typed, failure), NOWHERE))
    return (nodes.RowTime(typed, step.event_time.printable),)


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The parts built so far, one of whose steps gives the event time."""

    pipeline: Pipeline
    parts: Mapping[str, nodes.Source | nodes.Step]
    report: PlanProblems

    def move_to_source(
        self, step: Step, operations: tuple[nodes.Operation, ...], known: KnownColumns
    ) -> tuple[nodes.Source | nodes.Step, ...]:
        """Return the parts before the step, with its event time; none if that is not possible."""
        assert step.event_time is not None
        marks = step.watermark.from_ if step.watermark else None
        known = replace(known, has_row_place=False)
        typed = type_time_expression(step.event_time, "event_time", known, self.report)
        mark = marks and type_time_expression(marks, "watermark", known, self.report)
        if step.watermark is not None and step.watermark.python is not None:
            place = step.keys_at["watermark"].locate()
            message = "watermark: a function is called with the rows of a source, not of a step"
            self.report.add(message, place, "set event_time and watermark in the source")
            return ()
        chain = self._find_chain(step)
        if typed is None or chain is None or (marks is not None and mark is None):
            return ()
        source, *steps = chain
        assert isinstance(source, nodes.Source)
        every = [o for s in steps if isinstance(s, nodes.Step) for o in s.operations]
        if not self._check_operations(step, [*every, *operations]):
            return ()
        columns, condition = _substitute([*every, *operations], source)
        computed = [(nodes.EVENT_TIME_VALUE, typed, step.event_time)]
        computed += [(nodes.WATERMARK_VALUE, mark, marks)] if mark and marks else []
        times = tuple(
            nodes.ComputedColumn(name, substitute_columns(value, columns), text.printable)
            for name, value, text in computed
        )
        if any(map(_reads_clock, filter(None, (*(t.value for t in times), condition)))):
            message = "event_time: a step before depends on current_timestamp()"
            self.report.add(message, step.event_time.locate(), _HINT)
            return ()
        timed = replace(
            source,
            event_time=nodes.EVENT_TIME_VALUE,
            watermark=step.watermark,
            times=times,
            time_condition=condition,
            time_step=str(step.name),
        )
        return tuple(_with_event_time(part) for part in (timed, *steps))

    def _find_chain(self, step: Step) -> list[nodes.Source | nodes.Step] | None:
        """Return the source of the step's rows and the steps between, if no other part reads
        them."""
        chain: list[nodes.Source | nodes.Step] = []
        streams = [str(name) for name in step.input_streams]
        while True:
            if len(streams) != 1:
                self._refuse(step, f"the rows are those of {' and '.join(streams)}")
                return None
            (name,) = streams
            part = self.parts.get(name)
            if part is None:
                self._refuse(step, f'"{name}" is not the stream of a source or of a step')
                return None
            readers = self._list_readers(name)
            if len(readers) > 1:
                others = " and ".join(f'"{each}"' for each in readers)
                self._refuse(step, f'"{name}" is read by {others}')
                return None
            chain.insert(0, part)
            if isinstance(part, nodes.Source):
                if part.table is not None:
                    self._refuse(step, f'the rows of "{part.name}" are changes of a table')
                    return None
                if part.event_time is not None:
                    of = f'step "{part.time_step}"' if part.time_step else f'source "{part.name}"'
                    self._refuse(step, f"the rows have the event time of {of}")
                    return None
                return chain
            streams = list(part.inputs)

    def _list_readers(self, stream: str) -> list[str]:
        steps = (s.name for s in self.pipeline.steps.values() if stream in s.input_streams)
        sinks = (s.name for s in self.pipeline.sinks.values() if s.from_ == stream)
        return [str(name) for name in (*steps, *sinks)]

    def _check_operations(self, step: Step, operations: Iterable[nodes.Operation]) -> bool:
        for operation in operations:
            if not isinstance(operation, nodes.Filter | nodes.Project):
                word = type(operation).__name__.lower()
                self._refuse(step, f"{word} is between the source and the event time")
                return False
            values = (
                [operation.condition]
                if isinstance(operation, nodes.Filter)
                else [column.value for column in operation.columns]
            )
            if any(map(is_fallible, values)):
                self._refuse(step, "an expression before may fail for a row")
                return False
            if any(map(is_random, values)):
                self._refuse(step, "an expression before has random values")
                return False
        return True

    def _refuse(self, step: Step, reason: str) -> None:
        assert step.event_time is not None
        message = f"event_time of a step is computed in its source, but {reason}"
        self.report.add(message, step.event_time.locate(), _HINT)


def _substitute(
    operations: Iterable[nodes.Operation], source: nodes.Source
) -> tuple[dict[str, TypedExpression], TypedExpression | None]:
    """Return the columns after the operations over those of the source, and which rows pass."""
    columns: dict[str, TypedExpression] = {f.name: reference_field(f) for f in source.schema}
    condition: TypedExpression | None = None
    for operation in operations:
        if isinstance(operation, nodes.Filter):
            passes = substitute_columns(operation.condition, columns)
            call = (condition, passes) if condition is not None else ()
            condition = (
                FUNCTIONS["and"].resolve(TypedCall("and", call, NOWHERE)) if call else passes
            )
        elif isinstance(operation, nodes.Project):
            columns = {c.name: substitute_columns(c.value, columns) for c in operation.columns}
    return columns, condition


def _reads_clock(typed: TypedExpression) -> bool:
    return any(isinstance(node, ProcessingTime) for node in walk(typed))


def _with_event_time(part: nodes.Source | nodes.Step) -> nodes.Source | nodes.Step:
    """Return the part whose rows have an event time."""
    outputs = tuple(
        replace(stream, has_event_time=True) if stream.name == part.name else stream
        for stream in part.outputs
    )
    return replace(part, outputs=outputs)
