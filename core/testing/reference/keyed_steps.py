"""Keyed steps, with all rows of a key or a window at once: aggregates, functions, top, dedup."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cmp_to_key
from typing import TypeAlias

import polars as pl

from headrace.core.aggregates import (
    ORDER,
    compute_partial_states,
    compute_results,
)
from headrace.core.api.window_classes import EPOCH
from headrace.core.plan import nodes
from headrace.core.plan.nodes.windows import Window
from headrace.core.testing.reference.firings import FiredWindow
from headrace.core.testing.reference.rows import (
    Rows,
    TimedRow,
    Value,
    build_frame,
    convert_time,
    evaluate,
    normalize_key,
)
from headrace.core.testing.reference.timeline import AT_ONCE, Course
from headrace.core.testing.reference.user_functions import apply_function
from headrace.core.testing.reference.windows import find_windows
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import DELETE
from headrace.core.types.elements import SEQUENCE as TABLE_SEQUENCE

GROUP = "__group"
"""The column of the number of a group."""
Group: TypeAlias = "tuple[Mapping[str, Value], Sequence[TimedRow]]"
"""The key and the rows of a group."""


def group_rows(
    key: tuple[nodes.ComputedColumn, ...], rows: Rows
) -> list[tuple[dict[str, Value], Rows]]:
    """Return the rows of each key, in the order of their arrival."""
    columns = {each.name: evaluate(each.value, rows) for each in key}
    groups: dict[tuple[Value, ...], tuple[dict[str, Value], Rows]] = {}
    for at, row in enumerate(rows):
        values = {name: column[at] for name, column in columns.items()}
        values = {n: v + 0.0 if isinstance(v, float) else v for n, v in values.items()}
        groups.setdefault(tuple(map(normalize_key, values.values())), (values, []))[1].append(row)
    return list(groups.values())


def _list_windows(
    window: Window | None, ttl: object, rows: Rows, course: Course, late_rows: Rows
) -> Iterator[FiredWindow]:
    if ttl or (window and course.timeline is AT_ONCE and _depends_on_time(window)):
        raise NotImplementedError("what depends on how time passes has no single answer")
    if window is None:
        yield FiredWindow(None, None, tuple(rows))
    else:
        yield from find_windows(
            window,
            rows,
            course.timeline,
            every_firing=course.every_firing,
            late_rows=late_rows,
        )


def _depends_on_time(window: Window) -> bool:
    trigger = window.trigger
    fires_by_time = trigger is not None and bool(trigger.every_us) and not window.keeps_rows
    has_clock = trigger is not None and trigger.code is not None and trigger.uses_wall_clock
    return window.uses_processing_time or fires_by_time or has_clock


def aggregate_rows(
    operation: nodes.Aggregate, rows: Rows, course: Course, late_rows: Rows
) -> Iterator[TimedRow]:
    """Yield the output rows; rows that are too late are added to `late_rows`."""
    windows = [
        (number, key, found)
        for number, (key, members) in enumerate(group_rows(operation.key, rows))
        for found in _list_windows(operation.window, operation.ttl, members, course, late_rows)
    ]
    groups = [(key, found.rows) for _, key, found in windows]
    if operation.emits_empty and not rows:
        groups = [({}, ())]
    results = list(_compute_results(operation, groups))
    if not windows:
        yield from (TimedRow(values, None, (0, 0)) for values in results)
    for (number, key, found), values in zip(windows, results, strict=bool(windows)):
        time, place = _get_place(found, number)
        yield TimedRow({**key, **_get_bounds(found), **values}, time, place, found.clock_us)


def apply_to_windows(
    operation: nodes.Apply, rows: Rows, course: Course, late_rows: Rows
) -> Iterator[TimedRow]:
    """Yield the output rows; rows that are too late are added to `late_rows`."""
    for number, (key, members) in enumerate(group_rows(operation.key, rows)):
        for found in _list_windows(operation.window, None, members, course, late_rows):
            time, place = _get_place(found, number)
            for at, made in enumerate(apply_function(operation, found.rows)):
                yield TimedRow(
                    {**key, **_get_bounds(found), **made}, time, (*place, at), found.clock_us
                )


def _get_bounds(found: FiredWindow) -> dict[str, Value]:
    if found.start is None or found.end is None:
        return {}
    bounds = {"window_start": found.start, "window_end": found.end}
    return {name: EPOCH + timedelta(microseconds=us) for name, us in bounds.items()}


def _get_place(found: FiredWindow, number: int) -> tuple[int | None, tuple[int, ...]]:
    times = [row.time for row in found.rows if row.time is not None]
    time = found.end - 1 if found.end is not None else max(times, default=None)
    return time, (time or 0, number)


def _compute_results(
    operation: nodes.Aggregate, groups: Sequence[Group]
) -> Iterator[dict[str, Value]]:
    """Yield the results of each group: all of its rows are folded at once, in their order."""
    for is_empty, some in itertools.groupby(groups, lambda group: not group[1]):
        if is_empty:
            for group in some:
                yield from _fold_groups(operation, [group], ())
        else:
            yield from _fold_groups(operation, list(some), (GROUP,))


def _fold_groups(
    operation: nodes.Aggregate, groups: Sequence[Group], by: Sequence[str]
) -> list[dict[str, Value]]:
    """Return the results of groups, which have rows; or of a single one, if `by` is empty."""
    expressions = {column.name: column.expression for column in operation.columns}
    calls = tuple({call.name: call for e in expressions.values() for call in e.calls}.values())
    numbered = [
        (at, row)
        for at, (_, rows) in enumerate(groups)
        for row in sorted(rows, key=lambda row: row.order)
    ]
    reads = [each.typed for call in calls for each in call.all_inputs]
    frame = build_frame([row for _, row in numbered], reads).rename({"__row": ORDER})
    frame = frame.with_columns(pl.Series(GROUP, [at for at, _ in numbered], dtype=pl.Int64))
    states = compute_partial_states(frame, by, calls)
    states = states.sort(GROUP) if by else states.with_columns(pl.lit(0).alias(GROUP))
    keys = [
        pl.Series(each.name, [key[each.name] for key, _ in groups], to_polars(each.value.type))
        for each in operation.key
        if groups[0][0]
    ]
    names = [GROUP, *(each.name for each in keys)]
    results = compute_results(states.with_columns(keys), names, calls, expressions)
    return results.sort(GROUP).select(*expressions).to_dicts()


def find_top_rows(
    operation: nodes.Top, rows: Rows, course: Course, late_rows: Rows
) -> Iterator[TimedRow]:
    """Yield the output rows; rows that are too late are added to `late_rows`."""
    for number, (_, members) in enumerate(group_rows(operation.key, rows)):
        for found in _list_windows(operation.window, operation.ttl, members, course, late_rows):
            ranked = _rank_rows(operation.by, list(found.rows))
            ranks = _compute_ranks(operation, ranked)
            for at, (rank, row) in enumerate(zip(ranks, ranked, strict=True), 1):
                if rank > operation.rows:
                    break
                time = found.end - 1 if found.end is not None else row.time
                values = {**row.values, **({} if operation.time_column else {"rank": rank})}
                yield TimedRow(values, time, (time or 0, number, at), found.clock_us)


def _compute_ranks(operation: nodes.Top, ranked: Rows) -> list[int]:
    """Return the ranks of rows in order."""
    ranks, groups = list[int](), 0
    for at, row in enumerate(ranked):
        if operation.ties == "row_number" or not at or _differ(operation.by, ranked[at - 1], row):
            groups += 1
            ranks.append(at + 1 if operation.ties != "dense_rank" else groups)
        else:
            ranks.append(ranks[-1])
    return ranks


def _differ(by: tuple[nodes.Ranking, ...], one: TimedRow, other: TimedRow) -> bool:
    for ranking in by:
        a, b = evaluate(ranking.value, [one, other])
        if (a is None) != (b is None):
            return True
        if a is not None and b is not None and _get_sort_key(a) != _get_sort_key(b):
            return True
    return False


def _rank_rows(by: tuple[nodes.Ranking, ...], rows: Rows) -> Rows:
    rows = sorted(rows, key=lambda row: row.order)
    for ranking in reversed(by):
        values = evaluate(ranking.value, rows)  # rows of a table may have equal positions
        key = cmp_to_key(_build_comparison(ranking, values))
        rows = [rows[at] for at in sorted(range(len(rows)), key=key)]
    return rows


def _build_comparison(ranking: nodes.Ranking, values: Sequence[Value]) -> Callable[[int, int], int]:
    """Return the comparison of two rows by their numbers."""

    def compare(left: int, right: int) -> int:
        a, b = values[left], values[right]
        if a is None or b is None:
            nulls = (a is None) - (b is None)
            return nulls if ranking.nulls_last else -nulls
        x, y = _get_sort_key(a), _get_sort_key(b)
        bigger = (x > y) - (x < y)
        return -bigger if ranking.descending else bigger

    return compare


def _get_sort_key(value: Value) -> tuple[bool, Value]:
    is_nan = isinstance(value, float) and value != value
    return is_nan, 0.0 if is_nan else value


def remove_duplicates(operation: nodes.Dedup, rows: Rows) -> Iterator[TimedRow]:
    if operation.changes is not None:
        yield from _find_newest(operation, operation.changes, rows)
        return
    if operation.ttl and not operation.uses_event_time:
        raise NotImplementedError("what depends on how time passes has no single answer")
    if operation.uses_event_time:
        rows = sorted(rows, key=lambda row: row.order)
    for _, members in group_rows(operation.key, rows):
        if operation.keep == "last":
            yield members[-1]
            continue
        yield members[0]
        for before, row in itertools.pairwise(members if operation.ttl else ()):
            assert operation.ttl and row.time is not None and before.time is not None
            if row.time - before.time > operation.ttl.after_us:
                yield row


def _find_newest(
    operation: nodes.Dedup, changes: nodes.ChangeOrder, rows: Rows
) -> Iterator[TimedRow]:
    """Return the newest change of each key that has a row."""
    for _, members in group_rows(operation.key, rows):
        by_sequence = changes.by == "sequence"
        last = max(
            members, key=lambda row: (by_sequence and row.values[TABLE_SEQUENCE], row.order[1:])
        )
        if not last.values[DELETE]:
            hidden = (DELETE, TABLE_SEQUENCE)
            order = last.order
            if changes.orders_rows:
                order = (_count_sequence(last.values[TABLE_SEQUENCE]), *order[1:])
            shown = {n: v for n, v in last.values.items() if n not in hidden}
            yield replace(last, values=shown, order=order)


def _count_sequence(value: Value) -> int:
    """Return a sequence as an integer: an integer, or the days or microseconds since 1970."""
    match value:
        case datetime():
            return convert_time(value.replace(tzinfo=UTC))
        case date():
            return value.toordinal()
    return int(value)
