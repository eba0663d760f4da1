"""Joins, row by row: every left row is compared with every right row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from headrace.core.api.window_classes import EPOCH
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import (
    AsOfMatch,
    BroadcastMatch,
    IntervalMatch,
    JoinMatching,
    TableMatch,
    WindowMatch,
)
from headrace.core.plan.nodes.windows import Window
from headrace.core.testing.reference.rows import TimedRow, Value, evaluate, normalize_key
from headrace.core.testing.reference.windows import find_windows
from headrace.core.types.elements import DELETE, SEQUENCE
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True)
class SideRow:
    """A row with its key, None if the key has a null, and its columns after the join."""

    key: tuple[Value, ...] | None
    row: TimedRow
    is_left: bool
    replaces: tuple[Value, ...] = ()
    """The key by which a later right row replaces this one, if any does."""
    place: tuple[Value, ...] = ()
    """The sequence of a change, which orders those of one time."""
    is_deleted: bool = False
    """Whether a change deletes the row with its key."""


def join_rows(
    join: nodes.Join, left: Sequence[TimedRow], right: Sequence[TimedRow]
) -> list[TimedRow]:
    """Join the rows."""
    by = join.matching.key if isinstance(join.matching, BroadcastMatch) else ()
    sides = [*_list_side(join.left, left, None), *_list_side(join.right, right, by or ())]
    if isinstance(join.matching, WindowMatch):
        return [
            row
            for found in _list_windows(join.matching.window, sides)
            for row in _join_window(join, *found)
        ]
    return [*_join_all(join, sides)]


def _list_side(
    side: nodes.JoinSide, rows: Sequence[TimedRow], by: tuple[nodes.ComputedColumn, ...] | None
) -> Iterator[SideRow]:
    """Return the rows of a side; `by` has the columns by which right rows replace each other."""
    replaced = [evaluate(each.value, rows) for each in by or ()]
    keys = [evaluate(each.value, rows) for each in side.key]
    columns = {each.name: evaluate(each.value, rows) for each in side.columns}
    for at, row in enumerate(rows):
        key = tuple(normalize_key(values[at]) for values in keys)
        values = {name: column[at] for name, column in columns.items()}
        lacks = any(value is None for value in key)
        replaces = tuple(normalize_key(column[at]) for column in replaced)
        kept = replace(row, values=values)
        place = (row.values[SEQUENCE],) if SEQUENCE in row.values else ()
        deletes = bool(row.values.get(DELETE))
        yield SideRow(None if lacks else key, kept, by is None, replaces, place, deletes)


def _list_windows(
    window: Window, sides: Sequence[SideRow]
) -> Iterator[tuple[dict[str, Value], int | None, list[SideRow]]]:
    """Return the windows of each key: bounds, end, and the rows of both sides."""
    keys: dict[object, list[SideRow]] = {}
    for at, each in enumerate(sides):
        # A row with a null key equals no other, and is in windows of its own.
        keys.setdefault(each.key if each.key is not None else ("none", at), []).append(each)
    for members in keys.values():
        numbered = {n: each for n, each in enumerate(members)}
        rows = [replace(each.row, order=(n,)) for n, each in numbered.items()]
        for found in find_windows(window, rows):
            bounds = {}
            if found.start is not None and found.end is not None:
                times = [EPOCH + timedelta(microseconds=us) for us in (found.start, found.end)]
                bounds = dict(zip(nodes.WINDOW_BOUNDS, times, strict=True))
            yield bounds, found.end, [numbered[row.order[0]] for row in found.rows]


def _join_window(
    join: nodes.Join, bounds: dict[str, Value], end: int | None, members: list[SideRow]
) -> Iterator[TimedRow]:
    for row in _join_all(join, members):
        time = row.time if end is None else end - 1
        yield TimedRow({**row.values, **bounds}, time, (time or 0, *row.order[1:]))


def _join_all(join: nodes.Join, sides: Sequence[SideRow]) -> Iterator[TimedRow]:
    """Join all rows that may match."""
    lefts = [each for each in sides if each.is_left]
    rights = [each for each in sides if not each.is_left]
    met_left: set[int] = set()
    met_right: set[int] = set()
    for at, left in enumerate(lefts):
        held = _find_valid(join.matching, left, rights)
        near = [n for n, right in enumerate(rights) if n in held and _can_match(join, left, right)]
        if isinstance(join.matching, AsOfMatch) and near:
            last = max(
                near, key=lambda n: (rights[n].row.time, rights[n].place, rights[n].row.order)
            )
            near = [] if rights[last].is_deleted else [last]
        pairs = [(n, _build_pair(left.row, rights[n].row)) for n in near]
        passes = _evaluate_filter(join, [pair for _, pair in pairs])
        meant = [pair for pair, is_true in zip(pairs, passes, strict=True) if is_true]
        met_left.update([at] if meant else [])
        met_right.update(n for n, _ in meant)
        if join.type not in ("semi", "anti"):
            yield from (pair for _, pair in meant)
        elif bool(meant) == (join.type == "semi"):
            yield left.row
    if join.type in ("left", "full"):
        padding = {each.name: None for each in join.right.columns}
        for at, left in enumerate(lefts):
            if at not in met_left:
                yield replace(left.row, values={**left.row.values, **padding})
    if join.type in ("right", "full"):
        padding = {each.name: None for each in join.left.columns}
        for at, right in enumerate(rights):
            if at not in met_right:
                yield replace(right.row, values={**padding, **right.row.values})


def _find_valid(matching: JoinMatching, left: SideRow, rights: Sequence[SideRow]) -> set[int]:
    """Return the right rows that are valid at the time of a left one."""
    if not isinstance(matching, BroadcastMatch):
        return set(range(len(rights)))
    time = left.row.time or 0
    there = [n for n, right in enumerate(rights) if (right.row.time or 0) <= time]
    there.sort(key=lambda n: rights[n].row.order)
    latest = {rights[n].replaces if matching.key is not None else n: n for n in there}
    ttl_us = matching.ttl_us
    return {
        n for n in latest.values() if ttl_us is None or time - (rights[n].row.time or 0) <= ttl_us
    }


def _can_match(join: nodes.Join, left: SideRow, right: SideRow) -> bool:
    """Whether the keys are equal, and the times within the bounds."""
    if left.key is None or left.key != right.key:
        return False
    apart = (right.row.time or 0) - (left.row.time or 0)
    match join.matching:
        case IntervalMatch(least_us=int(least), most_us=int(most)):
            return least <= apart <= most
        case TableMatch(ttl_us=int(ttl_us)):
            return abs(apart) <= ttl_us
        case AsOfMatch(ttl_us):
            if right.row.time is None:
                return False
            return apart <= 0 and (ttl_us is None or -apart <= ttl_us)
    return True


def _build_pair(left: TimedRow, right: TimedRow) -> TimedRow:
    times = [time for time in (left.time, right.time) if time is not None]
    time = max(times, default=None)
    order = (time or 0, *left.order[1:], *right.order[1:])
    return TimedRow({**left.values, **right.values}, time, order)


def _evaluate_filter(join: nodes.Join, pairs: list[TimedRow]) -> list[Value]:
    """Return for each pair whether the further condition of a join is true."""
    if join.residual_filter is None:
        return [True] * len(pairs)
    return evaluate(join.residual_filter.condition, pairs)
