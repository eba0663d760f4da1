"""The rows of a loop: rounds are added until no more rows go round.

Each round begins with all rows that have gone round so far, so steps inside may have state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from headrace.core.plan import nodes
from headrace.core.testing.reference.rows import Rows, evaluate

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
