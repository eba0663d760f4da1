"""The rows of a loop: rounds are added until no more rows go round.

Each round begins with all rows that have gone round so far, so steps inside may have state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import polars as pl

from headrace.core.plan import nodes
from headrace.core.queries import run_query
from headrace.core.testing.reference.rows import Rows, Value, evaluate
from headrace.core.types.data_types import to_polars

RunStep = Callable[[nodes.Step, Mapping[str, Rows]], Mapping[str, Rows]]
"""Returns the rows of each output of a step."""


def run_rounds(
    head: nodes.Step,
    loop: nodes.Loop,
    body: Mapping[str, nodes.Step],
    streams: Mapping[str, Rows],
    run_step: RunStep,
) -> dict[str, Rows]:
    """Return the rows of each output of the head of a loop."""
    inside = nodes.name_loop_stream(head.name)
    if loop.table is not None:
        return _run_table_rounds(head, loop, loop.table, body, streams, run_step)
    entered = _add_rounds(loop, [row for name in head.inputs for row in streams[name]], first=True)
    found = _divide(head, loop, entered)
    while True:
        local = {**streams, **found}
        for step in body.values():
            local |= run_step(step, local)
        back = _add_rounds(loop, local[loop.feedback], first=False)
        before, found = found, _divide(head, loop, [*entered, *back])
        if len(found[inside]) == len(before[inside]):
            return found


def _add_rounds(loop: nodes.Loop, rows: Rows, *, first: bool) -> Rows:
    """Return rows that enter, or come back, with their number of rounds."""
    if not first:
        rows = [replace(row, order=(*row.order, 0)) for row in rows]
    if not loop.has_rounds:
        return rows
    name = nodes.ROUNDS_COLUMN
    counts = [0 if first else (row.values[name] or 0) + 1 for row in rows]
    return [
        replace(row, values={**row.values, name: count})
        for row, count in zip(rows, counts, strict=True)
    ]


def _divide(head: nodes.Step, loop: nodes.Loop, rows: Rows) -> dict[str, Rows]:
    """Return the rows that leave, that go round, and that have done so too often."""
    leaves = [False] * len(rows) if loop.until is None else evaluate(loop.until, rows)
    left: Rows = []
    over: Rows = []
    inside: Rows = []
    for row, is_done in zip(rows, leaves, strict=True):
        most = loop.max_rounds
        if is_done:
            left.append(row)
        elif most is not None and row.values[nodes.ROUNDS_COLUMN] >= most:
            over.append(row)
        else:
            inside.append(row)
    streams = {head.name: left, nodes.name_loop_stream(head.name): inside}
    return streams if loop.max_rounds is None else {**streams, f"{head.name}.over": over}


def _run_table_rounds(
    head: nodes.Step,
    loop: nodes.Loop,
    table: nodes.TableRounds,
    body: Mapping[str, nodes.Step],
    streams: Mapping[str, Rows],
    run_step: RunStep,
) -> dict[str, Rows]:
    """Return the table of the last round: each round computes one from that of the round before."""
    if table.delta is not None:
        return _run_delta_rounds(head, loop, table, table.delta, body, streams, run_step)
    inside = nodes.name_loop_stream(head.name)
    rows = [row for name in head.inputs for row in streams[name]]
    for _ in range(table.count):
        local = {**streams, inside: rows}
        for step in body.values():
            local |= run_step(step, local)
        before, rows = rows, local[loop.feedback]
        names = head.outputs[0].schema.names
        if _count_rows(before, names) == _count_rows(rows, names):
            break
        if _is_until(head, table, rows, before):
            break
    return {head.name: rows, inside: rows}


def _run_delta_rounds(
    head: nodes.Step,
    loop: nodes.Loop,
    table: nodes.TableRounds,
    delta: nodes.DeltaInputs,
    body: Mapping[str, nodes.Step],
    streams: Mapping[str, Rows],
    run_step: RunStep,
) -> dict[str, Rows]:
    """Return the solution after the last round: the rows of each round replace some of it."""
    names = head.outputs[0].schema.names
    inner, rows = loop.list_inner_streams(head.name), streams[delta.workset]
    solution = {repr([row.values[n] for n in table.key]): row for row in streams[delta.solution]}
    for _ in range(table.count):
        local = {**streams, **dict(zip(inner, (rows, [*solution.values()]), strict=True))}
        for step in body.values():
            local |= run_step(step, local)
        before, found = solution, local[loop.feedback]
        solution = before | {repr([row.values[n] for n in table.key]): row for row in found}
        rows = [
            row
            for key, row in solution.items()
            if key not in before or _count_rows([row], names) != _count_rows([before[key]], names)
        ]
        if not rows or _is_until(head, table, rows, [*before.values()]):
            break
    return {head.name: [*solution.values()], **dict.fromkeys(inner, rows)}


def _count_rows(rows: Rows, names: Sequence[str]) -> Counter[str]:
    return Counter(repr([row.values[name] for name in names]) for row in rows)


def _is_until(head: nodes.Step, table: nodes.TableRounds, after: Rows, before: Rows) -> bool:
    """Whether `until` holds for a round and the one before."""
    if table.until is None:
        return False
    found = {repr([row.values[name] for name in table.key]): row.values for row in reversed(before)}
    schema = {column.name: to_polars(column.type) for column in head.outputs[0].schema}
    data: list[dict[str, Value]] = []
    for row in after:
        same = found.get(repr([row.values[name] for name in table.key]))
        struct = None if same is None else {name: same[name] for name in schema}
        data.append({**{n: row.values[n] for n in schema}, nodes.BEFORE_COLUMN: struct})
    types = {**schema, nodes.BEFORE_COLUMN: pl.Struct(schema)}
    frame = pl.DataFrame(data, schema=types)
    return run_query(table.until, frame, 0)["done"][0] is True
