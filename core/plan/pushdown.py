"""Which columns of each source the plan needs: only those are decoded.

Walked from the sinks up. A sink needs all the columns of its stream, an operation what it reads for
what is needed behind it. A source also decodes its event time and the columns declared `not null`,
because both are promises about every record, and never nothing at all: rows without columns have no
number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from headrace.core.expressions.typed import columns
from headrace.core.plan.layout import inputs
from headrace.core.plan.nodes import (
    Aggregate,
    Computed,
    Dedup,
    Explode,
    Filter,
    Map,
    Operation,
    PlanPart,
    Project,
    Route,
    Sink,
    Source,
    Step,
    Stream,
    Top,
)


def push_down(parts: Iterable[PlanPart]) -> tuple[PlanPart, ...]:
    """The parts with every source's `columns` reduced to those that are needed."""
    parts = tuple(parts)
    streams = {s.name: s for part in parts if not isinstance(part, Sink) for s in part.outputs}
    needed: dict[str, set[str]] = defaultdict(set)
    for part in reversed(parts):
        for name in inputs(part):
            needed[name] |= _wanted(part, needed, streams[name])
    return tuple(_reduced(p, needed[p.name]) if isinstance(p, Source) else p for p in parts)


def _wanted(part: PlanPart, needed: dict[str, set[str]], stream: Stream) -> set[str]:
    """The columns of an input that a part needs, given what is needed of its own outputs."""
    everything = set(stream.schema.names)
    if not isinstance(part, Step):
        return everything
    if part.on_error not in ("fail", "skip"):
        return everything  # a dead letter holds the whole row
    wanted = set[str]().union(*(needed[output.name] for output in part.rows))
    late = set[str]().union(*(needed[name] for name in part.asides))
    for operation in reversed(part.operations):
        before = _before(operation, wanted)
        wanted = everything if before is None else before
    return (wanted | late) & everything


def _before(operation: Operation, wanted: set[str]) -> set[str] | None:
    """The columns read so that the wanted ones come out; None where it is all of them."""
    match operation:
        case Filter(condition):
            return wanted | columns(condition)
        case Explode(name, array):
            return (wanted - {name}) | columns(array)
        case Project():
            kept = [column for column in operation.columns if column.name in wanted]
            return set().union(*(columns(column.value) for column in kept))
        case Route(branches):
            return wanted.union(*(columns(condition) for _, condition, _ in branches))
        case Map():
            return None
        case Aggregate(key, _, aggregated):
            return _read(key).union(*(column.expression.columns for column in aggregated))
        case Top(key, _, _, by):
            return _read(key).union(wanted, *(columns(ranking.value) for ranking in by))
        case Dedup(key):
            return wanted | _read(key)


def _read(key: Iterable[Computed]) -> set[str]:
    return set().union(*(columns(each.value) for each in key))


def _reduced(source: Source, wanted: set[str]) -> Source:
    keep = wanted | source.checked | ({source.event_time} if source.event_time else set())
    columns = tuple(name for name in source.schema.names if name in keep)
    return replace(source, columns=columns or source.schema.names[:1])
