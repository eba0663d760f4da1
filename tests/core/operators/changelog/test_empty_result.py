"""An aggregate of no rows is one row: once from the start, and again when all rows are removed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import polars as pl
import pytest

from headrace.core.api.state_backend import StateOwnership
from headrace.core.operators.keyed_factory import build_keyed_operator
from headrace.core.operators.operator import Operator, Output
from headrace.core.plan import nodes
from headrace.core.types.elements import DELETE, EVENT_TIME, WEIGHT
from headrace.core.types.key_groups import get_keyless_group
from headrace.state.memory.backend import MemoryBackend
from tests.support.runtime.changelogs import ALL, aggregate, place, schema_of, timed

SCHEMA = schema_of(id="int", v="int")
SUMS = {"n": "count(*)", "total": "sum(v)"}
LARGEST = {"n": "count(*)", "most": "max(v)"}
KINDS: dict[str, tuple[dict[str, str], dict[str, object], list[tuple[object, ...]]]] = {
    "facts": (SUMS, {}, []),
    "upserts": (SUMS, {"changelog_key": ("id",)}, [(0, None, False)]),
    "retractions, subtracted": (SUMS, {"reads_retractions": True}, [(0, None, False)]),
    "retractions, counted": (LARGEST, {"reads_retractions": True}, [(0, None, False)]),
}


def operation(kind: str, having: str | None = None) -> nodes.Aggregate:
    columns, reads, _ = KINDS[kind]
    made = aggregate(SCHEMA, (), columns, having)
    return replace(made, **reads, emits_empty=True, has_event_time=True)  # type: ignore[arg-type]


def change(second: int, *, gone: bool = False) -> pl.DataFrame:
    """Return the row 1 with the value 7, added or removed."""
    frame = pl.DataFrame({"id": [1], "v": [7]}, {"id": pl.Int32, "v": pl.Int32})
    weight = pl.lit(-1 if gone else 1, dtype=pl.Int64).alias(WEIGHT)
    return timed(frame, [second]).with_columns(weight, pl.lit(gone).alias(DELETE))


def rows(outputs: Iterable[Output]) -> list[tuple[object, ...]]:
    return [row for _, frame in outputs for row in frame.drop(EVENT_TIME).rows()]


@pytest.mark.parametrize("kind", KINDS)
def test_the_result_of_no_rows_comes_first_and_after_the_last_row(kind: str) -> None:
    state = MemoryBackend().open_state(ALL)
    operator: Operator = build_keyed_operator(operation(kind), place(state))
    assert operator.next_tick_us() == 0
    assert rows(operator.tick(0)) == [(0, None, False)]
    assert rows(operator.process(change(1))) == [(1, 7, False)]
    operator.flush_to_state()

    again = MemoryBackend().open_state(replace(ALL, restored_states=(state.freeze(),)))
    operator = build_keyed_operator(operation(kind), place(again))
    assert rows(operator.advance(1)) == [], "the row of no rows has been emitted"
    removed = KINDS[kind][2]
    if removed:
        assert rows(operator.process(change(2, gone=True))) == removed
        assert rows(operator.process(change(3))) == [(1, 7, False)]


def test_rows_that_come_first_follow_the_result_of_no_rows() -> None:
    operator = build_keyed_operator(operation("facts"), place())
    assert rows(operator.process(change(1))) == [(0, None, False), (1, 7, False)]


def test_having_applies_to_the_result_of_no_rows() -> None:
    kind = "retractions, subtracted"
    none = build_keyed_operator(operation(kind, "n = 0"), place())
    assert rows(none.advance(0)) == [(0, None, False)]
    assert rows(none.process(change(1))) == [(1, 7, True)]
    assert rows(none.process(change(2))) == []
    some = build_keyed_operator(operation(kind, "n > 0"), place())
    assert rows(some.advance(0)) == []
    assert rows(some.process(change(1))) == [(1, 7, False)]
    assert rows(some.process(change(2, gone=True))) == [(0, None, True)]


def test_only_the_subtask_of_the_empty_key_emits() -> None:
    others = StateOwnership("totals", 0, range(get_keyless_group(128)), 128)
    context = replace(place(), owner=others)
    operator = build_keyed_operator(operation("facts"), context)
    assert operator.next_tick_us() is None
    assert rows(operator.advance(0)) == []


def test_a_result_of_an_aggregate_without_the_clause_counts_as_emitted() -> None:
    state = MemoryBackend().open_state(ALL)
    before = replace(operation("facts"), emits_empty=False)
    [*build_keyed_operator(before, place(state)).process(change(1))]
    owner: StateOwnership = replace(ALL, restored_states=(state.freeze(),))
    operator = build_keyed_operator(operation("facts"), place(MemoryBackend().open_state(owner)))
    assert rows(operator.advance(1)) == []
