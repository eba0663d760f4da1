"""The plan of a test that gives the rows of a step: sources in the place of the step.

Each output of the step is read from a source of its own, `NAME@given`. Parts that only feed the
step are left out.

Tests: tests/cli/pipeline_tests/test_fed_steps.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from headrace.core.expressions.typed import ColumnReference, reference_field
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.plan import nodes
from headrace.core.plan.layout import build_edges, build_tasks, get_input_streams
from headrace.core.types.data_types import BOOLEAN, TIMESTAMP, Field, Schema
from headrace.core.types.elements import DELETE

GIVEN_SUFFIX = "@given"
"""The suffix of the sources in the place of a step."""
EVENT_TIME_COLUMN = "_event_time"
"""The column of a given row with its event time, if no column of the stream has it.

That of a change may be left out: it is then that of the change before.
"""

KEEPS_ROWS = (
    nodes.ChangeColumn,
    nodes.Dedup,
    nodes.Explode,
    nodes.Filter,
    nodes.Lookup,
    nodes.Over,
    nodes.Route,
    nodes.WeightConversion,
)
"""The operations that leave the columns of a row, and its event time, as they are."""


def replace_fed_streams(
    plan: nodes.Plan, fed: Collection[str], read: Collection[str] = ()
) -> nodes.Plan:
    """Return the plan with sources in the place of the steps that emit the fed streams.

    Parts stay if a sink needs them, or a stream of `read`.
    """
    if not fed:
        return plan
    replaced = [part for part in plan if isinstance(part, nodes.Step) and _emits_any(part, fed)]
    sources = [_build_source(stream, step, plan) for step in replaced for stream in step.outputs]
    passing = [_build_step(stream, step) for step in replaced for stream in step.outputs]
    others = [part for part in plan if part not in replaced]
    old = [part for part in others if isinstance(part, nodes.Source)]
    rest = [part for part in others if not isinstance(part, nodes.Source)]
    parts = tuple(_select_needed([*old, *sources, *passing, *rest], read))
    edges = build_edges(parts)
    return replace(plan, parts=parts, edges=edges, tasks=build_tasks(parts, edges))


def list_independent_streams(plan: nodes.Plan, fed: Collection[str]) -> set[str]:
    """Return the streams that the fed streams are not made of, and these themselves."""
    parts = [part for part in plan if not isinstance(part, nodes.Sink)]
    needed = {name for part in parts if _emits_any(part, fed) for name in get_input_streams(part)}
    while True:
        feeding = [part for part in parts if _emits_any(part, needed)]
        found = {name for part in feeding for name in get_input_streams(part)}
        if found <= needed:
            break
        needed |= found
    rest = (part for part in parts if part not in feeding)
    return {stream.name for part in rest for stream in part.outputs}


def _emits_any(part: nodes.Source | nodes.Step, streams: Collection[str]) -> bool:
    return any(stream.name in streams for stream in part.outputs)


def _select_needed(
    parts: Iterable[nodes.PlanPart], read: Collection[str]
) -> Iterator[nodes.PlanPart]:
    """Yield the sinks, the parts with the streams that are read, and all that these need."""
    parts, needed = tuple(parts), set(read)
    kept = set[str]()
    for part in reversed(parts):
        if isinstance(part, nodes.Sink) or _emits_any(part, needed):
            kept.add(part.name)
            needed.update(get_input_streams(part))
    return (part for part in parts if part.name in kept)


def _build_source(stream: nodes.Stream, step: nodes.Step, plan: nodes.Plan) -> nodes.Source:
    """Build the source of a step's output; whoever runs the plan sets its connector."""
    kind = stream.kind
    key = kind.key if isinstance(kind, nodes.Upsert) and kind.has_deletes else stream.schema.names
    fields = [Field(f.name, f.type, f.nullable or f.name not in key) for f in stream.schema]
    time = find_time_column(plan, stream) if stream.has_event_time else None
    if stream.has_event_time and time is None:
        time = EVENT_TIME_COLUMN
        if time not in stream.schema:
            fields.append(Field(time, TIMESTAMP, not isinstance(kind, nodes.Append)))
    if DELETE in stream.sink_schema:
        fields.append(Field(DELETE, BOOLEAN))
    schema, name = Schema(tuple(fields)), f"{stream.name}{GIVEN_SUFFIX}"
    return nodes.Source(
        name=name,
        connector="",
        options=DocumentModel(),
        format=None,
        schema=schema,
        decoded_columns=schema.names,
        not_null_columns=frozenset(),
        event_time=time,
        watermark=None,
        on_error="fail",
        outputs=(replace(stream, name=name, schema=schema),),
        parallelism=step.parallelism,
        slot=step.slot,
    )


def _build_step(stream: nodes.Stream, step: nodes.Step) -> nodes.Step:
    """Build the step that passes on the columns of a stream from its source."""
    columns = tuple(nodes.ComputedColumn(f.name, reference_field(f)) for f in stream.schema)
    return nodes.Step(
        name=stream.name,
        inputs=(f"{stream.name}{GIVEN_SUFFIX}",),
        operations=(nodes.Project("select", columns, ""),),
        on_error="fail",
        outputs=(stream,),
        parallelism=step.parallelism,
        slot=step.slot,
    )


def find_time_column(plan: nodes.Plan, stream: nodes.Stream) -> str | None:
    """Return the column of a stream that is the event time of its rows, if one is known to be."""
    column = _trace_time(plan, stream.name)
    return column if column is not None and column in stream.schema else None


def _trace_time(plan: nodes.Plan, stream: str) -> str | None:
    part = next(
        part
        for part in plan
        if not isinstance(part, nodes.Sink) and any(each.name == stream for each in part.outputs)
    )
    if isinstance(part, nodes.Source):
        return part.event_time
    if (moved := _find_moved_time(plan, part)) is not None:
        return moved
    columns = {_trace_time(plan, name) for name in part.inputs}
    column = columns.pop() if len(columns) == 1 else None
    for operation in () if stream in part.side_outputs else part.operations:
        column = None if column is None else _follow(column, operation)
        if isinstance(operation, nodes.RowTime) and isinstance(operation.value, ColumnReference):
            column = operation.value.name
    return column


def _find_moved_time(plan: nodes.Plan, step: nodes.Step) -> str | None:
    """Return the event time of a step as written, if its source computes it."""
    return next(
        (
            time.text
            for part in plan
            if isinstance(part, nodes.Source) and part.time_step == step.name
            for time in part.times
            if time.name == nodes.EVENT_TIME_VALUE
        ),
        None,
    )


def _follow(column: str, operation: nodes.Operation) -> str | None:
    """Return the name of a column after an operation that keeps it."""
    if isinstance(operation, nodes.Project):
        return next(
            (
                each.name
                for each in operation.columns
                if isinstance(each.value, ColumnReference) and each.value.name == column
            ),
            None,
        )
    return column if isinstance(operation, KEEPS_ROWS) else None
