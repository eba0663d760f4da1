"""An interpreter of plans over bounded inputs: the result that streams and batches must reach.

By default no row is late, and a changelog is the table that it ends as. Time does not pass:
whatever depends on the progress of watermarks or of the wall clock (`ttl`, windows by the wall
clock, firing by time without accumulation) has no single answer and is refused. With a timeline,
windows have one, and rows may be late. `coverage` knows the streams with an answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias

from headrace.core.errors.value_errors import ExpressionFailure
from headrace.core.expressions.typed import TypedExpression
from headrace.core.operators.dead_letters import from_failed_rows
from headrace.core.plan import nodes
from headrace.core.plan.layout import get_loop, get_two_input_operation
from headrace.core.plan.loop_bodies import find_loop_bodies, sort_for_rounds
from headrace.core.plan.nodes.matching import AsOfMatch, ConnectedMatch, IntervalMatch, RuleMatch
from headrace.core.plan.row_expressions import find_fallible_expressions
from headrace.core.testing.reference.joins import join_rows
from headrace.core.testing.reference.keyed_steps import (
    aggregate_rows,
    apply_to_windows,
    find_top_rows,
    group_rows,
    remove_duplicates,
)
from headrace.core.testing.reference.lookup_tables import look_up_rows
from headrace.core.testing.reference.loops import run_rounds
from headrace.core.testing.reference.matches import match_rows
from headrace.core.testing.reference.over import compute_over
from headrace.core.testing.reference.process_classes import FAILED, run_process
from headrace.core.testing.reference.rows import Rows, TimedRow, Value, convert_time, evaluate
from headrace.core.testing.reference.rule_matches import match_rules
from headrace.core.testing.reference.source_rows import read_source
from headrace.core.testing.reference.timeline import AT_ONCE, Course, Timeline
from headrace.core.testing.reference.user_functions import map_rows
from headrace.core.types.change_columns import CHANGE, INSERT, SEQUENCE
from headrace.core.types.elements import DELETE
from headrace.core.types.elements import SEQUENCE as TABLE_SEQUENCE
from headrace.core.types.lazy_dataclass import dataclass

Inputs: TypeAlias = "Mapping[str, Sequence[Sequence[Mapping[str, Value]]]]"
"""The rows of each split of each source, and the rows of each lookup's table."""


def interpret(
    plan: nodes.Plan,
    inputs: Inputs,
    *,
    in_time: bool = False,
    every_firing: bool = False,
    timeline: Timeline = AT_ONCE,
    only: Collection[str] | None = None,
) -> dict[str, Rows]:
    """Return the rows of every stream and of every sink, by name.

    Rows arrive in the order of the input, of the timeline, or, with `in_time`, of event time, as in
    a batch run. With `every_firing`, the windows of a changelog have a row for each firing. With
    `only`, just the parts with an output of these names are interpreted.
    """
    course = Course(in_time, every_firing, timeline)
    streams: dict[str, Rows] = {name: [] for name in plan.streams}  # no row is bad
    numbers = {part.name: number for number, part in enumerate(plan)}
    for part in sort_for_rounds(plan):
        if isinstance(part, nodes.Sink):
            streams[part.name] = streams[part.input]
        elif only is not None and not any(stream.name in only for stream in part.outputs):
            continue
        elif isinstance(part, nodes.Source):
            arrivals = timeline.arrivals.get(part.name, ())
            number = numbers[part.name]
            streams[part.name] = read_source(part, number, inputs[part.name], arrivals)
        elif (loop := get_loop(part)) is not None:
            body = find_loop_bodies(plan)[part.name]
            streams |= run_rounds(part, loop, body, streams, partial(_run_step, inputs, course))
        else:
            streams |= _run_step(inputs, course, part, streams)
    return streams


def _run_step(
    inputs: Inputs, course: Course, step: nodes.Step, streams: Mapping[str, Rows]
) -> dict[str, Rows]:
    """Return the rows of each output of a step."""
    tables = inputs.get(step.name, ())
    return StepInterpreter(step, tables[0] if tables else (), course).run(streams)


@dataclass(slots=True)
class StepInterpreter:
    """Applies the operations of a step to all of its rows, one operation after the other."""

    step: nodes.Step
    table: Sequence[Mapping[str, Value]]
    """The rows of its lookup table."""
    course: Course
    side_outputs: dict[str, Rows] = field(default_factory=dict)

    def run(self, streams: Mapping[str, Rows]) -> dict[str, Rows]:
        """Return the rows of each output."""
        rows = self._gather_input(streams)
        if self.course.in_time:
            rows.sort(key=lambda row: (row.time or 0, row.order))
        joins = get_two_input_operation(self.step) is not None
        for operation in self.step.operations[joins:]:
            rows, failed = _split_failed(operation, rows)
            self._add_dead_letters(failed)
            if isinstance(operation, nodes.KeyedOperation):
                rows = list(self._apply_keyed(operation, rows))
            else:
                rows = list(self._apply(operation, rows))
        return {self.step.name: rows, **self.side_outputs}

    def _gather_input(self, streams: Mapping[str, Rows]) -> Rows:
        """Return the rows of a union, of a join, or of a class with two inputs."""
        join, inputs = get_two_input_operation(self.step), self.step.inputs
        if join is None:
            return [row for name in inputs for row in streams[name]]
        if isinstance(join.matching, ConnectedMatch):
            self.side_outputs |= _run_two_inputs(self.step, join, join.matching, streams)
            return self.side_outputs.pop(self.step.name)
        sides = [streams[name] for name in inputs]
        if isinstance(join.matching, RuleMatch):
            return self._match_rules(join, join.matching.match, *sides)
        if join.has_late_rows and isinstance(join.matching, IntervalMatch | AsOfMatch):
            late = zip(sides, join.late_to, strict=True)
            sides = [self._drop_late_rows(rows, late_to) for rows, late_to in late]
        return join_rows(join, *sides)

    def _drop_late_rows(self, rows: Rows, late_to: str | None) -> Rows:
        """Return the rows that are not behind the watermark; the others are a side output."""
        is_late = self.course.timeline.is_late
        self._add_side_output([row for row in rows if is_late(row)], late_to)
        return [row for row in rows if not is_late(row)]

    def _add_side_output(self, rows: Rows, name: str | None) -> None:
        if name is not None:
            self.side_outputs[name] = rows

    def _add_dead_letters(self, failed: Rows) -> None:
        _add_dead_letters(self.step, failed, self.side_outputs)

    def _apply(self, operation: nodes.Operation, rows: Rows) -> Iterable[TimedRow]:
        """Apply an operation to each row by itself."""
        match operation:
            case nodes.Filter(condition):
                return _filter_rows(condition, rows)
            case nodes.Lookup():
                found, missed, failed = look_up_rows(operation, rows, self.table)
                self.side_outputs[operation.miss_stream] = missed
                self._add_dead_letters(failed)
                return found
            case nodes.Project(_, columns):
                return _project(columns, rows)
            case nodes.Explode():
                return _explode(operation, rows)
            case nodes.Route(branches):
                self.side_outputs |= _route(self.step.name, branches, rows)
            case nodes.ChangeColumn():
                inserted = {CHANGE: INSERT}
                return [replace(row.as_fact(), values={**row.values, **inserted}) for row in rows]
            case nodes.RowTime(value):
                return _set_times(rows, evaluate(value, rows))
            case nodes.Map():
                found, failed = map_rows(operation, rows)
                self._add_dead_letters(failed)
                return found
        return rows  # the conversion of weights leaves the table as it is

    def _apply_keyed(self, operation: nodes.KeyedOperation, rows: Rows) -> Iterable[TimedRow]:
        """Apply an operation to the rows of each key."""
        match operation:
            case nodes.Aggregate() | nodes.Apply() | nodes.Top():
                return self._apply_in_windows(operation, rows)
            case nodes.Dedup():
                if operation.uses_event_time:
                    rows = self._drop_late_rows(rows, operation.late_to)
                return remove_duplicates(operation, rows)
            case nodes.Over():
                rows = self._drop_late_rows(rows, operation.late_to)
                groups = group_rows(operation.key, rows)
                return (row for _, members in groups for row in compute_over(operation, members))
            case nodes.Match():
                return self._match(operation, rows)
            case nodes.Process():
                found = run_process(operation.body, group_rows(operation.key, rows))
                self.side_outputs |= _collect_outputs(self.step, operation.body, found)
                return self.side_outputs.pop(self.step.name)
            case nodes.ChangelogConversion():
                # The same table, of which each row is inserted.
                values = {CHANGE: INSERT, SEQUENCE: 1}
                added = {f.name: values.get(f.name) for f in operation.added_columns}
                return [replace(row, values={**row.values, **added}) for row in rows]
        raise AssertionError(f"no meaning of {operation}")

    def _match(self, operation: nodes.Match, rows: Rows) -> Rows:
        """Find the matches of a pattern in the rows of each key."""
        rows = self._drop_late_rows(rows, operation.late_to)
        found = [match_rows(operation, *group) for group in group_rows(operation.key, rows)]
        self._add_side_output([row for _, some in found for row in some], operation.incomplete_to)
        return [row for some, _ in found for row in some]

    def _match_rules(self, join: nodes.Join, common: nodes.Match, rows: Rows, rules: Rows) -> Rows:
        """Find the matches of rules in the rows of each key."""
        rows = self._drop_late_rows(rows, common.late_to)
        found, incomplete, failed = match_rules(join, common, rows, rules)
        self._add_side_output(incomplete, common.incomplete_to)
        self._add_dead_letters(failed)
        return found

    def _apply_in_windows(self, operation: nodes.WindowedOperation, rows: Rows) -> Rows:
        """Apply an operation to the rows of each key and window."""
        late_rows: Rows = []
        match operation:
            case nodes.Aggregate(having=having):
                results = list(aggregate_rows(operation, rows, self.course, late_rows))
                if having is not None:
                    results = _filter_rows(having.condition, results)
            case nodes.Apply():
                results = list(apply_to_windows(operation, rows, self.course, late_rows))
            case nodes.Top():
                results = list(find_top_rows(operation, rows, self.course, late_rows))
        if operation.window is not None:
            self._add_side_output(late_rows, operation.window.late_to)
        return results


def _split_failed(operation: nodes.Operation, rows: Rows) -> tuple[Rows, Rows]:
    """Return the rows for which the operation's expressions do not fail, and the others."""
    fallible = [each.typed for each in find_fallible_expressions(operation)]
    if not _fails(fallible, rows):
        return rows, []
    failed = [row for row in rows if _fails(fallible, [row])]
    return [row for row in rows if row not in failed], failed


def _fails(expressions: Iterable[TypedExpression], rows: Rows) -> bool:
    """Whether an expression fails in any of the rows."""
    try:
        for each in expressions:
            evaluate(each, rows)
    except ExpressionFailure:
        return True
    return False


def _run_two_inputs(
    step: nodes.Step, join: nodes.Join, matching: ConnectedMatch, streams: Mapping[str, Rows]
) -> dict[str, Rows]:
    """Return the output of a class with two inputs."""
    body, of_left = matching.body, step.inputs[0]
    if matching.is_broadcast:
        grouped = group_rows(join.left.key, streams[of_left])
        found = run_process(body, grouped, rules=streams[step.inputs[1]])
    else:
        sides = zip(join.keys, step.inputs, strict=True)
        found = run_process(body, *(group_rows(key, streams[name]) for key, name in sides))
    return _collect_outputs(step, body, found)


def _collect_outputs(
    step: nodes.Step, body: nodes.ProcessBody, found: Iterable[tuple[str, TimedRow]]
) -> dict[str, Rows]:
    """Return what a class emits, by stream."""
    names = {"": step.name, **{output: f"{step.name}.{output}" for output, _ in body.outputs}}
    streams: dict[str, Rows] = {name: [] for name in names.values()}
    for output, row in found:
        if output == FAILED:
            _add_dead_letters(step, [row], streams)
        else:
            streams[names[output]].append(row)
    return streams


def _add_dead_letters(step: nodes.Step, failed: Rows, streams: dict[str, Rows]) -> None:
    """Add dead letters, without their errors, for the rows on which a step failed."""
    if not failed:
        return
    assert step.on_error != "fail", failed
    letters = from_failed_rows(step.name, [("", row.values) for row in failed], 0).to_dicts()
    rows = [replace(row, values=at) for row, at in zip(failed, letters, strict=True)]
    streams[step.on_error] = [*streams.get(step.on_error, []), *rows]


def _filter_rows(condition: TypedExpression, rows: Rows) -> Rows:
    passes = evaluate(condition, rows)
    if any(DELETE in row.values for row in rows):
        # A change that does not pass deletes the row with its key.
        gone = [
            {DELETE: row.values[DELETE] or not ok} for row, ok in zip(rows, passes, strict=True)
        ]
        return [replace(r, values={**r.values, **by}) for r, by in zip(rows, gone, strict=True)]
    return [row for row, is_true in zip(rows, passes, strict=True) if is_true]


def _project(columns: tuple[nodes.ComputedColumn, ...], rows: Rows) -> Rows:
    values = {column.name: evaluate(column.value, rows) for column in columns}
    hidden = (DELETE, TABLE_SEQUENCE)
    return [
        replace(
            row,
            values={name: column[at] for name, column in values.items()}
            | {name: row.values[name] for name in hidden if name in row.values},
        )
        for at, row in enumerate(rows)
    ]


def _element_columns(operation: nodes.Explode, element: Value) -> dict[str, Value]:
    """The columns of an element of an exploded array."""
    if not operation.fields:
        return {operation.name: element}
    values = [None] * len(operation.fields) if element is None else [*element.values()]
    return dict(zip(operation.fields, values, strict=True))


def _set_times(rows: Rows, times: Sequence[datetime]) -> Iterator[TimedRow]:
    """Return the rows with other event times."""
    for row, time in zip(rows, times, strict=True):
        time_us = convert_time(time)
        yield replace(row, time=time_us, order=(time_us, *row.order[1:]))


def _explode(operation: nodes.Explode, rows: Rows) -> Iterator[TimedRow]:
    for row, array in zip(rows, evaluate(operation.array, rows), strict=True):
        elements = array or ([None] if operation.outer else [])
        for at, element in enumerate(elements):
            values = {**row.values, **_element_columns(operation, element)}
            if operation.position:
                values[operation.position] = at if array else None
            yield replace(row, values=values, order=(*row.order, at))


def _route(
    step: str, branches: tuple[tuple[str, TypedExpression, str], ...], rows: Rows
) -> dict[str, Rows]:
    streams = {}
    for name, condition, _ in branches:
        passes = _filter_rows(condition, rows)
        taken = {row.order for row in passes}
        streams[f"{step}.{name}"] = passes
        rows = [row for row in rows if row.order not in taken]
    return {**streams, f"{step}.else": rows}
