"""`as_of`: each left row is joined with the version valid at its time, in any arrival order."""

from __future__ import annotations

import random
from itertools import pairwise

import polars as pl
import pytest

from headrace.core.api.state_backend import StateBackend
from headrace.core.expressions.typed import NOWHERE, ColumnReference
from headrace.core.plan.nodes import ComputedColumn, JoinType
from headrace.core.plan.nodes.matching import AsOfMatch
from headrace.core.types.data_types import INT
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US, ORDER, SEQUENCE
from headrace.state.memory.backend import MemoryBackend
from tests.support.runtime.changelogs import schema_of
from tests.support.runtime.two_input_operators import Inputs, Row, join, shown

LEFT, RIGHT = 0, 1
SCHEMAS = schema_of(k="string", v="int"), schema_of(k="string", p="int")


def as_of(
    type: JoinType = "inner",
    ttl_us: int | None = None,
    only: str | None = None,
    parallelism: int = 1,
    backend: StateBackend | None = None,
    *,
    sequence: bool = False,
) -> Inputs:
    sides = (SCHEMAS[0], ["k"]), (SCHEMAS[1], ["k"])
    value = ColumnReference(INT, False, NOWHERE, SEQUENCE)
    order = ComputedColumn(SEQUENCE, value, "seq") if sequence else None
    operation = join(*sides, AsOfMatch(ttl_us, order), type, only)
    return Inputs(operation, SCHEMAS, parallelism=parallelism, backend=backend or MemoryBackend())


def test_a_row_meets_the_latest_version_that_is_not_after_it() -> None:
    inputs = as_of()
    inputs.rows(RIGHT, [("a", 1), ("a", 2), ("b", 3)], [1, 5, 2])
    inputs.rows(LEFT, [("a", 10), ("a", 11), ("a", 12), ("b", 13)], [4, 5, 9, 1])
    assert shown(inputs.time()) == [
        ("a", 10, "a", 1),
        ("a", 11, "a", 2),
        ("a", 12, "a", 2),
    ]


def test_rows_wait_until_the_watermark_has_passed_them_and_go_out_in_the_order_of_time() -> None:
    inputs = as_of("left")
    assert inputs.rows(LEFT, [("a", 1), ("b", 2), (None, 3), ("a", 4)], [8, 5, 3, 6]) == []
    assert inputs.time(5) != []
    inputs.rows(RIGHT, [("a", 1)], [6])
    ((_, frame),) = inputs.time(8)
    assert frame.drop(EVENT_TIME, ORDER).rows() == [("b", 2, None, None), ("a", 4, "a", 1)]
    assert frame[EVENT_TIME].cast(pl.Int64).to_list() == [5, 6]
    assert frame[ORDER].struct.unnest().rows() == [(5, 1, 0), (6, 3, 4)]
    assert shown(inputs.time()) == [("a", 1, "a", 1)]


def test_of_versions_of_one_time_the_last_one_holds_whatever_comes_first() -> None:
    one, other = as_of(), as_of()
    rows = one.frame(RIGHT, [("a", 1), ("a", 2), ("a", 3)], [4, 4, 4])
    for inputs, frame in ((one, rows), (other, rows.reverse())):
        list(inputs.operators[0].process_right(frame))
        inputs.rows(LEFT, [("a", 1)], [4])
        assert shown(inputs.time(5)) == [("a", 1, "a", 3)]
        inputs.rows(LEFT, [("a", 2)], [9])
        assert shown(inputs.time(10)) == [("a", 2, "a", 3)]


def test_of_changes_of_one_place_the_one_that_came_last_holds() -> None:
    inputs = as_of("left")
    inputs.came = 0
    for at in range(70):
        inputs.rows(RIGHT, [("a", at), ("b", at)], [4, 4])
        inputs.came = 0
        if at % 30 == 20:
            inputs.begin_anew(2)
            inputs.came = 0
    inputs.rows(RIGHT, [("a", None)], [4], [True])
    inputs.rows(LEFT, [("a", 1), ("b", 1)], [4, 5])
    assert shown(inputs.time()) == [("a", 1, None, None), ("b", 1, "b", 69)]


def test_changes_of_one_time_are_ordered_by_their_sequence_whatever_comes_first() -> None:
    for sequences, wanted in (([1, 2, 3], 3), ([3, 2, 1], 1), ([2, 2, 1], 2)):
        for order in ([0, 1, 2], [2, 0, 1]):
            inputs = as_of(sequence=True)
            rows = inputs.frame(RIGHT, [("a", 1), ("a", 2), ("a", 3)], [4, 4, 4], [False] * 3)
            rows = rows.with_columns(pl.Series(SEQUENCE, sequences, dtype=pl.Int32))
            for part in (order[:2], order[2:]):
                list(inputs.operators[0].process_right(rows[part]))
            inputs.rows(LEFT, [("a", 1)], [4])
            assert shown(inputs.time(5))[0] == ("a", 1, "a", wanted)


def test_the_row_before_an_update_has_no_time_and_is_no_version() -> None:
    inputs = as_of()
    inputs.rows(RIGHT, [("a", 1)], [4])
    old = inputs.frame(RIGHT, [("a", 1)], [4], [True])
    list(
        inputs.operators[0].process_right(
            old.with_columns(pl.lit(None).cast(old[EVENT_TIME].dtype).alias(EVENT_TIME))
        )
    )
    inputs.rows(LEFT, [("a", 1)], [4])
    assert shown(inputs.time(5)) == [("a", 1, "a", 1)]


def test_a_late_change_says_what_it_did() -> None:
    inputs = as_of()
    inputs.time(10)
    late = inputs.rows(RIGHT, [("a", 1), ("b", 2)], [9, 9], [True, False])
    assert shown(late, "late_r") == [("a", 1, "delete"), ("b", 2, "insert")]


def test_rows_that_are_too_late_are_left_out() -> None:
    inputs = as_of("left")
    inputs.time(10)
    late = inputs.rows(LEFT, [("a", 1), ("a", 2)], [9, 10])
    assert shown(late, "late_l") == [("a", 1)]
    late = inputs.rows(RIGHT, [("a", 3), ("a", 4)], [10, 9])
    assert shown(late, "late_r") == [("a", 4)]
    assert inputs.late == 2
    assert shown(inputs.time()) == [("a", 2, "a", 3)]


def test_a_condition_says_whether_the_latest_version_is_a_match() -> None:
    for type, unmet in (("inner", []), ("left", [("a", 2, None, None)])):
        inputs = as_of(type, only="r_p > l_v")  # type: ignore[arg-type]
        inputs.rows(RIGHT, [("a", 3), ("a", 1)], [1, 5])
        inputs.rows(LEFT, [("a", 2), ("a", 2), ("a", 0)], [4, 5, 6])
        assert shown(inputs.time()) == [("a", 0, "a", 1), ("a", 2, "a", 3), *unmet]


def test_a_null_key_equals_nothing() -> None:
    for type, unmet in (("inner", []), ("left", [(None, 1, None, None)])):
        inputs = as_of(type)  # type: ignore[arg-type]
        inputs.rows(RIGHT, [(None, 3), ("a", 4)], [1, 1])
        inputs.rows(LEFT, [(None, 1), ("a", 2)], [4, 5])
        assert shown(inputs.time()) == [("a", 2, "a", 4), *unmet]


def test_a_deleted_key_is_a_version_that_nobody_meets() -> None:
    inputs = as_of("left")
    inputs.rows(RIGHT, [("a", 1), ("a", None), ("a", 2)], [1, 3, 6], [False, True, False])
    inputs.rows(LEFT, [("a", at) for at in (2, 3, 5, 6)], [2, 3, 5, 6])
    assert shown(inputs.time(7)) == [
        ("a", 2, "a", 1),
        ("a", 3, None, None),
        ("a", 5, None, None),
        ("a", 6, "a", 2),
    ]
    inputs.rows(RIGHT, [("a", None)], [8], [True])
    inputs.time(9)
    inputs.rows(LEFT, [("a", 9)], [9])
    assert shown(inputs.time()) == [("a", 9, None, None)]


def test_versions_older_than_the_ttl_do_not_match_and_are_removed() -> None:
    inputs = as_of("left", ttl_us=3)
    inputs.rows(RIGHT, [("a", 1)], [1])
    inputs.rows(LEFT, [("a", 4), ("a", 5)], [4, 5])
    assert shown(inputs.time(5)) == [("a", 4, "a", 1)]
    assert shown(inputs.time(6)) == [("a", 5, None, None)]
    assert inputs.states[0].freeze().read_table("keys", range(16)) is None


def test_one_version_per_key_is_stored() -> None:
    inputs = as_of()
    inputs.rows(RIGHT, [("a", at) for at in range(100)], list(range(100)))
    inputs.time(100)
    sizes = inputs.states[0].measure_sizes()
    assert {name: size.rows for name, size in sizes.items()} == {
        "left": 0,
        "right": 0,
        "versions": 1,
    }


def oracle(
    left: list[tuple[Row, int]],
    right: list[tuple[Row, int, bool]],
    type: JoinType,
    ttl_us: int | None,
    only: bool,
) -> list[Row]:
    """The naive way: for each left row look through all versions."""
    out: list[Row] = []
    for (key, value), time in left:
        before = [r for r in right if r[0][0] == key is not None and r[1] <= time]
        # Stable: of one time the last one in the order in which they came.
        found = max(before, key=lambda r: r[1], default=None) if before else None
        for each in before:
            if found is not None and each[1] == found[1]:
                found = each
        holds = found is not None and not found[2]
        if found is not None and ttl_us is not None and time - found[1] > ttl_us:
            holds = False
        if found is not None and holds and only:
            price = found[0][1]
            holds = price is not None and value is not None and price > value  # type: ignore[operator]
        if holds and found is not None:
            out.append((key, value, *found[0]))
        elif type == "left":
            out.append((key, value, None, None))
    return sorted(out, key=repr)


@pytest.mark.parametrize("seed", range(12))
def test_any_interleaving_gives_the_same_rows(seed: int) -> None:
    chance = random.Random(seed)
    type: JoinType = chance.choice(["inner", "left"])
    ttl_us = chance.choice([None, None, 4])
    only = chance.random() < 0.4
    changes = chance.random() < 0.5
    inputs = as_of(type, ttl_us, "r_p > l_v" if only else None, chance.randint(1, 3))
    left: list[tuple[Row, int]] = []
    right: list[tuple[Row, int, bool]] = []
    out, reached = [], 0
    for _ in range(60):
        match chance.randrange(6):
            case 0 | 1:
                rows = [_row(chance) for _ in range(chance.randint(1, 5))]
                times = [reached + chance.randint(0, 8) for _ in rows]
                left += zip(rows, times, strict=True)
                out += inputs.rows(LEFT, rows, times)
            case 2 | 3:
                rows = [_row(chance) for _ in range(chance.randint(1, 5))]
                times = [reached + chance.randint(0, 8) for _ in rows]
                gone = [changes and chance.random() < 0.2 for _ in rows]
                right += zip(rows, times, gone, strict=True)
                out += inputs.rows(RIGHT, rows, times, gone if changes else None)
            case 4:
                reached += chance.randint(0, 5)
                came = inputs.time(reached)
                assert all(_is_in_order(frame, reached) for _, frame in came)
                out += came
            case _ if chance.random() < 0.6:
                inputs.begin_anew(chance.randint(1, 3))
    out += inputs.time()
    assert shown(out) == oracle(left, right, type, ttl_us, only)


def _row(chance: random.Random) -> Row:
    return chance.choice(["a", "b", "c", "d", None]), chance.choice([None, 1, 2, 3])


def _is_in_order(frame: pl.DataFrame, reached: int) -> bool:
    times = frame[EVENT_TIME].cast(pl.Int64).to_list()
    return all(one <= other for one, other in pairwise([*times, min(reached, MAX_WATERMARK_US)]))
