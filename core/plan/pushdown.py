"""Projection pushdown: only the columns that the plan needs are decoded or computed.

The plan is traversed from the sinks up. A sink needs all columns of its stream, an operation those
that it reads to produce what is needed downstream. A source also decodes its event time and the
columns declared `not null`, which hold for every record, and the columns of its watermark. Columns
that may fail are computed even if nothing reads them: a check is not lost with its column. At least
one column is always decoded, because rows without columns cannot be counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from headrace.core.expressions.typed import find_columns, is_fallible
from headrace.core.plan.layout import get_input_streams, get_loop, get_two_input_operation
from headrace.core.plan.nodes import (
    CHANGE_COLUMNS,
    RANK_COLUMN,
    Aggregate,
    Apply,
    ChangeColumn,
    ChangelogConversion,
    ComputedColumn,
    Dedup,
    Explode,
    Filter,
    Join,
    JoinSide,
    KeyedOperation,
    Lookup,
    Loop,
    Map,
    Match,
    Operation,
    Over,
    PlanPart,
    Process,
    Project,
    Route,
    RowTime,
    Sink,
    Source,
    Step,
    Top,
    TwoSided,
    WeightConversion,
)
from headrace.core.plan.nodes.matching import (
    BroadcastMatch,
    ChangelogMatch,
    ConnectedMatch,
    RuleMatch,
)
from headrace.core.plan.nodes.windows import Window
from headrace.core.types.change_columns import CHANGE
from headrace.core.types.data_types import Schema

NeededColumns: TypeAlias = "set[str] | None"
"""The columns that are needed; None means all of them."""


def push_down(parts: Iterable[PlanPart]) -> tuple[PlanPart, ...]:
    """Return the parts with the columns of sources and projections reduced to those needed."""
    parts = tuple(parts)
    streams = {s.name: s for part in parts if not isinstance(part, Sink) for s in part.outputs}
    needed: dict[str, set[str]] = defaultdict(set)
    for loop in filter(None, map(get_loop, parts)):
        needed[loop.feedback].update(streams[loop.feedback].schema.names)
    reduced: list[PlanPart] = []
    for part in reversed(parts):
        wanted: NeededColumns = None
        match part:
            case Source():
                part = _reduce_source(part, needed[part.name])
            case Step():
                part, wanted = _reduce_step(part, needed)
        sides = get_two_input_operation(part)
        for at, name in enumerate(get_input_streams(part)):
            everything = set(streams[name].schema.names)
            of_it = wanted if sides is None else _get_side_columns(sides, at, part, needed)
            needed[name] |= everything if of_it is None else of_it & everything
        reduced.append(part)
    return tuple(reversed(reduced))


def _get_side_columns(
    join: TwoSided, side: int, part: PlanPart, needed: Mapping[str, set[str]]
) -> NeededColumns:
    """Return the columns needed of one of two inputs: its output columns, its key, and the columns
    needed of its late rows."""
    of = (join.left, join.right)[side]
    late_to = join.late_to[side]
    read = (find_columns(each.value) for each in (*of.key, *of.columns))
    identifying: Iterable[str] = ()
    match join.matching:
        case ChangelogMatch(keys=keys):
            identifying = keys[side]
        case BroadcastMatch(key=key) if side and key is not None:
            identifying = _get_key_columns(key)
    return set[str]().union(*read, identifying, needed[late_to] if late_to else ())


def _reduce_step(step: Step, needed: Mapping[str, set[str]]) -> tuple[Step, set[str] | None]:
    """Return the reduced step, and the columns that it needs of its inputs; None means all."""
    if step.on_error not in ("fail", "skip"):
        return step, None  # a dead letter holds the whole row
    wanted: set[str] | None = set[str]().union(
        *(needed[output.name] for output in step.main_outputs)
    )
    late = set[str]().union(*(needed[name] for name in step.side_outputs))
    operations: list[Operation] = []
    for operation in reversed(step.operations):
        if wanted is not None:
            if isinstance(operation, Project):
                operation = _reduce_projection(operation, wanted)
            if isinstance(operation, Join):
                operation = _reduce_join(operation, wanted)
            if isinstance(operation, Top):
                ranked = (find_columns(ranking.value) for ranking in operation.by)
                stored_columns = frozenset(wanted - {RANK_COLUMN}) | _get_window_columns(
                    operation.window
                )
                operation = replace(operation, columns=stored_columns.union(*ranked))
            if isinstance(operation, Dedup) and operation.uses_event_time:
                operation = replace(operation, columns=frozenset(wanted))
            if isinstance(operation, Over):
                operation = _reduce_over(operation, wanted)
            if isinstance(operation, Match):
                operation = _reduce_match(operation, wanted)
            if isinstance(operation, WeightConversion):
                operation = replace(operation, columns=frozenset(wanted))
            if isinstance(operation, ChangelogConversion):
                operation = _reduce_conversion(operation, wanted)
            if isinstance(operation, Lookup):
                operation = _reduce_lookup(operation, wanted)
            wanted = _get_input_columns(operation, wanted)
            if wanted is not None and isinstance(operation, Aggregate | Top):
                wanted |= set(operation.changelog_key or ())
            if wanted is not None and isinstance(operation, KeyedOperation | Lookup):
                wanted |= late
        operations.append(operation)
    return replace(step, operations=tuple(reversed(operations))), wanted


def _reduce_join(join: Join, wanted: set[str]) -> Join:
    """Return the join with the columns that are needed downstream, or by its own condition."""
    if isinstance(join.matching, ConnectedMatch | RuleMatch):
        return join  # its class, or a rule, may look at any column
    needed_columns = wanted | (
        find_columns(join.residual_filter.condition) if join.residual_filter else set()
    )

    def reduce_side(side: JoinSide) -> JoinSide:
        return replace(side, columns=tuple(c for c in side.columns if c.name in needed_columns))

    return replace(join, left=reduce_side(join.left), right=reduce_side(join.right))


def _reduce_lookup(lookup: Lookup, wanted: set[str]) -> Lookup:
    """Return the lookup with the columns that are needed or not nullable, but at least one."""
    add = tuple(a for a in lookup.columns if a.field.name in wanted or not a.field.nullable)
    return replace(lookup, columns=add or lookup.columns[:1])


def _reduce_over(over: Over, wanted: set[str]) -> Over:
    """Return the operation with the columns that are needed or may fail, but at least one."""
    columns = tuple(c for c in over.columns if c.name in wanted or is_fallible(c.expression.finish))
    columns = columns or over.columns[:1]
    read = (column.expression.input_columns for column in columns)
    stored = (wanted - {column.name for column in over.columns}).union(*read)
    return replace(over, columns=columns, stored_columns=frozenset(stored))


def _reduce_match(match: Match, wanted: set[str]) -> Match:
    """Return the operation that stores only the columns that conditions and results read."""
    emitted = {field.name for field in match.row} & wanted if match.all_rows else set[str]()
    return replace(match, stored_columns=match.read_columns | match.tested_columns | emitted)


def _reduce_conversion(conversion: ChangelogConversion, wanted: set[str]) -> ChangelogConversion:
    """Return the conversion with the columns that are needed, and those of its key."""
    if conversion.form is not None:
        return conversion  # a sink writes all columns
    needed = wanted | _get_key_columns(conversion.key)
    stored = Schema(tuple(field for field in conversion.columns if field.name in needed))
    return replace(conversion, columns=stored)


def _reduce_projection(project: Project, wanted: set[str]) -> Project:
    """Return the projection with the columns that are needed or may fail, but at least one.

    The other columns may read columns that are no longer there.
    """
    columns = tuple(c for c in project.columns if c.name in wanted or is_fallible(c.value))
    return replace(project, columns=columns or project.columns[:1])


def _get_input_columns(operation: Operation, wanted: set[str]) -> set[str] | None:
    """Return the input columns that an operation needs for the wanted ones; None means all."""
    match operation:
        case WeightConversion():
            return wanted
        case ChangeColumn():
            return wanted - {CHANGE}
        case Filter(condition):
            return wanted | find_columns(condition)
        case RowTime(value):
            return wanted | find_columns(value)
        case Explode(array=array):
            added = {column.name for column in operation.added_columns}
            return (wanted - added) | find_columns(array)
        case Project():
            return set().union(*(find_columns(column.value) for column in operation.columns))
        case Route(branches):
            return wanted.union(*(find_columns(condition) for _, condition, _ in branches))
        case Map() | Process() | Loop():
            return None
        case Lookup(key=on):
            return (wanted - {*operation.added_schema.names}) | _get_key_columns(on)
        case Aggregate(key, window, aggregated):
            seen = _get_key_columns(key) | _get_window_columns(window)
            return seen.union(*(column.expression.input_columns for column in aggregated))
        case Apply(key, window, _, of):
            return _get_key_columns(key) | _get_window_columns(window) | {*of.names}
        case Top(key, window, _, by):
            seen = _get_key_columns(key) | _get_window_columns(window)
            return seen.union(wanted, *(find_columns(ranking.value) for ranking in by))
        case Over(key=key, columns=added):
            stored = wanted - {column.name for column in added}
            read = (column.expression.input_columns for column in added)
            return stored.union(_get_key_columns(key), *read)
        case Match(key=key, stored_columns=stored_columns):
            return _get_key_columns(key) | set(stored_columns or ())
        case ChangelogConversion(columns=columns):
            return set(columns.names)
        case Dedup(key):
            return wanted | _get_key_columns(key)
        case Join():
            return wanted


def _get_window_columns(window: Window | None) -> set[str]:
    """Return the columns that user code in a window reads."""
    return {*window.evictor_columns, *window.trigger_columns} if window else set()


def _get_key_columns(key: Iterable[ComputedColumn]) -> set[str]:
    return set().union(*(find_columns(each.value) for each in key))


def _get_time_columns(source: Source) -> set[str]:
    """Return the columns of a source's event time and watermark; user code reads all columns."""
    marks = source.watermark
    if marks is not None and marks.python is not None:
        return set(source.schema.names)
    names = {name for name in (source.event_time, source.watermark_column) if name is not None}
    typed = [column.value for column in source.times]
    typed += [source.time_condition] if source.time_condition else []
    return names.union(*map(find_columns, typed))


def _reduce_source(source: Source, wanted: set[str]) -> Source:
    keep = wanted | source.not_null_columns | _get_time_columns(source)
    if source.table is not None:
        keep |= {*source.table.key, *CHANGE_COLUMNS}
    columns = tuple(name for name in source.schema.names if name in keep)
    return replace(source, decoded_columns=columns or source.schema.names[:1])
