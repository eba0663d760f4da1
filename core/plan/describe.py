"""Descriptions of the parts of a plan in words: one line for each clause.

`explain` arranges these lines; this module does not depend on the output format.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.pipeline.part import Part
from headrace.core.plan import nodes
from headrace.core.plan.describe_joins import join_lines
from headrace.core.plan.describe_keyed import keyed_lines
from headrace.core.plan.describe_lookup import lookup_lines
from headrace.core.plan.layout import two_sided
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
from headrace.core.plan.wording import said


def kind(part: nodes.PlanPart) -> str:
    """Return the kind of a part: source, step or sink.

    >>> kind(Step("a", (), (), "fail", (), 1))
    'step'
    """
    match part:
        case Source():
            return "source"
        case Step():
            return "step"
        case Sink():
            return "sink"


def outside(part: Source | Sink) -> str:
    """Return the connector and the format: `files, json`."""
    return part.connector if part.format is None else f"{part.connector}, {part.format}"


def lines(part: nodes.PlanPart) -> Iterator[str]:
    """Yield the clauses of a part, one per line, in the order in which they apply."""
    match part:
        case Source():
            yield from _source(part)
        case Step():
            if two_sided(part) is None:
                yield f"from {', '.join(part.inputs)}"
            for operation in part.operations:
                yield from _operation(operation)
            if part.on_error != "fail":
                yield f"rows that fail: {_fate(part.on_error)}"
        case Sink():
            yield f"from {part.input}"
            yield from _options(part.options)


def _source(source: Source) -> Iterator[str]:
    yield from _options(source.options)
    everything = source.schema.names
    if len(source.columns) < len(everything):
        read = ", ".join(source.columns)
        yield f"decodes {len(source.columns)} of {len(everything)} columns: {read}"
    if source.event_time:
        marks = f", watermark {said(source.watermark)}" if source.watermark else ""
        yield f"event time {source.event_time}{marks}"
    if source.on_error != "fail":
        yield f"bad records: {_fate(source.on_error)}"


def _fate(on_error: str) -> str:
    return "skipped and counted" if on_error == "skip" else f"to {on_error}"


def _options(options: Part) -> Iterator[str]:
    text = said(options)
    if text:
        yield text


def _operation(operation: Operation) -> Iterator[str]:
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
            yield from lookup_lines(operation)
        case Route(branches):
            for name, _, text in branches:
                yield f"route {name} where {text}"
            yield "route else"
        case Join():
            yield from join_lines(operation)
        case Aggregate() | Apply() | Top() | Dedup() | Process():
            yield from keyed_lines(operation)
