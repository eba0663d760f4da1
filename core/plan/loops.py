"""The heads of loops in a plan, and the rules for the steps inside.

The plan is built without the edges back, so a head is typed before the step whose rows come back to
it. `PlanLoops.check` compares the two when all steps are there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.typed import (
    ExpressionError,
    ExpressionErrors,
    TypedExpression,
    find_inputs,
    is_fallible,
)
from headrace.core.pipeline.clauses.iterate import Iterate
from headrace.core.pipeline.model import Pipeline, Sink, Step
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.plan.changelog import describe_kind
from headrace.core.plan.columns import KnownColumns, PlanProblems, type_condition
from headrace.core.plan.constant_conditions import find_results
from headrace.core.plan.conversions import ConversionSteps
from headrace.core.plan.document_checks import format_subject
from headrace.core.plan.loop_bodies import find_steps_between, list_loops
from headrace.core.plan.loop_times import TIME_HINTS, TIME_REASONS, find_time_clauses
from headrace.core.plan.unions import unite_columns
from headrace.core.types.data_types import BIGINT, BOOLEAN, Schema, Struct
from headrace.core.types.data_types import Field as Column
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.queries import TypedQuery


def build_loop(
    step: Step,
    iterate: Iterate,
    inputs: Sequence[tuple[Text, KnownColumns]],
    report: PlanProblems,
) -> tuple[KnownColumns, nodes.Loop]:
    """Return the columns of the rows of a loop, and the operation of its head."""
    if iterate.delta is not None:
        known = _check_delta_columns(inputs, report)
    else:
        known = unite_columns(inputs, report)
    columns = [replace(column, nullable=True) for column in known.schema]
    if iterate.kind != "from":
        known = replace(known, schema=Schema(tuple(columns)), has_row_place=False)
        return known, _build_table_loop(iterate, known, report)
    if iterate.rounds:
        if nodes.ROUNDS_COLUMN in known.schema:
            message = f'iterate.rounds: there is a column "{nodes.ROUNDS_COLUMN}" already'
            report.add(message, step.keys_at["iterate"].locate(), "rename it in an earlier step")
        else:
            columns.append(Column(nodes.ROUNDS_COLUMN, BIGINT))
    known = replace(known, schema=Schema(tuple(columns)), has_row_place=False)
    until = None if iterate.until is None else _type_until(iterate, iterate.until, known, report)
    if until is not None and iterate.until is not None:
        _check_until(until, iterate.until, report)
    loop = nodes.Loop(
        until,
        "" if iterate.until is None else iterate.until.printable,
        str(iterate.last_step),
        bool(iterate.rounds),
        iterate.max_rounds,
        iterate.max_in_loop,
        iterate.watermark == "pass",
    )
    return known, loop


def _check_until(until: TypedExpression, text: Text, report: PlanProblems) -> None:
    """Report a condition that may fail, is never true, or is true for every row."""
    if is_fallible(until):
        hint = "compute it in a step inside, whose on_error applies to the row"
        report.add("iterate.until: it may fail for a row", text.locate(), hint)
        return
    results = find_results(until)
    if True not in results or len(results) == 1:
        message = "iterate.until: it is the same for every row: they leave at once, or never"
        report.add(message, text.locate(), "compare a column, as in until: n > 10")


def _check_delta_columns(
    inputs: Sequence[tuple[Text, KnownColumns]], report: PlanProblems
) -> KnownColumns:
    """Return the columns of a solution, and report those in which the work set differs."""
    known = inputs[0][1]
    for name, found in inputs[1:]:
        differences = [*_list_differences(name, known.schema, found.schema)]
        if differences and known.is_complete and found.is_complete:
            columns = ", ".join(f"{each.name} {each.type}" for each in known.schema)
            message = f"iterate.delta.workset: {'; '.join(differences)}"
            report.add(message, name.locate(), f"it has the columns of the solution: {columns}")
    return known


def _type_until(
    iterate: Iterate, text: Text, known: KnownColumns, report: PlanProblems
) -> TypedExpression | None:
    """Return the condition with which rows leave, and report one over rounds that nobody counts."""
    if iterate.rounds or nodes.ROUNDS_COLUMN in known.schema:
        return type_condition(text, known, report)
    counted = Schema((*known.schema, Column(nodes.ROUNDS_COLUMN, BIGINT)))
    until = type_condition(text, replace(known, schema=counted), report)
    if until is not None and nodes.ROUNDS_COLUMN in find_inputs(until):
        message = f'iterate.until: the column "{nodes.ROUNDS_COLUMN}" is not counted'
        report.add(message, text.locate(), "add rounds: true")
        return None
    return until


def _build_table_loop(iterate: Iterate, known: KnownColumns, report: PlanProblems) -> nodes.Loop:
    """Return the operation of the head of a loop over a table."""
    delta, key, at = iterate.delta, iterate.key or (), "key"
    if delta is not None:
        key, at = delta.key, "delta.key"
    for name in key:
        if name not in known.schema and known.is_complete:
            near = suggest_name(name, known.schema.names)
            hint = near or f"the columns are {', '.join(known.schema.names)}"
            report.add(f'iterate.{at}: unknown column "{name}"', name.locate(), hint)
    table = nodes.TableRounds(
        int(iterate.rounds) if delta is None else iterate.max_rounds or 0,
        None if iterate.until is None else _type_table_condition(iterate, known, key, report),
        tuple(map(str, key)),
        None if delta is None else nodes.DeltaInputs(str(delta.solution), str(delta.workset)),
    )
    text = "" if iterate.until is None else iterate.until.printable
    back = str(iterate.last_step)
    return nodes.Loop(None, text, back, False, None, iterate.max_in_loop, False, table)


def _type_table_condition(
    iterate: Iterate, known: KnownColumns, key: Sequence[Text], report: PlanProblems
) -> TypedQuery | None:
    """Return the condition after which no round begins: a query over the rows of a round."""
    # Only pipelines with such a loop load queries.
    from headrace.core.queries import parse_query, type_query

    assert iterate.until is not None
    at = iterate.until.locate()
    schema = known.schema
    if not key and f"{nodes.BEFORE_COLUMN}." in iterate.until:
        message = "iterate.until: before is the row of the same key, and there is no key"
        report.add(message, at, "as in key: id")
        return None
    if key:
        if nodes.BEFORE_COLUMN in schema:
            message = f'iterate.until: there is a column "{nodes.BEFORE_COLUMN}" already'
            report.add(message, at, "rename it in an earlier step")
            return None
        before = Struct(schema.fields)
        schema = Schema((*schema, Column(nodes.BEFORE_COLUMN, before, nullable=True)))
    try:
        query = type_query(parse_query(f"select {iterate.until} as done from rows"), schema)
    except ExpressionErrors as errors:
        for error in errors.errors:
            report.add(f"iterate.until: {error.message}", at, error.hint)
        return None
    except ExpressionError as error:
        report.add(f"iterate.until: {error.message}", at, error.hint)
        return None
    if query.columns[0].type != BOOLEAN or not query.is_grouped:
        message = "iterate.until: wanted a condition over all rows of a round"
        report.add(message, at, "as in max(abs(rank - before.rank)) < 1e-6")
    return query


@dataclass(slots=True)
class PlanLoops:
    """The loops of a plan: their heads, and their checks when all steps are built."""

    parts: MutableMapping[str, nodes.Source | nodes.Step]
    streams: Mapping[str, nodes.Stream]
    known_columns: Mapping[str, KnownColumns]
    conversions: ConversionSteps
    report: PlanProblems
    untimed: frozenset[str]
    """The heads that have no event time, because their rows lose it inside."""
    found_untimed: set[str] = field(default_factory=set)
    """Others of which that turned out: the plan is to be built again."""
    _heads: dict[str, str] = field(default_factory=dict)
    """The head of the loop that a step is inside of, by step."""

    def build_head(
        self, step: Step, iterate: Iterate, inputs: Sequence[tuple[Text, KnownColumns]]
    ) -> tuple[nodes.Step, KnownColumns]:
        """Return the head of a loop, and the columns of its rows."""
        known, loop = build_loop(step, iterate, inputs, self.report)
        found = [(name, self.streams[name]) for name, _ in inputs if name in self.streams]
        for name, stream in found:
            if not isinstance(stream.kind, nodes.Append):
                message = f'iterate does not take the rows of "{name}", which replace each other'
                hint = "a map with changes: true makes rows of changes"
                self.report.add(message, name.locate(), hint)
        is_timed = all(stream.has_event_time for _, stream in found)
        is_table = loop.table is not None
        is_timed &= step.name not in self.untimed and not is_table
        inner = loop.list_inner_streams(step.name)
        names = [str(step.name), *inner]
        if iterate.max_rounds is not None and not is_table:
            names.append(nodes.name_over_stream(step.name))
        inside = nodes.Retract() if is_table else nodes.Append()
        streams = tuple(
            nodes.Stream(n, known.schema, inside if n in inner else nodes.Append(), is_timed)
            for n in names
        )
        read = (self.streams[name].name if name in self.streams else name for name, _ in inputs)
        head = nodes.Step(
            name=str(step.name),
            inputs=tuple(map(str, read)),
            operations=(loop,),
            on_error="fail",
            outputs=streams,
            parallelism=1,
            may_chain=step.chain,
        )
        return head, known

    def check(self, pipeline: Pipeline) -> None:
        """Report what is wrong with the loops."""
        for head, loop in list_loops(self.parts.values()):
            step = pipeline.steps[head.name]
            assert step.iterate is not None
            self.report.subject = format_subject(step)
            count = pipeline.settings.workers
            if isinstance(count, int) and count > 1:
                message = f"a loop runs in one process, but settings.workers is {count}"
                self.report.add(message, step.keys_at["iterate"].locate(), "leave out workers")
            else:
                self._check_loop(pipeline, step.iterate, head, loop)

    def _check_loop(
        self, pipeline: Pipeline, iterate: Iterate, head: nodes.Step, loop: nodes.Loop
    ) -> None:
        back, parts = self.streams.get(loop.feedback), [*self.parts.values()]
        if back is None or iterate.last_step is None:
            return  # the name is reported elsewhere
        place, inner = iterate.last_step.locate(), loop.list_inner_streams(head.name)
        key, inside = iterate.last_step_key, inner[0]
        body = find_steps_between(parts, inner, loop.feedback)
        if not body:
            message = f'iterate.{key}: the rows of "{loop.feedback}" do not come from {inside}'
            hint = f"the first step inside is one with from: {inside}"
            if loop.feedback in inner:
                wanted = "wanted the last step inside of the loop"
                message = f'iterate.{key}: {wanted}, got "{loop.feedback}"'
                hint += f"; {key} names the last one, whose rows come back"
            self.report.add(message, place, hint)
            return
        left = [stream.name for stream in head.outputs if stream.name not in inner]
        for name in find_steps_between(parts, left, loop.feedback):
            if name not in body or not set(left).isdisjoint(body[name].inputs):
                message = f'the loop of "{head.name}" reads the rows that have left it'
                reader = pipeline.steps.get(name.partition("@")[0], pipeline.steps[head.name])
                hint = f"a row that is to go round does not leave: read {inside}"
                self.report.add(message, reader.keys_at["from"].locate(), hint)
                return
        for name in body:
            other = self._heads.setdefault(name, head.name)
            if other != head.name and not {head.name, other} & {*body, *self._heads}:
                message = (
                    f'iterate.{key}: "{name}" is inside of the loops of "{other}" and "{head.name}"'
                )
                self.report.add(message, place, "each loop has steps of its own")
                return
        if loop.table is None and not isinstance(back.kind, nodes.Append):
            message = f"iterate.feedback: the rows that come back are {describe_kind(back.kind)}"
            hint = "a map with changes: true makes rows of changes"
            self.report.add(message, place, hint)
        self._check_columns(iterate, head, loop)
        if loop.table is not None:
            self._check_readers(pipeline, head, inner, body)
            # Rows that replace others come back as rows that are removed and added.
            back_stream = self.conversions.to_retractions(loop.feedback)
            loop = replace(loop, feedback=back_stream)
            self.parts[head.name] = replace(head, operations=(loop,))
        for each in body.values():
            self._check_step(pipeline, each, head)
        if head.outputs[0].has_event_time and not back.has_event_time:
            self.found_untimed.add(head.name)

    def _check_readers(
        self,
        pipeline: Pipeline,
        head: nodes.Step,
        inner: Collection[str],
        body: Mapping[str, nodes.Step],
    ) -> None:
        """Report what reads the tables of single rounds from outside of the loop."""
        inside = {stream.name for step in body.values() for stream in step.outputs} | {*inner}
        readers: list[tuple[Text, Step | Sink]] = [
            (name, step)
            for step in pipeline.steps.values()
            if step.name not in body and step.iterate is None
            for name in step.input_streams
        ]
        readers += [(sink.from_, sink) for sink in pipeline.sinks.values()]
        for name, part in readers:
            if name in inside:
                self.report.subject = format_subject(part)
                message = f'"{name}" is inside of the loop of "{head.name}", which has many rounds'
                hint = f"{head.name} has the rows of the last round"
                self.report.add(message, name.locate(), hint)
        self.report.subject = format_subject(pipeline.steps[head.name])

    def _check_columns(self, iterate: Iterate, head: nodes.Step, loop: nodes.Loop) -> None:
        """Report the columns in which the rows that come back differ from those that go round."""
        wanted, found = self.known_columns[head.name], self.known_columns[loop.feedback]
        if not (wanted.is_complete and found.is_complete):
            return
        differences = [*_list_differences(loop.feedback, wanted.schema, found.schema)]
        if differences:
            message = f"iterate.{iterate.last_step_key}: {'; '.join(differences)}"
            columns = ", ".join(f"{each.name} {each.type}" for each in wanted.schema)
            inside = loop.list_inner_streams(head.name)[0]
            hint = f"the rows that come back have the columns of {inside}: {columns}"
            self.report.add(message, (iterate.last_step or Text("")).locate(), hint)

    def _check_step(self, pipeline: Pipeline, inner: nodes.Step, head: nodes.Step) -> None:
        """Report the operations of a step inside that would wait for event time."""
        model = pipeline.steps.get(inner.name.partition("@")[0])
        if model is None:
            return
        self.report.subject = format_subject(model)
        if model.iterate is not None:
            message = f'a loop inside of another, that of "{head.name}", is not built'
            self.report.add(message, model.keys_at["iterate"].locate(), "let it leave that first")
            return
        clauses = [] if model.event_time is None else ["event_time"]
        clauses += [clause for each in inner.operations for clause in find_time_clauses(each)]
        for clause in dict.fromkeys(clauses):
            message = f'it is inside the loop of "{head.name}", and {TIME_REASONS[clause]}'
            key = next(
                (model.keys_at[k] for k in (clause, "sql") if k in model.keys_at), model.name
            )
            self.report.add(message, key.locate(), TIME_HINTS[clause])
        self.report.subject = f'step "{head.name}"'


def _list_differences(feedback: str, wanted: Schema, found: Schema) -> Iterator[str]:
    """Yield the differences of the rows that come back, in words."""
    for column in wanted:
        other = found.get(column.name)
        if other is None:
            yield f'"{feedback}" has no column "{column.name}"'
        elif other.type != column.type:
            yield f'"{column.name}" of "{feedback}" is {other.type}, not {column.type}'
    for name in found.names:
        if name not in wanted:
            yield f'"{feedback}" has another column "{name}"'
