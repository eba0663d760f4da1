"""The rows of a step with `match`, from the matches in the rows of a key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta

import polars as pl

from headrace.core.aggregates import ORDER, compute_partial_states
from headrace.core.aggregates.calls import AggregateCall, AggregateExpression
from headrace.core.api.window_classes import EPOCH
from headrace.core.plan import nodes
from headrace.core.testing.reference.match_finder import (
    NEVER_US,
    FoundMatch,
    MatchFinder,
    Taken,
)
from headrace.core.testing.reference.rows import Rows, TimedRow, Value, build_frame, evaluate
from headrace.core.types.lazy_dataclass import dataclass


def match_rows(
    operation: nodes.Match,
    key: Mapping[str, Value],
    rows: Sequence[TimedRow],
    until_us: int = NEVER_US,
) -> tuple[Rows, Rows]:
    """Return the rows for the matches in the rows of a key, and those for incomplete matches.

    What is not decided by `until_us` is left out.
    """
    rows = sorted(rows, key=lambda row: row.order)
    conditions = MatchConditions(operation, rows)
    finder = MatchFinder(
        operation.pattern,
        [row.time or 0 for row in rows],
        operation.within_us,
        operation.after_match,
        conditions.test,
    )
    complete: Rows = []
    incomplete: Rows = []
    for number, found in enumerate(finder.find()):
        if found.decided_us > until_us:
            continue
        # What only the end of the input decides has the time of its last row.
        time_us = found.decided_us
        if time_us == NEVER_US:
            time_us = rows[found.taken[-1][1]].time or 0
        made = _list_columns(operation, key, rows, found)
        target = complete if found.is_complete else incomplete
        target += [
            TimedRow(values, time_us, (time_us, *rows[found.taken[0][1]].order[1:], number, at))
            for at, values in enumerate(made)
        ]
    return complete, incomplete


def _list_columns(
    operation: nodes.Match,
    key: Mapping[str, Value],
    rows: Sequence[TimedRow],
    found: FoundMatch,
) -> Iterator[dict[str, Value]]:
    """Yield the columns of each row that is emitted for a match."""
    taken = found.taken
    start, end = ((rows[taken[place][1]].time or 0) for place in (0, -1))
    bounds: dict[str, Value] = {
        "match_start": _to_timestamp(start),
        "match_end": _to_timestamp(end),
    }
    if found.is_complete and operation.all_rows:
        for variable, at in taken:
            yield {**key, **bounds, "variable": variable, **rows[at].values}
        return
    if not found.is_complete:
        progress = {"reached": taken[-1][0], "rows": len(taken)}
        bounds = {"match_start": bounds["match_start"], **progress}
    emitted = {
        each.name: compute_over_match(each.expression, rows, taken, key) for each in operation.emit
    }
    yield {**key, **bounds, **emitted}


def _to_timestamp(time_us: int) -> datetime:
    return EPOCH + timedelta(microseconds=time_us)


@dataclass()
class MatchConditions:
    """The conditions of variables over rows."""

    operation: nodes.Match
    rows: Sequence[TimedRow]
    plain: Mapping[str, Sequence[bool]] = field(default_factory=dict)
    """For each variable whose condition reads the tested row only: the rows that fit."""
    tested: dict[tuple[str, int, Taken], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        conditions = (each for each in self.operation.conditions if not each.value.calls)
        self.plain = {
            each.variable: [value is True for value in evaluate(each.value.finish, self.rows)]
            for each in conditions
        }

    def test(self, variable: str, at: int, taken: Taken) -> bool:
        """Whether a row fits a variable after those that are taken."""
        condition = self.operation.get_condition(variable)
        if condition is None:
            return True
        if variable in self.plain:
            return self.plain[variable][at]
        tested = (variable, at, taken)
        if tested not in self.tested:
            value = compute_over_match(condition.value, self.rows, taken, self.rows[at].values)
            self.tested[tested] = value is True
        return self.tested[tested]


def compute_over_match(
    expression: AggregateExpression,
    rows: Sequence[TimedRow],
    taken: Taken,
    beside: Mapping[str, Value],
) -> Value:
    """Return the value of an expression over the rows of a match, beside columns of one row."""
    members = [
        TimedRow({**rows[at].values, nodes.VARIABLE: variable}, rows[at].time, rows[at].order)
        for variable, at in taken
    ]
    results = {call.name: _aggregate(call, members) for call in expression.calls}
    return evaluate(expression.finish, [TimedRow({**beside, **results}, None, ())])[0]


def _aggregate(call: AggregateCall, rows: Sequence[TimedRow]) -> Value:
    frame = build_frame(rows, [each.typed for each in call.all_inputs])
    frame = frame.with_columns(pl.Series(ORDER, range(len(rows)), dtype=pl.Int64))
    states = compute_partial_states(frame, (), (call,))
    return states.select(call.finish()).to_series().to_list()[0]
