"""Of the changes of a table the newest of each key count, in whatever order they arrive."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.expressions.typed import reference_field
from headrace.core.operators.changelog.newest_changes import NewestChangesOperator
from headrace.core.plan.nodes import ChangeOrder, ComputedColumn, Dedup
from headrace.core.plan.nodes.windows import Ttl
from headrace.core.types.data_types import BIGINT, Field
from headrace.core.types.elements import DELETE, SEQUENCE
from headrace.core.types.row_order import add_row_order
from tests.support.runtime.changelogs import Clock, computed, place, schema_of, timed

SCHEMA = schema_of(id="int", v="string")
BY_SEQUENCE = ChangeOrder(
    "sequence", ComputedColumn(SEQUENCE, reference_field(Field(SEQUENCE, BIGINT)))
)
Change = tuple[int, str | None, int, bool]
"""The key, the value, the sequence, and whether it deletes."""


def operator(
    changes: ChangeOrder = BY_SEQUENCE, ttl: Ttl | None = None, clock: Clock | None = None
) -> NewestChangesOperator:
    dedup = Dedup(computed(SCHEMA, "id"), "last", ttl, changes=changes)
    return NewestChangesOperator(dedup, place(clock=clock))


def frame(rows: Iterable[Change], places: Sequence[int]) -> pl.DataFrame:
    types = {"id": pl.Int32(), "v": pl.String(), SEQUENCE: pl.Int64(), DELETE: pl.Boolean()}
    return add_row_order(pl.DataFrame([*rows], types, orient="row"), pl.Series(places))


def fed(
    newest: NewestChangesOperator, *rows: Change, first: int = 0
) -> list[tuple[int, str | None, bool]]:
    batch = frame(rows, range(first, first + len(rows)))
    return [row for _, out in newest.process(batch) for row in out["id", "v", DELETE].rows()]


def test_a_change_with_a_lower_sequence_is_passed_over() -> None:
    newest = operator()
    assert fed(newest, (1, "a", 5, False), (2, "b", 1, False)) == [(1, "a", False), (2, "b", False)]
    assert fed(newest, (1, "old", 4, False), (2, "c", 2, False), first=2) == [(2, "c", False)]


def test_of_equal_sequences_the_later_place_counts_whenever_it_arrives() -> None:
    newest = operator()
    assert fed(newest, (1, "late", 5, False), first=9) == [(1, "late", False)]
    assert fed(newest, (1, "early", 5, False), first=3) == []
    assert fed(newest, (1, "later", 5, False), first=10) == [(1, "later", False)]


def test_a_deletion_is_remembered() -> None:
    newest = operator()
    assert fed(newest, (1, "a", 5, False)) == [(1, "a", False)]
    assert fed(newest, (1, None, 7, True), first=1) == [(1, None, True)]
    assert fed(newest, (1, "old", 6, False), first=2) == []
    assert fed(newest, (1, "new", 8, False), first=3) == [(1, "new", False)]


def test_a_deletion_of_a_row_that_is_not_there_is_remembered_and_not_emitted() -> None:
    newest = operator()
    assert fed(newest, (1, None, 7, True)) == []
    assert fed(newest, (1, "old", 6, False), first=1) == []
    assert fed(newest, (1, None, 9, True), first=2) == []
    assert fed(newest, (1, "new", 9, False), first=3) == [(1, "new", False)]


def test_without_a_sequence_the_place_counts() -> None:
    newest = operator(ChangeOrder("place"))
    assert fed(newest, (1, "b", 0, False), first=5) == [(1, "b", False)]
    assert fed(newest, (1, "a", 9, False), first=4) == []
    assert fed(newest, (1, None, 0, True), first=6) == [(1, None, True)]


def test_deletions_expire_and_rows_do_not() -> None:
    clock = Clock()
    newest = operator(ttl=Ttl(10, uses_processing_time=True), clock=clock)
    fed(newest, (1, "a", 5, False), (2, "b", 5, False))
    assert fed(newest, (2, None, 6, True), first=2) == [(2, None, True)]
    clock.now_us = 10
    assert fed(newest, (1, "old", 4, False), (2, "old", 4, False), first=3) == []
    clock.now_us = 11
    assert fed(newest, (1, "old", 4, False), (2, "old", 4, False), first=5) == [(2, "old", False)]


def test_deletions_expire_by_their_event_time() -> None:
    newest = operator(ttl=Ttl(10_000_000))
    batch = timed(frame([(1, "a", 5, False), (1, None, 6, True)], [0, 1]), [0, 100], ordered=True)
    assert [*newest.process(batch)] == []
    old = timed(frame([(1, "old", 4, False)], [2]), [0], ordered=True)
    assert [*newest.advance(110_000_000)] == [*newest.process(old)] == []
    assert [*newest.advance(110_000_001)] == []
    assert [out["v"].to_list() for _, out in newest.process(old)] == [["old"]]


CHANGES = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from("abc"), st.integers(0, 3), st.booleans()),
    max_size=20,
)


@given(CHANGES, st.integers(1, 20), st.randoms(use_true_random=False))
def test_the_table_does_not_depend_on_arrival_or_batches(
    changes: list[Change], size: int, chance: random.Random
) -> None:
    wanted: dict[int, tuple[tuple[int, int], str | None]] = {}
    for at, (key, value, sequence, deletes) in enumerate(changes):
        if key not in wanted or (sequence, at) > wanted[key][0]:
            wanted[key] = (sequence, at), None if deletes else value
    arrived = [*enumerate(changes)]
    chance.shuffle(arrived)
    newest, table = operator(), dict[int, str | None]()
    for begin in range(0, len(arrived), size):
        batch = arrived[begin : begin + size]
        for _, out in newest.process(frame((row for _, row in batch), [at for at, _ in batch])):
            for key, value, deletes in out["id", "v", DELETE].rows():
                assert not deletes or key in table
                table[key] = value
                if deletes:
                    del table[key]
    assert table == {key: value for key, (_, value) in wanted.items() if value is not None}
