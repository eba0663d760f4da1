"""Descriptions of the parts of a plan in words: one line for each clause.

`explain` arranges these lines; this module does not depend on the output format.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.pipeline.part import DocumentModel
from headrace.core.plan import nodes
from headrace.core.plan.describe_joins import describe_join
from headrace.core.plan.describe_keyed import describe_keyed_operation
from headrace.core.plan.describe_lookup import describe_lookup
from headrace.core.plan.layout import get_two_input_operation
from headrace.core.plan.nodes import (
    Aggregate,
    Apply,
    Dedup,
    Explode,
    Filter,
    Join,
    Lookup,
    Map,
    Operation,
    Process,
    Project,
    Route,
    Sink,
    Source,
    Step,
    Top,
)
from headrace.core.plan.wording import format_options


def get_part_kind(part: nodes.PlanPart) -> str:
    """Return the kind of a part: source, step or sink.

    >>> get_part_kind(Step("a", (), (), "fail", (), 1))
    'step'
    """
    match part:
        case Source():
            return "source"
        case Step():
            return "step"
        case Sink():
            return "sink"


def describe_connector(part: Source | Sink) -> str:
    """Return the connector and the format: `files, json`."""
    return part.connector if part.format is None else f"{part.connector}, {part.format}"


def describe_part(part: nodes.PlanPart) -> Iterator[str]:
    """Yield the clauses of a part, one per line, in the order in which they apply."""
    match part:
        case Source():
            yield from _describe_source(part)
        case Step():
            if get_two_input_operation(part) is None:
                yield f"from {', '.join(part.inputs)}"
            for operation in part.operations:
                yield from _describe_operation(operation)
            if part.on_error != "fail":
                yield f"rows that fail: {_describe_on_error(part.on_error)}"
        case Sink():
            yield f"from {part.input}"
            yield from _describe_options(part.options)


def _describe_source(source: Source) -> Iterator[str]:
    yield from _describe_options(source.options)
    everything = source.schema.names
    if len(source.decoded_columns) < len(everything):
        read = ", ".join(source.decoded_columns)
        yield f"decodes {len(source.decoded_columns)} of {len(everything)} columns: {read}"
    if source.event_time:
        marks = f", watermark {format_options(source.watermark)}" if source.watermark else ""
        yield f"event time {source.event_time}{marks}"
    if source.on_error != "fail":
        yield f"bad records: {_describe_on_error(source.on_error)}"


def _describe_on_error(on_error: str) -> str:
    return "skipped and counted" if on_error == "skip" else f"to {on_error}"


def _describe_options(options: DocumentModel) -> Iterator[str]:
    text = format_options(options)
    if text:
        yield text


def _describe_operation(operation: Operation) -> Iterator[str]:
    match operation:
        case Explode(name, array, outer):
            yield f"explode {name} from {array.type}{', keeping empty ones' if outer else ''}"
        case Filter(_, text):
            yield f"where {text}"
        case Project():
            yield f"{operation.clause} {operation.text}"
        case Map():
            yield f"map {operation.file}:{operation.function}, a call per {operation.mode}"
        case Lookup():
            yield from describe_lookup(operation)
        case Route(branches):
            for name, _, text in branches:
                yield f"route {name} where {text}"
            yield "route else"
        case Join():
            yield from describe_join(operation)
        case Aggregate() | Apply() | Top() | Dedup() | Process():
            yield from describe_keyed_operation(operation)
