"""The output streams of a part: their names and their known columns.

A step emits its rows, and side outputs: late rows and rows without a match in a table, both
unchanged, and dead letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headrace.core.expressions.resolver import NO_TABLES
from headrace.core.pipeline.model import Pipeline, Source, Step
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.plan.columns import KnownColumns, PlanProblems, add_change_column
from headrace.core.plan.endpoints import DEAD_LETTER_SCHEMA
from headrace.core.plan.processes import build_named_outputs

DEAD_LETTER_COLUMNS = KnownColumns(DEAD_LETTER_SCHEMA)


def build_main_streams(
    step: Step, known: KnownColumns, kind: nodes.StreamKind, *, timed: bool
) -> list[tuple[nodes.Stream, KnownColumns]]:
    """Return the streams of the rows that operations emit; named outputs have their own columns."""
    named = build_named_outputs(step, timed)
    others = {stream.name for stream in named}
    names = [str(name) for name in list_main_outputs(step) if name not in others]
    rows = [nodes.Stream(name, known.schema, kind, timed) for name in names]
    of_rows = replace(known, tables=NO_TABLES)
    return [
        *((stream, of_rows) for stream in rows),
        *((stream, KnownColumns(stream.schema)) for stream in named),
    ]


def build_late_streams(
    step: Step,
    inputs: Sequence[tuple[KnownColumns, bool]],
    report: PlanProblems,
    *,
    of_changes: frozenset[int | None],
) -> Iterator[tuple[nodes.Stream, KnownColumns]]:
    """Yield the streams of late rows.

    `inputs` have the known columns, and whether there is an event time: first of the combined
    input, then of each input. `of_changes` are the inputs whose late rows are changes, with the
    column CHANGE.
    """
    for name, of in _list_late_streams(step):
        known, timed = inputs[0 if of is None else of + 1]
        if of in of_changes:
            known = add_change_column(known, name.locate(), report)
        yield nodes.Stream(str(name), known.schema, nodes.Append(), timed), known


def build_incomplete_stream(
    operations: Sequence[nodes.Operation], *, timed: bool
) -> Iterator[tuple[nodes.Stream, KnownColumns]]:
    """Yield the stream of partial matches, if there is one."""
    for operation in operations:
        match = nodes.find_match(operation)
        if match is not None and match.incomplete_to is not None:
            schema = match.incomplete_schema
            stream = nodes.Stream(match.incomplete_to, schema, nodes.Append(), timed)
            yield stream, KnownColumns(schema)


def build_dead_letter_stream(step: Step) -> Iterator[tuple[nodes.Stream, KnownColumns]]:
    """Yield the stream of the rows on which a step fails, if they are written to one."""
    if step.on_error.to:
        yield (
            nodes.Stream(str(step.on_error.to), DEAD_LETTER_SCHEMA, nodes.Append(), False),
            DEAD_LETTER_COLUMNS,
        )


def list_main_outputs(step: Step) -> Iterator[Text]:
    """Yield the names of a step's main outputs, each at the position that defines it."""
    for name, _ in (step.process.outputs or ()) if step.process else ():
        yield _make_name(f"{step.name}.{name}", name)
    if step.iterate is not None:
        yield step.name
        suffixes = ["loop"] if step.iterate.max_rounds is None else ["loop", "over"]
        for suffix in suffixes if step.iterate.delta is None else ("workset", "solution"):
            yield _make_name(f"{step.name}.{suffix}", step.keys_at["iterate"])
        return
    if step.route is None:
        yield step.name
        return
    for branch in step.route:
        yield _make_name(f"{step.name}.{branch.name}", branch.name)
    yield _make_name(f"{step.name}.else", step.keys_at["route"])


def _list_late_streams(step: Step) -> tuple[tuple[Text, int | None], ...]:
    """Return the streams of late rows and of rows without a match, each with the index of its
    input, if the step has two inputs."""
    streams: list[tuple[Text | None, int | None]] = []
    if step.join is not None and step.join.late_to is not None:
        streams = [(step.join.late_to.left, 0), (step.join.late_to.right, 1)]
    elif step.connect is not None:
        late = step.connect.late_to
        streams = [] if late is None else [(late.left, 0), (late.right, 1)]
    elif step.broadcast is not None:
        by = step.process or step.broadcast
        streams = [(by.late_to, 0)]
    elif step.over is not None:
        streams = [(step.late_to, None)]
    elif step.match is not None and step.match.rules is not None:
        streams = [(step.match.late_to, 0)]
    elif by_time := step.window or step.dedup or step.process or step.match:
        streams = [(by_time.late_to, None)]
    if step.lookup is not None:
        streams.append((step.lookup.on_miss.to, None))
    return tuple((name, of) for name, of in streams if name is not None)


def _make_name(name: str, at: Text) -> Text:
    """Return a generated name with the position of another text."""
    return Text(name, at.scalar)


def list_declared_streams(pipeline: Pipeline) -> Iterator[tuple[Source | Step, Text]]:
    """Yield every stream with the part that emits it, in the order of the file."""
    parts: list[Source | Step] = [*pipeline.sources.values(), *pipeline.steps.values()]
    for part in parts:
        for name in list_main_outputs(part) if isinstance(part, Step) else (part.name,):
            yield part, name
        for name, _ in _list_late_streams(part) if isinstance(part, Step) else ():
            yield part, name
        if isinstance(part, Step) and part.match and part.match.incomplete_to is not None:
            yield part, part.match.incomplete_to
        if part.on_error.to is not None:
            yield part, part.on_error.to
