"""Conversions give the same table as the other kind of changes, in whatever order rows come."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.operators.changelog.conversion import RetractionsOperator, UpsertsOperator
from headrace.core.operators.indistinct_rows import IndistinctRows
from headrace.core.plan.nodes import ChangelogConversion
from headrace.core.types.elements import DELETE, MAX_WATERMARK_US, WEIGHT
from tests.support.runtime.changelogs import computed, place, schema_of

SCHEMA = schema_of(id="int", v="double")
Upsert = tuple[int | None, float | None, bool]
Retraction = tuple[int | None, float | None, int]


def conversion(output: Literal["retract", "upsert"]) -> ChangelogConversion:
    return ChangelogConversion(computed(SCHEMA, "id"), output, SCHEMA, has_event_time=False)


def retracted(operator: RetractionsOperator, *rows: Upsert) -> list[Retraction]:
    frame = pl.DataFrame(
        rows, {"id": pl.Int32(), "v": pl.Float64(), DELETE: pl.Boolean()}, orient="row"
    )
    return [row for _, out in operator.process(frame) for row in out["id", "v", WEIGHT].rows()]


def upserted(operator: UpsertsOperator, *rows: Retraction) -> list[Upsert]:
    frame = pl.DataFrame(
        rows, {"id": pl.Int32(), "v": pl.Float64(), WEIGHT: pl.Int64()}, orient="row"
    )
    return [row for _, out in operator.process(frame) for row in out["id", "v", DELETE].rows()]


def test_a_change_removes_the_row_that_it_replaces() -> None:
    operator = RetractionsOperator(conversion("retract"), place())
    assert retracted(operator, (1, 1.0, False), (None, 5.0, False)) == [
        (1, 1.0, 1),
        (None, 5.0, 1),
    ]
    assert retracted(operator, (1, 2.0, False)) == [(1, 1.0, -1), (1, 2.0, 1)]
    assert retracted(operator, (1, None, True), (None, 5.0, False)) == [(1, 2.0, -1)]


def test_a_delete_of_a_row_that_is_not_there_removes_nothing() -> None:
    operator = RetractionsOperator(conversion("retract"), place())
    assert retracted(operator, (7, None, True)) == []
    assert retracted(operator, (7, 1.0, False), (7, 2.0, True)) == []


def test_the_removal_of_a_row_may_come_before_the_row() -> None:
    operator = UpsertsOperator(conversion("upsert"), place())
    assert upserted(operator, (1, 1.0, 1)) == [(1, 1.0, False)]
    assert upserted(operator, (1, 2.0, 1)) == [(1, 2.0, False)]
    assert upserted(operator, (1, 3.0, -1)) == []
    assert upserted(operator, (1, 1.0, -1)) == []
    assert upserted(operator, (1, 2.0, -1), (1, 3.0, 1)) == [(1, 2.0, True)]


def test_two_rows_with_one_key_fail_at_a_checkpoint_and_at_the_end() -> None:
    operator = UpsertsOperator(conversion("upsert"), place())
    upserted(operator, (None, 1.0, 1), (1, 1.0, 1), (1, 1.0, -1), (1, 2.0, 1))
    operator.flush_to_state()
    upserted(operator, (None, 1.0, 1))
    with pytest.raises(IndistinctRows):
        operator.flush_to_state()
    with pytest.raises(IndistinctRows):
        list(operator.advance(MAX_WATERMARK_US))
    upserted(operator, (None, 1.0, -1))
    operator.flush_to_state()


def test_only_aligned_checkpoints_fail_for_two_rows_with_one_key() -> None:
    operator = UpsertsOperator(conversion("upsert"), replace(place(), is_aligned=False))
    upserted(operator, (1, 1.0, 1), (1, 2.0, 1))
    operator.flush_to_state()
    with pytest.raises(IndistinctRows):
        list(operator.advance(MAX_WATERMARK_US))


CHANGES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([None, 0.0, 1.5, float("nan")]),
        st.booleans(),
    ),
    max_size=30,
)


@given(st.lists(CHANGES, max_size=8), st.randoms(use_true_random=False))
def test_upserts_are_the_same_table_after_both_conversions(
    batches: list[list[Upsert]], chance: object
) -> None:
    there = RetractionsOperator(conversion("retract"), place())
    back = UpsertsOperator(conversion("upsert"), place())
    wanted: dict[int | None, str] = {}
    found: dict[int | None, str] = {}
    retractions = []
    for batch in batches:
        for key, value, deleted in batch:
            wanted[key] = repr(value)
            if deleted:
                del wanted[key]
        retractions += retracted(there, *batch) if batch else []
    chance.shuffle(retractions)  # type: ignore[attr-defined]
    for row in retractions:
        for key, value, deleted in upserted(back, row):
            found[key] = repr(value)
            if deleted:
                del found[key]
    assert found == wanted
