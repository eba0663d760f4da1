"""Projection pushdown: only the columns that the plan needs are decoded or computed.

The plan is traversed from the sinks up. A sink needs all columns of its stream, an operation those
that it reads to produce what is needed downstream. A source also decodes its event time and the
columns declared `not null`, which hold for every record, and the columns of its watermark. At least
one column is always decoded, because rows without columns cannot be counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from headrace.core.expressions.typed import columns
from headrace.core.plan.layout import inputs, two_sided
from headrace.core.plan.matching import Changing, Connected, Everywhere
from headrace.core.plan.nodes import (
    RANK,
    Aggregate,
    Apply,
    Computed,
    Dedup,
    Explode,
    Filter,
    Join,
    Keyed,
    Lookup,
    Map,
    Operation,
    PlanPart,
    Process,
    Project,
    Route,
    Side,
    Sink,
    Source,
    Step,
    Top,
    TwoSided,
)
from headrace.core.plan.windows import Window

Wanted: TypeAlias = "set[str] | None"
"""The columns that are needed; None means all of them."""


def push_down(parts: Iterable[PlanPart]) -> tuple[PlanPart, ...]:
    """Return the parts with the columns of sources and projections reduced to those needed."""
    parts = tuple(parts)
    streams = {s.name: s for part in parts if not isinstance(part, Sink) for s in part.outputs}
    needed: dict[str, set[str]] = defaultdict(set)
    reduced: list[PlanPart] = []
    for part in reversed(parts):
        wanted: Wanted = None
        match part:
            case Source():
                part = _source(part, needed[part.name])
            case Step():
                part, wanted = _step(part, needed)
        sides = two_sided(part)
        for at, name in enumerate(inputs(part)):
            everything = set(streams[name].schema.names)
            of_it = wanted if sides is None else _of_side(sides, at, part, needed)
            needed[name] |= everything if of_it is None else of_it & everything
        reduced.append(part)
    return tuple(reversed(reduced))


def _of_side(join: TwoSided, side: int, part: PlanPart, needed: Mapping[str, set[str]]) -> Wanted:
    """Return the columns needed of one of two inputs: its output columns, its key, and the columns
    needed of its late rows."""
    of = (join.left, join.right)[side]
    late_to = join.late_to[side]
    read = (columns(each.value) for each in (*of.key, *of.columns))
    identifying: Iterable[str] = ()
    match join.matching:
        case Changing(keys=keys):
            identifying = keys[side]
        case Everywhere(key=key) if side and key is not None:
            identifying = _read(key)
    return set[str]().union(*read, identifying, needed[late_to] if late_to else ())


def _step(step: Step, needed: Mapping[str, set[str]]) -> tuple[Step, set[str] | None]:
    """Return the reduced step, and the columns that it needs of its inputs; None means all."""
    if step.on_error not in ("fail", "skip"):
        return step, None  # a dead letter holds the whole row
    wanted: set[str] | None = set[str]().union(*(needed[output.name] for output in step.rows))
    late = set[str]().union(*(needed[name] for name in step.asides))
    operations: list[Operation] = []
    for operation in reversed(step.operations):
        if wanted is not None:
            if isinstance(operation, Project):
                operation = _projection(operation, wanted)
            if isinstance(operation, Join):
                operation = _joined(operation, wanted)
            if isinstance(operation, Top):
                ranked = (columns(ranking.value) for ranking in operation.by)
                kept = frozenset(wanted - {RANK}) | _seen(operation.window)
                operation = replace(operation, columns=kept.union(*ranked))
            if isinstance(operation, Dedup) and operation.in_time:
                operation = replace(operation, columns=frozenset(wanted))
            if isinstance(operation, Lookup):
                operation = _looked_up(operation, wanted)
            wanted = _before(operation, wanted)
            if wanted is not None and isinstance(operation, Aggregate | Top):
                wanted |= set(operation.changes or ())
            if wanted is not None and isinstance(operation, Keyed | Lookup):
                wanted |= late
        operations.append(operation)
    return replace(step, operations=tuple(reversed(operations))), wanted


def _joined(join: Join, wanted: set[str]) -> Join:
    """Return the join with the columns that are needed downstream, or by its own condition."""
    if isinstance(join.matching, Connected):
        return join  # its class may look at any column
    kept = wanted | (columns(join.only.condition) if join.only else set())

    def reduced(side: Side) -> Side:
        return replace(side, columns=tuple(c for c in side.columns if c.name in kept))

    return replace(join, left=reduced(join.left), right=reduced(join.right))


def _looked_up(lookup: Lookup, wanted: set[str]) -> Lookup:
    """Return the lookup with the columns that are needed or not nullable, but at least one."""
    add = tuple(a for a in lookup.add if a.field.name in wanted or not a.field.nullable)
    return replace(lookup, add=add or lookup.add[:1])


def _projection(project: Project, wanted: set[str]) -> Project:
    """Return the projection with the columns that are needed, but at least one.

    The other columns may read columns that are no longer there.
    """
    columns = tuple(column for column in project.columns if column.name in wanted)
    return replace(project, columns=columns or project.columns[:1])


def _before(operation: Operation, wanted: set[str]) -> set[str] | None:
    """Return the input columns that an operation needs for the wanted ones; None means all."""
    match operation:
        case Filter(condition):
            return wanted | columns(condition)
        case Explode(name, array):
            return (wanted - {name}) | columns(array)
        case Project():
            return set().union(*(columns(column.value) for column in operation.columns))
        case Route(branches):
            return wanted.union(*(columns(condition) for _, condition, _ in branches))
        case Map() | Process():
            return None
        case Lookup(on=on):
            return (wanted - {*operation.added.names}) | _read(on)
        case Aggregate(key, window, aggregated):
            seen = _read(key) | _seen(window)
            return seen.union(*(column.expression.columns for column in aggregated))
        case Apply(key, window, _, of):
            return _read(key) | _seen(window) | {*of.names}
        case Top(key, window, _, by):
            seen = _read(key) | _seen(window)
            return seen.union(wanted, *(columns(ranking.value) for ranking in by))
        case Dedup(key):
            return wanted | _read(key)
        case Join():
            return wanted


def _seen(window: Window | None) -> set[str]:
    """Return the columns that user code in a window reads."""
    return {*window.handed, *window.watched} if window else set()


def _read(key: Iterable[Computed]) -> set[str]:
    return set().union(*(columns(each.value) for each in key))


def _timing(source: Source) -> set[str]:
    """Return the columns of a source's event time and watermark; user code reads all columns."""
    marks = source.watermark
    if marks is not None and marks.python is not None:
        return set(source.schema.names)
    names = (source.event_time, marks.from_ if marks else None)
    return {str(name) for name in names if name is not None}


def _source(source: Source, wanted: set[str]) -> Source:
    keep = wanted | source.checked | _timing(source)
    columns = tuple(name for name in source.schema.names if name in keep)
    return replace(source, columns=columns or source.schema.names[:1])
