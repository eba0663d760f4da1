"""Columns over the rows of a key in the order of event time, one row after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from headrace.core.aggregates import ORDER, compute_partial_states
from headrace.core.aggregates.over_calls import FrameCall, OffsetCall, OverCall, RankCall
from headrace.core.expressions.parsing.syntax_tree import RowFrame
from headrace.core.expressions.typed import ColumnReference, walk
from headrace.core.plan import nodes
from headrace.core.testing.reference.rows import TimedRow, Value, build_frame, evaluate
from headrace.core.types.data_types import to_polars


def compute_over(operation: nodes.Over, members: Sequence[TimedRow]) -> Iterator[TimedRow]:
    """Yield the rows of a key with the columns that are added."""
    for rows in _split_sequences(operation, sorted(members, key=lambda row: row.order)):
        columns = operation.columns
        calls = {call.name: call for column in columns for call in column.expression.calls}
        made = {name: _compute_call(call, rows) for name, call in calls.items()}
        whole = [
            replace(row, values={**row.values, **{name: each[at] for name, each in made.items()}})
            for at, row in enumerate(rows)
        ]
        added = {each.name: evaluate(each.expression.finish, whole) for each in columns}
        for at, row in enumerate(rows):
            results = {name: values[at] for name, values in added.items()}
            yield replace(row, values={**row.values, **results})


def _split_sequences(operation: nodes.Over, rows: Sequence[TimedRow]) -> Iterator[list[TimedRow]]:
    """Yield the rows between gaps that are longer than the ttl."""
    sequence: list[TimedRow] = []
    for row in rows:
        if sequence and operation.ttl is not None:
            assert row.time is not None and sequence[-1].time is not None
            if row.time - sequence[-1].time > operation.ttl.after_us:
                yield sequence
                sequence = []
        sequence.append(row)
    if sequence:
        yield sequence


def _compute_call(call: OverCall, rows: Sequence[TimedRow]) -> list[Value]:
    times = [row.time or 0 for row in rows]
    match call:
        case RankCall(function="row_number"):
            return [*range(1, len(rows) + 1)]
        case RankCall(function="rank"):
            return [times.index(time) + 1 for time in times]
        case RankCall():
            return [len({*times[: at + 1]}) for at in range(len(rows))]
        case OffsetCall():
            values = evaluate(call.value.typed, rows)
            others: list[Value] = [None] * len(rows)
            if call.default is not None:
                others = evaluate(call.default.typed, rows)
            places = [at + call.offset for at in range(len(rows))]
            return [
                values[to] if 0 <= to < len(rows) else other
                for to, other in zip(places, others, strict=True)
            ]
        case FrameCall():
            return [
                _aggregate_frame(
                    call, [rows[to] for to in _list_frame_places(call.frame, times, at)]
                )
                for at in range(len(rows))
            ]


def _list_frame_places(frame: RowFrame, times: Sequence[int], at: int) -> list[int]:
    """Return the places of the rows in the frame of a row."""

    def is_inside(to: int) -> bool:
        distance = to - at if frame.unit == "rows" else times[to] - times[at]
        return (frame.start is None or distance >= frame.start) and distance <= frame.end

    return [to for to in range(len(times)) if is_inside(to)]


def _aggregate_frame(call: FrameCall, rows: Sequence[TimedRow]) -> Value:
    aggregate = call.aggregate
    inputs = [each.typed for each in aggregate.all_inputs]
    frame = build_frame(rows, inputs).with_columns(
        pl.Series(ORDER, range(len(rows)), dtype=pl.Int64)
    )
    if not rows:
        types = {
            node.name: to_polars(node.type)
            for typed in inputs
            for node in walk(typed)
            if isinstance(node, ColumnReference)
        }
        frame = pl.DataFrame(schema={**types, ORDER: pl.Int64()})
    states = compute_partial_states(frame, (), (aggregate,))
    return states.select(aggregate.finish()).to_series().to_list()[0]
