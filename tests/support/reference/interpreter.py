"""An interpreter of plans over bounded inputs: the result that streams and batches must reach.

By default no row is late, and a changelog is the table that it ends as. Time does not pass:
whatever depends on the progress of watermarks or of the wall clock (`ttl`, windows by the wall
clock, firing by time without accumulation) has no single answer and is refused. With a timeline,
windows have one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cmp_to_key

import polars as pl

from headrace.core.aggregates import (
    ORDER,
    AggregateExpression,
    compute_partial_states,
    compute_results,
)
from headrace.core.errors.value_errors import ExpressionFailure
from headrace.core.expressions.typed import TypedExpression
from headrace.core.operators.dead_letters import from_failed_rows
from headrace.core.plan import nodes
from headrace.core.plan.layout import get_two_input_operation
from headrace.core.plan.nodes.matching import ConnectedMatch
from headrace.core.plan.nodes.windows import Window
from headrace.core.plan.row_expressions import find_fallible_expressions
from headrace.core.types.change_columns import CHANGE, INSERT, SEQUENCE
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import DELETE
from headrace.core.types.elements import SEQUENCE as TABLE_SEQUENCE
from tests.support.reference import process_classes
from tests.support.reference.firings import Found
from tests.support.reference.joins import joined
from tests.support.reference.lookups import looked_up
from tests.support.reference.over import over
from tests.support.reference.rows import Row, Value, evaluated, frame_of, same
from tests.support.reference.timeline import AT_ONCE, Timeline
from tests.support.reference.user_functions import applied, mapped
from tests.support.reference.windows import windows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Rows = list[Row]
Inputs = Mapping[str, Sequence[Sequence[dict[str, Value]]]]
"""The rows of each split of each source, and the rows of each lookup's table."""


@dataclass(frozen=True)
class Course:
    """The order in which rows arrive, and which of the results of windows are wanted."""

    in_time: bool = False
    """Whether rows arrive in the order of event time, as in a batch run."""
    every_firing: bool = False
    """Whether the windows of a changelog have a row for each of their firings."""
    timeline: Timeline = AT_ONCE


def interpret(
    plan: nodes.Plan,
    inputs: Inputs,
    *,
    in_time: bool = False,
    every_firing: bool = False,
    timeline: Timeline = AT_ONCE,
) -> dict[str, Rows]:
    """Return the rows of every stream and of every sink, by name.

    Rows arrive in the order of the input, of the timeline, or, with `in_time`, of event time, as in
    a batch run. With `every_firing`, the windows of a changelog have a row for each firing.
    """
    course = Course(in_time, every_firing, timeline)
    streams: dict[str, Rows] = {name: [] for name in plan.streams}  # no row is late or bad
    for number, part in enumerate(plan):
        match part:
            case nodes.Source():
                streams[part.name] = _read(
                    part, number, inputs[part.name], timeline.arrivals.get(part.name, ())
                )
            case nodes.Step():
                emitted = _step(part, *_input(part, streams), inputs.get(part.name, ()), course)
                streams.update(emitted)
            case nodes.Sink():
                streams[part.name] = streams[part.input]
    return streams


def _read(
    source: nodes.Source,
    number: int,
    splits: Sequence[Sequence[dict[str, Value]]],
    arrivals: Sequence[Sequence[int]],
) -> Rows:
    found = []
    for split, rows in enumerate(splits):
        for at, values in enumerate(rows):
            clock_us = arrivals[split][at] if arrivals else 0
            row = Row(dict(values), None, (0,), clock_us)
            if source.times:
                times = {c.name: evaluated(c.value, [row])[0] for c in source.times}
                values = {**values, **times}
                condition = source.time_condition
                passes = condition is None or evaluated(condition, [row])[0]
                if passes and source.event_time and values[source.event_time] is None:
                    continue  # a bad record
            at_time = values[source.event_time] if source.event_time else None
            time = None if at_time is None else _us(at_time)
            if source.table is not None:
                change = _change(source.table, values)
                if source.table.has_versions:
                    # The row before an update has the time of that row, not one of its own.
                    is_old = values.get(CHANGE) == "update_before"
                    if not is_old and time is None:
                        continue  # a bad record
                    time = None if is_old else time
                if change is None:
                    continue  # a bad record
                found.append(Row(change, time, (time or 0, number, split, at), clock_us))
                continue
            values = {name: value for name, value in values.items() if name in source.schema}
            found.append(Row(dict(values), time, (time or 0, number, split, at), clock_us))
    return sorted(found, key=lambda row: row.clock_us)


def _change(table: nodes.SourceTable, values: dict[str, Value]) -> dict[str, Value] | None:
    """Return a change of a table: its columns, and whether it deletes; None for a bad record."""
    needed = [*table.key, *([TABLE_SEQUENCE] if table.sequence else [])]
    if any(values[name] is None for name in needed):
        return None
    deletes = values.get(CHANGE) in ("delete", "update_before") or values.get(DELETE)
    shown = {n: value for n, value in values.items() if n not in nodes.CHANGE_COLUMNS}
    return {**shown, DELETE: bool(deletes)}


def _input(step: nodes.Step, streams: Mapping[str, Rows]) -> tuple[Rows, dict[str, Rows]]:
    """Return the rows of a union or of a join, and what a class with two inputs emits besides."""
    join = get_two_input_operation(step)
    if join is None:
        return [row for name in step.inputs for row in streams[name]], {}
    if isinstance(join.matching, ConnectedMatch):
        others = _connected(step, join, join.matching, streams)
        return others.pop(step.name), others
    return joined(join, *(streams[name] for name in step.inputs)), {}


def _step(
    step: nodes.Step,
    rows: Rows,
    others: dict[str, Rows],
    tables: Sequence[Sequence[dict[str, Value]]],
    course: Course,
) -> dict[str, Rows]:
    if course.in_time:
        rows = sorted(rows, key=lambda row: row.order)
    joins = get_two_input_operation(step) is not None
    for operation in step.operations[joins:]:
        rows, failed = _checked(operation, rows)
        _fail(step, failed, others)
        match operation:
            case nodes.Filter(condition):
                rows = _where(condition, rows)
            case nodes.Lookup():
                rows, missed, failed = looked_up(operation, rows, tables[0])
                others[operation.miss_stream] = missed
                _fail(step, failed, others)
            case nodes.Project(_, columns):
                rows = _project(columns, rows)
            case nodes.Explode():
                rows = [*_explode(operation, rows)]
            case nodes.Route(branches):
                others |= _route(step.name, branches, rows)
            case nodes.Aggregate():
                rows = [*_aggregate(operation, rows, course)]
                if operation.having is not None:
                    rows = _where(operation.having.condition, rows)
            case nodes.Apply():
                rows = [*_apply(operation, rows, course)]
            case nodes.Top():
                rows = [*_top(operation, rows, course)]
            case nodes.Dedup():
                rows = [*_dedup(operation, rows)]
            case nodes.Over():
                rows = [
                    row
                    for _, members in _grouped(operation.key, rows)
                    for row in over(operation, members)
                ]
            case nodes.Process():
                found = process_classes.run(operation.body, _grouped(operation.key, rows))
                others |= _named(step, operation.body, found)
                rows = others.pop(step.name)
            case nodes.ChangeColumn():
                inserted = {CHANGE: INSERT}
                rows = [replace(row, values={**row.values, **inserted}) for row in rows]
            case nodes.WeightConversion():
                pass  # the same table
            case nodes.RowTime(value):
                rows = list(_timed(rows, evaluated(value, rows)))
            case nodes.ChangelogConversion():
                # The same table, of which each row is inserted.
                values = {CHANGE: INSERT, SEQUENCE: 1}
                added = {f.name: values.get(f.name) for f in operation.added_columns}
                rows = [replace(row, values={**row.values, **added}) for row in rows]
            case nodes.Map():
                rows, failed = mapped(operation, rows)
                _fail(step, failed, others)
    return {step.name: rows, **others}


def _checked(operation: nodes.Operation, rows: Rows) -> tuple[Rows, Rows]:
    """Return the rows for which the operation's expressions do not fail, and the others."""
    fallible = [each.typed for each in find_fallible_expressions(operation)]
    passed, failed = [], []
    for row in rows:
        try:
            for typed in fallible:
                evaluated(typed, [row])
        except ExpressionFailure:
            failed.append(row)
        else:
            passed.append(row)
    return passed, failed


def _connected(
    step: nodes.Step, join: nodes.Join, matching: ConnectedMatch, streams: Mapping[str, Rows]
) -> dict[str, Rows]:
    """Return the output of a class with two inputs."""
    body, of_left = matching.body, step.inputs[0]
    if matching.is_broadcast:
        grouped = _grouped(join.left.key, streams[of_left])
        found = process_classes.run(body, grouped, rules=streams[step.inputs[1]])
    else:
        sides = zip(join.keys, step.inputs, strict=True)
        found = process_classes.run(body, *(_grouped(key, streams[name]) for key, name in sides))
    return _named(step, body, found)


def _named(
    step: nodes.Step, body: nodes.ProcessBody, found: Iterable[tuple[str, Row]]
) -> dict[str, Rows]:
    """Return what a class emits, by stream."""
    names = {"": step.name, **{output: f"{step.name}.{output}" for output, _ in body.outputs}}
    streams: dict[str, Rows] = {name: [] for name in names.values()}
    for output, row in found:
        if output == process_classes.FAILED:
            _fail(step, [row], streams)
        else:
            streams[names[output]].append(row)
    return streams


def _fail(step: nodes.Step, failed: Rows, streams: dict[str, Rows]) -> None:
    """Add dead letters, without their errors, for the rows on which a step failed."""
    if not failed:
        return
    assert step.on_error != "fail", failed
    letters = from_failed_rows(step.name, [("", row.values) for row in failed], 0).to_dicts()
    rows = [replace(row, values=at) for row, at in zip(failed, letters, strict=True)]
    streams[step.on_error] = [*streams.get(step.on_error, []), *rows]


def _where(condition: TypedExpression, rows: Rows) -> Rows:
    passes = evaluated(condition, rows)
    if any(DELETE in row.values for row in rows):
        # A change that does not pass deletes the row with its key.
        gone = [
            {DELETE: row.values[DELETE] or not ok} for row, ok in zip(rows, passes, strict=True)
        ]
        return [replace(r, values={**r.values, **by}) for r, by in zip(rows, gone, strict=True)]
    return [row for row, is_true in zip(rows, passes, strict=True) if is_true]


def _project(columns: tuple[nodes.ComputedColumn, ...], rows: Rows) -> Rows:
    values = {column.name: evaluated(column.value, rows) for column in columns}
    hidden = (DELETE, TABLE_SEQUENCE)
    return [
        replace(
            row,
            values={name: column[at] for name, column in values.items()}
            | {name: row.values[name] for name in hidden if name in row.values},
        )
        for at, row in enumerate(rows)
    ]


def _element_columns(operation: nodes.Explode, element: Value) -> dict[str, Value]:
    """The columns of an element of an exploded array."""
    if not operation.fields:
        return {operation.name: element}
    values = [None] * len(operation.fields) if element is None else [*element.values()]
    return dict(zip(operation.fields, values, strict=True))


def _timed(rows: Rows, times: Sequence[datetime]) -> Iterator[Row]:
    """Return the rows with other event times."""
    for row, time in zip(rows, times, strict=True):
        time_us = (time - EPOCH) // timedelta(microseconds=1)
        yield replace(row, time=time_us, order=(time_us, *row.order[1:]))


def _explode(operation: nodes.Explode, rows: Rows) -> Iterator[Row]:
    for row, array in zip(rows, evaluated(operation.array, rows), strict=True):
        elements = array or ([None] if operation.outer else [])
        for at, element in enumerate(elements):
            values = {**row.values, **_element_columns(operation, element)}
            if operation.position:
                values[operation.position] = at if array else None
            yield replace(row, values=values, order=(*row.order, at))


def _route(
    step: str, branches: tuple[tuple[str, TypedExpression, str], ...], rows: Rows
) -> dict[str, Rows]:
    streams = {}
    for name, condition, _ in branches:
        passes = _where(condition, rows)
        taken = {row.order for row in passes}
        streams[f"{step}.{name}"] = passes
        rows = [row for row in rows if row.order not in taken]
    return {**streams, f"{step}.else": rows}


def _grouped(
    key: tuple[nodes.ComputedColumn, ...], rows: Rows
) -> list[tuple[dict[str, Value], Rows]]:
    """Return the rows of each key, in the order of their arrival."""
    columns = {each.name: evaluated(each.value, rows) for each in key}
    groups: dict[tuple[Value, ...], tuple[dict[str, Value], Rows]] = {}
    for at, row in enumerate(rows):
        values = {name: column[at] for name, column in columns.items()}
        values = {n: v + 0.0 if isinstance(v, float) else v for n, v in values.items()}
        groups.setdefault(tuple(map(same, values.values())), (values, []))[1].append(row)
    return list(groups.values())


def _windows(window: Window | None, ttl: object, rows: Rows, course: Course) -> Iterator[Found]:
    if ttl or (window and course.timeline is AT_ONCE and _depends_on_time(window)):
        raise NotImplementedError("what depends on how time passes has no single answer")
    if window is None:
        yield Found(None, None, tuple(rows))
    else:
        yield from windows(window, rows, course.timeline, every_firing=course.every_firing)


def _depends_on_time(window: Window) -> bool:
    trigger = window.trigger
    fires_by_time = trigger is not None and bool(trigger.every_us) and not window.keeps_rows
    has_clock = trigger is not None and trigger.code is not None and trigger.uses_wall_clock
    return window.uses_processing_time or fires_by_time or has_clock


def _aggregate(operation: nodes.Aggregate, rows: Rows, course: Course) -> Iterator[Row]:
    for number, (key, members) in enumerate(_grouped(operation.key, rows)):
        for found in _windows(operation.window, operation.ttl, members, course):
            results = _results(operation.columns, found.rows, key, operation.key)
            yield Row({**key, **_bounds(found), **results}, *_place(found, number), found.clock_us)
    if operation.emits_empty and not rows:
        yield Row(_results(operation.columns, (), {}, ()), None, (0, 0))


def _apply(operation: nodes.Apply, rows: Rows, course: Course) -> Iterator[Row]:
    for number, (key, members) in enumerate(_grouped(operation.key, rows)):
        for found in _windows(operation.window, None, members, course):
            time, place = _place(found, number)
            for at, made in enumerate(applied(operation, found.rows)):
                yield Row({**key, **_bounds(found), **made}, time, (*place, at), found.clock_us)


def _bounds(found: Found) -> dict[str, Value]:
    if found.start is None or found.end is None:
        return {}
    bounds = {"window_start": found.start, "window_end": found.end}
    return {name: EPOCH + timedelta(microseconds=us) for name, us in bounds.items()}


def _place(found: Found, number: int) -> tuple[int | None, tuple[int, ...]]:
    times = [row.time for row in found.rows if row.time is not None]
    time = found.end - 1 if found.end is not None else max(times, default=None)
    return time, (time or 0, number)


def _results(
    columns: tuple[nodes.AggregatedColumn, ...],
    rows: tuple[Row, ...],
    key: Mapping[str, Value],
    typed: tuple[nodes.ComputedColumn, ...],
) -> dict[str, Value]:
    """Fold all rows at once, in order, without merging partials."""
    in_order = sorted(rows, key=lambda row: row.order)
    answers = {}
    for column in columns:
        expression: AggregateExpression = column.expression
        reads = [
            each.typed
            for call in expression.calls
            for each in (*call.inputs, *([call.condition] if call.condition else []))
        ]
        frame = frame_of(in_order, reads).rename({"__row": ORDER})
        named = [
            pl.lit(key[each.name], dtype=to_polars(each.value.type)).alias(each.name)
            for each in typed
        ]
        states = compute_partial_states(frame, [], expression.calls).with_columns(named)
        names = [each.name for each in typed]
        done = compute_results(states, names, expression.calls, {column.name: expression})
        answers[column.name] = done[column.name].to_list()[0]
    return answers


def _top(operation: nodes.Top, rows: Rows, course: Course) -> Iterator[Row]:
    for number, (_, members) in enumerate(_grouped(operation.key, rows)):
        for found in _windows(operation.window, operation.ttl, members, course):
            ranked = _ranked(operation.by, list(found.rows))
            ranks = _ranks(operation, ranked)
            for at, (rank, row) in enumerate(zip(ranks, ranked, strict=True), 1):
                if rank > operation.rows:
                    break
                time = found.end - 1 if found.end is not None else row.time
                values = {**row.values, **({} if operation.time_column else {"rank": rank})}
                yield Row(values, time, (time or 0, number, at), found.clock_us)


def _ranks(operation: nodes.Top, ranked: Rows) -> list[int]:
    """Return the ranks of rows in order."""
    ranks, groups = list[int](), 0
    for at, row in enumerate(ranked):
        if operation.ties == "row_number" or not at or _differ(operation.by, ranked[at - 1], row):
            groups += 1
            ranks.append(at + 1 if operation.ties != "dense_rank" else groups)
        else:
            ranks.append(ranks[-1])
    return ranks


def _differ(by: tuple[nodes.Ranking, ...], one: Row, other: Row) -> bool:
    for ranking in by:
        a, b = evaluated(ranking.value, [one, other])
        if (a is None) != (b is None):
            return True
        if a is not None and b is not None and _sortable(a) != _sortable(b):
            return True
    return False


def _ranked(by: tuple[nodes.Ranking, ...], rows: Rows) -> Rows:
    rows = sorted(rows, key=lambda row: row.order)
    for ranking in reversed(by):
        values = dict(zip((row.order for row in rows), evaluated(ranking.value, rows), strict=True))
        rows = sorted(rows, key=cmp_to_key(_comparing(ranking, values)))
    return rows


def _comparing(
    ranking: nodes.Ranking, values: Mapping[tuple[int, ...], Value]
) -> Callable[[Row, Row], int]:
    def compare(left: Row, right: Row) -> int:
        a, b = values[left.order], values[right.order]
        if a is None or b is None:
            nulls = (a is None) - (b is None)
            return nulls if ranking.nulls_last else -nulls
        x, y = _sortable(a), _sortable(b)
        bigger = (x > y) - (x < y)
        return -bigger if ranking.descending else bigger

    return compare


def _sortable(value: Value) -> tuple[bool, Value]:
    is_nan = isinstance(value, float) and value != value
    return is_nan, 0.0 if is_nan else value


def _dedup(operation: nodes.Dedup, rows: Rows) -> Iterator[Row]:
    if operation.changes is not None:
        yield from _newest(operation, operation.changes, rows)
        return
    if operation.ttl and not operation.uses_event_time:
        raise NotImplementedError("what depends on how time passes has no single answer")
    if operation.uses_event_time:
        rows = sorted(rows, key=lambda row: row.order)
    for _, members in _grouped(operation.key, rows):
        if operation.keep == "last":
            yield members[-1]
            continue
        yield members[0]
        for before, row in itertools.pairwise(members if operation.ttl else ()):
            assert operation.ttl and row.time is not None and before.time is not None
            if row.time - before.time > operation.ttl.after_us:
                yield row


def _newest(operation: nodes.Dedup, changes: nodes.ChangeOrder, rows: Rows) -> Iterator[Row]:
    """Return the newest change of each key that has a row."""
    for _, members in _grouped(operation.key, rows):
        by_sequence = changes.by == "sequence"
        last = max(
            members, key=lambda row: (by_sequence and row.values[TABLE_SEQUENCE], row.order[1:])
        )
        if not last.values[DELETE]:
            hidden = (DELETE, TABLE_SEQUENCE)
            yield replace(last, values={n: v for n, v in last.values.items() if n not in hidden})


def _us(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)
