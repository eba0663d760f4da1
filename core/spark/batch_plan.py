"""The plan as a batch runs it, and the problems for which a batch rejects a pipeline.

Parts that matter only while rows still arrive are left out. No row is late, so lateness has no
effect. A window that fires early is emitted again later, so only its last firing counts. Operations
that depend on the order of arrival take rows in the order of their event time, then of their
position among all rows.

A batch reads all existing rows, possibly more than once and in no particular order. So it rejects
sources without an end, sources that cannot be read a second time, and operations that depend on the
time of arrival. Problems are reported before anything starts, with file positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from headrace.core.errors.problems import Problem, sort_problems
from headrace.core.expressions.typed import reference_field
from headrace.core.pipeline.model import Pipeline
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connectors
from headrace.core.plan.layout import build_edges, replaces_by_own_key
from headrace.core.plan.nodes.matching import (
    BroadcastMatch,
    ChangelogMatch,
    IntervalMatch,
    JoinMatching,
)
from headrace.core.plan.nodes.windows import Count, Ttl, Window
from headrace.core.plan.row_order_demand import mark_ordered_streams, needs_row_order


def to_batch_plan(plan: nodes.Plan) -> nodes.Plan:
    """Convert the plan of a stream to that of a batch."""
    parts: list[nodes.PlanPart] = []
    for part in plan:
        match part:
            case nodes.Step():
                parts.append(_convert_step(part))
            case nodes.Sink() if replaces_by_own_key(part, plan.streams[part.input]):
                step = _build_last_rows(part, plan.streams[part.input])
                parts += step, replace(part, input=step.name)
            case _:
                parts.append(part)
    marked = mark_ordered_streams(parts, _needs_batch_order)
    return replace(plan, parts=marked, edges=build_edges(marked))


def _build_last_rows(sink: nodes.Sink, stream: nodes.Stream) -> nodes.Step:
    """Build the step that selects the last row of each key, which replaces the others in a sink."""
    fields = [field for field in stream.schema if field.name in sink.key]
    key = tuple(nodes.ComputedColumn(f.name, reference_field(f)) for f in fields)
    name = f"{sink.name}@last"
    out = nodes.Stream(name, stream.schema, nodes.Upsert(sink.key), stream.has_event_time)
    dedup = nodes.Dedup(key, "last")
    return nodes.Step(name, (stream.name,), (dedup,), "fail", (out,), sink.parallelism)


def _convert_step(step: nodes.Step) -> nodes.Step:
    operations = tuple(map(_convert_operation, step.operations))
    # A pass of Spark has no marker that ends a round: its operators emit at the end of their input.
    return replace(step, operations=operations, round_inputs=frozenset())


def _convert_operation(operation: nodes.Operation) -> nodes.Operation:
    if isinstance(operation, nodes.Dedup) and operation.changes is not None:
        # All changes are there, in whatever order they are read: none is forgotten.
        return replace(operation, ttl=None, changes=operation.changes.without_arrival())
    if isinstance(operation, nodes.Lookup):
        return replace(operation, reads_upserts=False)
    if isinstance(operation, nodes.Map):
        return replace(operation, changelog_key=None)
    if not isinstance(operation, nodes.WindowedOperation):
        return operation
    if isinstance(operation, nodes.Apply):
        return replace(operation, window=_fire_once(operation.window))
    window = None if operation.window is None else _fire_once(operation.window)
    # A changelog becomes its final table, whose rows are never retracted.
    return replace(operation, window=window, changelog_key=None, reads_retractions=False)


def _fire_once(window: Window) -> Window:
    trigger = None if window.keeps_rows else window.trigger
    return replace(window, lateness_us=0, trigger=trigger)


def _needs_batch_order(operation: nodes.Operation) -> bool:
    """Whether the operation needs sorted rows; also if a stream would take the order of arrival."""
    if isinstance(operation, nodes.Dedup):
        return True
    if isinstance(operation, nodes.Process) and operation.reads_changes:
        return True
    if isinstance(operation, nodes.Aggregate | nodes.Apply) and operation.window is not None:
        return isinstance(operation.window.shape, Count) or needs_row_order(operation)
    return needs_row_order(operation)


NOT_REPLAYABLE = "it cannot be read twice, which a batch may have to do"


FILE_HINT = "save it as a file, and read that: files: {path: rows.jsonl}"


TIME_OF_RUN = "the result would depend on when the batch runs"


EVENT_TIME_HINT = "leave out time: processing, and set event_time in the source"


ACCUMULATE_HINT = "leave out accumulate: false: then only the last firing of a window counts"


AT_END_HINT = "leave out at_end: false: then a window has all its rows"


def find_problems(
    pipeline: Pipeline, plan: nodes.Plan, connectors: Connectors
) -> tuple[Problem, ...]:
    """List all problems of running a plan as a batch."""
    found: list[Problem] = []
    for part in plan:
        if isinstance(part, nodes.Source):
            found += _check_source(pipeline, part, connectors)
    return tuple(sort_problems([*found, *find_step_problems(pipeline, plan)]))


def find_step_problems(pipeline: Pipeline, plan: nodes.Plan) -> Iterator[Problem]:
    """Yield the problems of running the steps of a plan in a batch, whatever its sources are."""
    for part in plan:
        if isinstance(part, nodes.Step):
            yield from _check_step(pipeline, part)


def _check_source(
    pipeline: Pipeline, source: nodes.Source, connectors: Connectors
) -> Iterator[Problem]:
    side = connectors[source.connector].source
    assert side is not None
    place = pipeline.sources[source.name].keys_at[source.connector].locate()
    subject = f'source "{source.name}"'
    if not side.is_replayable or side.open_batch is None:
        message = f"--batch cannot read {source.connector}: {NOT_REPLAYABLE}"
        yield Problem(message, place, FILE_HINT, subject)
    elif not side.is_bounded(source.options):
        yield Problem(
            "it has no end, but --batch reads to the end", place, side.bounding_hint, subject
        )


def _check_step(pipeline: Pipeline, step: nodes.Step) -> Iterator[Problem]:
    name = step.name.partition("@")[0]
    if name not in pipeline.steps:  # the plan added it, to a source
        return
    keys, subject = pipeline.steps[name].keys_at, f'step "{name}"'
    for operation in step.operations:
        if isinstance(operation, nodes.Join) and (why := _check_join(operation.matching)):
            at = _find_key(keys, "join", "broadcast", "ttl")
            yield Problem(why[0], at.locate(), why[1], subject)
        if (body := nodes.find_process_body(operation)) is not None:
            of_changes = isinstance(operation, nodes.Process) and operation.reads_changes
            for message, hint in _check_process(body, of_changes=of_changes):
                yield Problem(message, keys["process"].locate(), hint, subject)
        for key in ("window", "ttl"):
            if why := _check_window_or_ttl(getattr(operation, key, None)):
                at = _find_key(keys, key, "dedup")
                yield Problem(why[0], at.locate(), why[1], subject)


def _find_key(keys: Mapping[str, Text], *names: str) -> Text:
    """Return the first of these keys that a step has; that of its query, if it has none."""
    return next(keys[name] for name in (*names, "sql") if name in keys)


def _check_process(body: nodes.ProcessBody, *, of_changes: bool) -> Iterator[tuple[str, str]]:
    expires = any(each.ttl_us is not None for _, each in body.states)
    if of_changes and (body.timers or expires):
        what = "timers" if body.timers else "states with a ttl"
        message = (
            f"--batch passes the final table without the times of its changes, which {what} use"
        )
        yield message, f"run it without --batch, or leave the {what} out of the class"
    elif not body.uses_event_time and not of_changes:
        message = "--batch has no order of arrival for process to follow"
        yield message, "leave out order: arrival, and set event_time in the source"
    clocked = [name for name, declared in body.states if declared.processing]
    if clocked:
        message = f'--batch has no processing time, which "{clocked[0]}" uses: {TIME_OF_RUN}'
        yield message, 'leave out time="processing" where the class declares it'


def _check_join(matching: JoinMatching) -> tuple[str, str] | None:
    """Return why a batch rejects a join, and a hint; None if it does not."""
    match matching:
        case (
            IntervalMatch(uses_processing_time=True)
            | ChangelogMatch(ttl=Ttl(uses_processing_time=True))
        ):
            return f"--batch has no joins by processing time: {TIME_OF_RUN}", EVENT_TIME_HINT
        case BroadcastMatch(uses_event_time=False):
            message = "--batch has no order of arrival for broadcast to follow"
            return message, "leave out order: arrival, and set event_time in both sources"
    return None


def _check_window_or_ttl(key: object) -> tuple[str, str] | None:
    """Return why a batch rejects a window or ttl, and a hint; None if it does not."""
    match key:
        case Window(uses_processing_time=True):
            return f"--batch has no windows of processing time: {TIME_OF_RUN}", EVENT_TIME_HINT
        case Window(keeps_rows=False, trigger=trigger) if trigger is not None:
            message = "--batch has no early firings without accumulated rows"
            return f"{message}: their rows would depend on when rows arrive", ACCUMULATE_HINT
        case Window(fires_at_end=False):
            message = "--batch has no windows that do not fire at their end"
            return f"{message}: their last firing would depend on when rows arrive", AT_END_HINT
        case Ttl(uses_processing_time=True):
            return f"--batch has no ttl by processing time: {TIME_OF_RUN}", EVENT_TIME_HINT
    return None
