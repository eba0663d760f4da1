"""Checks of single parts, and of the names and readers of streams, that need no columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from headrace.core.pipeline.clauses.iterate import Iterate
from headrace.core.pipeline.model import Pipeline, Sink, Source, Step
from headrace.core.pipeline.step_reader import is_pass_through
from headrace.core.plan import nodes
from headrace.core.plan.columns import PlanProblems
from headrace.core.plan.output_streams import list_declared_streams, list_main_outputs
from headrace.core.plan.row_expressions import is_fallible_operation
from headrace.core.plan.stream_graph import find_cycles


def find_producers(pipeline: Pipeline, report: PlanProblems) -> dict[str, str]:
    """Return the part that produces each stream; report names that two parts define."""
    owners: dict[str, str] = {}
    parts = frozenset((*pipeline.sources, *pipeline.steps, *pipeline.sinks))
    for part, stream in list_declared_streams(pipeline):
        report.subject = format_subject(part)
        of_a_part = stream != part.name and stream in parts
        if stream in owners or of_a_part:
            other = f'a stream of "{owners[stream]}"' if stream in owners else "another part"
            hint = "every stream needs a name of its own; from: [a, b] unites two"
            report.add(f'the name "{stream}" is taken by {other}', stream.locate(), hint)
        if not of_a_part:
            owners.setdefault(stream, part.name)
    return owners


def check_sink_names(pipeline: Pipeline, report: PlanProblems) -> None:
    """Check that no sink shares its name: state, metrics and messages refer to names."""
    for sink in pipeline.sinks.values():
        if sink.name in pipeline.sources or sink.name in pipeline.steps:
            report.subject = format_subject(sink)
            kind = "source" if sink.name in pipeline.sources else "step"
            message = f'the name "{sink.name}" is taken by a {kind}'
            report.add(message, sink.name.locate(), "give the sink another name")


def check_locations(pipeline: Pipeline, report: PlanProblems) -> None:
    """Check that no two sinks write into one folder, and no two sources read standard input."""
    owners: dict[tuple[str, str], str] = {}
    ends: list[Source | Sink] = [*pipeline.sources.values()]
    for end in (*ends, *pipeline.sinks.values()):
        is_source = isinstance(end, Source)
        side = end.connector.source if is_source else end.connector.sink
        if side is None or side.describe_exclusive is None:
            continue
        report.subject = format_subject(end)
        place = side.describe_exclusive(end.options)
        other = owners.setdefault((get_part_kind(end), place), end.name)
        if other != end.name:
            message = f'{place} is taken by the {get_part_kind(end)} "{other}"'
            hint = "several steps can read one source" if is_source else "a step can unite both"
            report.add(message, end.name.locate(), hint)


def check_cycles(
    pipeline: Pipeline, reads: Mapping[str, Sequence[str]], report: PlanProblems
) -> list[tuple[str, ...]]:
    """Report and return the cycles of steps; `reads` has the parts that each step reads from."""
    cycles = find_cycles({name: [b for b in below if b in reads] for name, below in reads.items()})
    for cycle in cycles:
        step = pipeline.steps[cycle[0]]
        report.subject = format_subject(step)
        shown = " from ".join((*cycle, cycle[0]))
        message = f"steps read each other in a cycle: {shown}"
        hint = "start from a source; rows go round through a step with iterate, the head of a loop"
        report.add(message, step.keys_at["from"].locate(), hint)
    return cycles


def check_readers(
    pipeline: Pipeline, misspelt_streams: Collection[str], report: PlanProblems
) -> None:
    """Report streams without a reader.

    A step that does nothing is rejected already, and needs no reader. `misspelt_streams` are those
    that a misspelt name probably refers to.
    """
    steps, sinks = pipeline.steps.values(), pipeline.sinks.values()
    if any(step.iterate is not None and not step.iterate.last_step for step in steps):
        return  # the step that it does not name would seem to be unread
    read = {
        *misspelt_streams,
        *(n for step in steps for n in step.input_streams),
        *(step.iterate.last_step or "" for step in steps if step.iterate is not None),
        *(sink.from_ for sink in sinks),
    }
    for part, stream in list_declared_streams(pipeline):
        if stream in read or (isinstance(part, Step) and is_pass_through(part, part.keys_at)):
            continue
        if isinstance(part, Step) and part.iterate and _may_be_unread(part, part.iterate, stream):
            continue
        report.subject = format_subject(part)
        named = isinstance(part, Step) and stream.startswith(f"{part.name}.")
        of_rows = named or stream == part.name
        siblings = list_main_outputs(part) if isinstance(part, Step) and of_rows else ()
        if any(name in read for name in siblings):
            message = f'nothing reads "{stream}": its rows are dropped'
            report.warn(message, stream.locate())
        elif not named or stream.endswith(".else"):
            hint = f"add a sink with from: {stream}"
            report.add(f'nothing reads "{stream}"', stream.locate(), hint)


def _may_be_unread(step: Step, iterate: Iterate, stream: str) -> bool:
    """Whether an output of a loop needs no reader.

    A row that has gone round too often fails the job then, and without `until` no row leaves. The
    steps inside of a delta iteration may read one of its tables.
    """
    if iterate.delta is not None:
        return stream != step.name
    is_over = stream == f"{step.name}.over"
    return is_over or (stream == step.name and iterate.until is None)


def check_parallelism(part: Step | Sink, pipeline: Pipeline, report: PlanProblems) -> None:
    """Check that a part has no more subtasks than there are key groups."""
    groups = pipeline.settings.key_groups
    if part.parallelism and part.parallelism > groups:
        message = f"parallelism {part.parallelism} is more than the {groups} key groups"
        report.add(message, part.keys_at["parallelism"].locate())


def check_on_error(step: Step, operations: Sequence[nodes.Operation], report: PlanProblems) -> None:
    """Warn of an `on_error` of a step in which no row can fail."""
    if "on_error" not in step.keys_at or report.has_errors_of_subject:
        return
    if not (
        step.map
        or step.lookup
        or step.process
        or step.match
        or any(map(is_fallible_operation, operations))
    ):
        message = "no row of this step can fail, so on_error has no effect"
        hint = (
            "an expression gives null where it cannot compute a value; it fails for a row only"
            " with raise_error, assert_true and the like, and with a value above max_value"
        )
        report.warn(message, step.keys_at["on_error"].locate(), hint)


def list_unrepeatable_sources(pipeline: Pipeline) -> Iterator[str]:
    """Yield the sources that cannot be read again from a position."""
    for name, source in pipeline.sources.items():
        side = source.connector.source
        if side is not None and not side.is_replayable:
            yield name


def format_subject(part: Source | Step | Sink) -> str:
    """Return the subject of a problem of that part: `step "totals"`.

    That of a step inside a query is the step with the query.
    """
    return f'{get_part_kind(part)} "{part.name.partition("@")[0]}"'


def get_part_kind(part: Source | Step | Sink) -> str:
    """Return the word for a part."""
    match part:
        case Source():
            return "source"
        case Step():
            return "step"
        case Sink():
            return "sink"
