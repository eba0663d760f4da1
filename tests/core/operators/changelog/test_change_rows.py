"""Full changelogs: they tell each change, in order.

`test_random_tables` holds those of random queries to their tables.
"""

from __future__ import annotations

from typing import Literal

import polars as pl

from headrace.core.api.state_backend import StateOwnership
from headrace.core.operators.changelog.change_rows import (
    CountedChangesOperator,
    RetractionChangesOperator,
    UpsertChangesOperator,
)
from headrace.core.operators.operator import Operator
from headrace.core.plan.nodes import ChangelogConversion
from headrace.core.types.elements import DELETE, WEIGHT
from headrace.state.memory.backend import MemoryBackend
from tests.support.runtime.changelogs import computed, place, schema_of
from tests.support.runtime.committed_output import Values

FIELDS = schema_of(id="int", v="double")


def conversion(output: Literal["retract", "upsert", "counted"]) -> ChangelogConversion:
    key = computed(FIELDS, *(("id", "v") if output == "counted" else ("id",)))
    return ChangelogConversion(key, output, FIELDS, has_event_time=False, form="full")


def changed(operator: Operator, *rows: tuple[int, float | None, object]) -> list[Values]:
    by_weight = all(type(row[2]) is int for row in rows)
    last = {WEIGHT: pl.Int64()} if by_weight else {DELETE: pl.Boolean()}
    frame = pl.DataFrame(rows, {"id": pl.Int32(), "v": pl.Float64(), **last}, orient="row")
    return [row for _, out in operator.process(frame) for row in out.rows()]


def test_upserts_are_written_with_the_rows_that_they_replace() -> None:
    operator = UpsertChangesOperator(conversion("retract"), place())
    assert changed(operator, (1, 1.0, False), (2, 5.0, False), (3, None, True)) == [
        (1, 1.0, "insert", 1),
        (2, 5.0, "insert", 2),
    ]
    assert changed(operator, (2, 5.0, False), (1, 9.0, False), (1, 2.0, False)) == [
        (1, 1.0, "update_before", 3),
        (1, 2.0, "update_after", 4),
    ]
    assert changed(operator, (3, 3.0, False), (1, None, True), (2, 6.0, False)) == [
        (1, 2.0, "delete", 5),
        (2, 5.0, "update_before", 6),
        (2, 6.0, "update_after", 7),
        (3, 3.0, "insert", 8),
    ]


def test_an_update_is_one_whichever_of_its_rows_comes_first() -> None:
    operator = RetractionChangesOperator(conversion("upsert"), place())
    assert changed(operator, (1, 1.0, 1)) == [(1, 1.0, "insert", 1)]
    assert changed(operator, (1, 2.0, 1)) == [
        (1, 1.0, "update_before", 2),
        (1, 2.0, "update_after", 3),
    ]
    assert changed(operator, (1, 1.0, -1)) == []
    assert changed(operator, (1, 2.0, -1), (1, 2.0, 1)) == []
    assert changed(operator, (1, 2.0, -1)) == [(1, 2.0, "delete", 4)]


def test_a_removal_that_comes_before_its_row_is_not_written() -> None:
    operator = CountedChangesOperator(conversion("counted"), place())
    assert changed(operator, (1, 1.0, -1), (2, None, 1)) == [(2, None, "insert", 1)]
    assert changed(operator, (1, 1.0, 2), (2, None, 1)) == [
        (1, 1.0, "insert", 2),
        (2, None, "insert", 3),
    ]
    assert changed(operator, (2, None, -2), (1, -0.0, -1)) == [
        (2, None, "delete", 4),
        (2, None, "delete", 5),
    ]
    assert changed(operator, (1, 0.0, 1)) == []


def test_numbers_rise_above_those_of_all_subtasks_before() -> None:
    owners = [StateOwnership("step", at, range(at * 4, at * 4 + 4), 8) for at in range(2)]
    states = [MemoryBackend().open_state(owner) for owner in owners]
    few, many = (UpsertChangesOperator(conversion("retract"), place(state)) for state in states)
    changed(few, (1, 1.0, False))
    for value in range(9):
        changed(many, (2, float(value), False))
    few.flush_to_state()
    many.flush_to_state()
    frozen = tuple(state.freeze() for state in states)
    both = MemoryBackend().open_state(StateOwnership("step", 0, range(8), 8, frozen))
    operator = UpsertChangesOperator(conversion("retract"), place(both))
    assert changed(operator, (3, 1.0, False)) == [(3, 1.0, "insert", 18)]
