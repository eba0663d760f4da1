"""Joins of facts: what goes out of rows that are near each other, when, and what is kept."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from headrace.core.api.state_backend import StateBackend
from headrace.core.operators.operator import MAX_OUTPUT_ROWS
from headrace.core.plan.nodes import JoinType
from headrace.core.plan.nodes.matching import IntervalMatch
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US, ORDER
from headrace.state.memory.backend import MemoryBackend
from headrace.state.rocks.backend import RocksBackend
from tests.support.runtime import join_oracle
from tests.support.runtime.changelogs import Clock, schema_of
from tests.support.runtime.two_input_operators import Inputs, Row, join, shown

LEFT, RIGHT = 0, 1
SCHEMAS = schema_of(k="double", v="int"), schema_of(k="double", p="int")
TYPES: tuple[JoinType, ...] = ("inner", "left", "right", "full", "semi", "anti")
NAN = float("nan")


def within(
    type: JoinType = "inner",
    least: int | None = -5,
    most: int | None = 5,
    only: str | None = None,
    *,
    processing: bool = False,
    timed: bool = True,
    ordered: bool = True,
    parallelism: int = 1,
    backend: StateBackend | None = None,
) -> Inputs:
    """A join by `k` of rows that are from `least` to `most` microseconds apart."""
    sides = (SCHEMAS[0], ["k"]), (SCHEMAS[1], ["k"])
    operation = join(*sides, IntervalMatch(least, most, processing), type, only)
    return Inputs(
        operation,
        SCHEMAS,
        timed=timed,
        ordered=ordered,
        clock=Clock(0),
        parallelism=parallelism,
        backend=backend or MemoryBackend(),
    )


def kept(inputs: Inputs) -> int:
    return sum(each.pending_rows for each in inputs.operators)


def test_a_pair_goes_out_when_its_second_row_comes() -> None:
    inputs = within()
    assert inputs.rows(LEFT, [(1.0, 10), (2.0, 11)], [100, 100]) == []
    assert shown(inputs.rows(RIGHT, [(1.0, 20)], [103])) == [(1.0, 10, 1.0, 20)]
    assert shown(inputs.rows(LEFT, [(1.0, 12)], [108])) == [(1.0, 12, 1.0, 20)]


@pytest.mark.parametrize(
    ("apart", "meets"), [(-6, False), (-5, True), (0, True), (3, True), (4, False)]
)
@pytest.mark.parametrize("first", [LEFT, RIGHT])
def test_both_ends_of_the_bounds_are_in(apart: int, meets: bool, first: int) -> None:
    inputs = within(least=-5, most=3)
    times = {LEFT: 1000, RIGHT: 1000 + apart}
    inputs.rows(first, [(1.0, 1)], [times[first]])
    out = inputs.rows(1 - first, [(1.0, 1)], [times[1 - first]])
    assert shown(out) == ([(1.0, 1, 1.0, 1)] if meets else [])


def test_a_row_of_a_join_has_the_later_time_and_the_places_of_both() -> None:
    inputs = within("full")
    inputs.rows(LEFT, [(1.0, 10), (2.0, 11)], [100, 101])
    ((_, frame),) = inputs.rows(RIGHT, [(1.0, 20), (3.0, 21)], [97, 98])
    assert frame[EVENT_TIME].cast(pl.Int64).to_list() == [100]
    assert frame[ORDER].struct.unnest().rows() == [(100, 0, 2)]
    (_, alone), (_, other) = inputs.time()
    assert alone[ORDER].struct.unnest().rows() == [(101, 1, 0)]
    assert alone[EVENT_TIME].cast(pl.Int64).to_list() == [101]
    assert other[ORDER].struct.unnest().rows() == [(98, 3, 4)]


def test_null_equals_nothing_and_nan_itself_and_zero_has_no_sign() -> None:
    inputs = within()
    inputs.rows(LEFT, [(None, 1), (NAN, 2), (0.0, 3), (-0.0, 4)], [1, 1, 1, 1])
    out = shown(inputs.rows(RIGHT, [(None, 5), (NAN, 6), (-0.0, 7)], [1, 1, 1]))
    assert {(row[1], row[3]) for row in out} == {(2, 6), (3, 7), (4, 7)}
    assert kept(inputs) == 5


@pytest.mark.parametrize(
    ("type", "alone"),
    [
        ("inner", []),
        ("left", [(None, 1, None, None)]),
        ("right", [(None, None, None, 2)]),
        ("full", [(None, 1, None, None), (None, None, None, 2)]),
        ("semi", []),
        ("anti", [(None, 1)]),
    ],
)
def test_a_row_with_a_null_key_goes_out_at_once_or_never(type: JoinType, alone: list[Row]) -> None:
    inputs = within(type)
    out = inputs.rows(LEFT, [(None, 1)], [5]) + inputs.rows(RIGHT, [(None, 2)], [5])
    assert shown(out) == sorted(alone, key=repr)
    assert kept(inputs) == 0
    assert inputs.time() == []


def test_a_left_row_goes_out_alone_when_no_right_one_can_come_any_more() -> None:
    inputs = within("left", least=-5, most=3)
    inputs.rows(LEFT, [(1.0, 1), (2.0, 2)], [100, 100])
    inputs.rows(RIGHT, [(2.0, 9)], [98])
    assert inputs.time(103) == []
    assert shown(inputs.time(104)) == [(1.0, 1, None, None)]
    assert inputs.time() == []


def test_a_right_row_goes_out_alone_when_no_left_one_can_come_any_more() -> None:
    inputs = within("right", least=-5, most=3)
    inputs.rows(RIGHT, [(1.0, 1), (2.0, 2)], [100, 100])
    inputs.rows(LEFT, [(2.0, 9)], [98])
    assert inputs.time(105) == []
    assert shown(inputs.time(106)) == [(None, None, 1.0, 1)]
    assert inputs.time() == []


def test_a_row_that_can_meet_only_what_came_before_is_decided_when_it_comes() -> None:
    inputs = within("left", least=-9, most=-5)
    inputs.time(100)
    inputs.rows(RIGHT, [(1.0, 1)], [100])
    out = inputs.rows(LEFT, [(1.0, 2), (2.0, 3), (1.0, 4)], [104, 104, 106])
    assert shown(out) == [(1.0, 2, None, None), (1.0, 4, 1.0, 1), (2.0, 3, None, None)]
    assert inputs.time() == []


def test_a_semi_join_puts_a_left_row_out_once_when_it_first_meets_one() -> None:
    inputs = within("semi")
    assert inputs.rows(LEFT, [(1.0, 1), (2.0, 2)], [100, 100]) == []
    assert shown(inputs.rows(RIGHT, [(1.0, 0), (1.0, 0)], [101, 102])) == [(1.0, 1)]
    assert inputs.rows(RIGHT, [(1.0, 0)], [103]) == []
    assert shown(inputs.rows(LEFT, [(1.0, 3)], [104])) == [(1.0, 3)]
    assert inputs.time() == []


def test_an_anti_join_puts_a_left_row_out_when_it_can_meet_none_any_more() -> None:
    inputs = within("anti")
    inputs.rows(RIGHT, [(1.0, 0)], [100])
    assert inputs.rows(LEFT, [(1.0, 1), (2.0, 2), (3.0, 3)], [100, 101, 101]) == []
    inputs.rows(RIGHT, [(3.0, 0)], [106])
    assert inputs.time(106) == []
    assert shown(inputs.time(107)) == [(2.0, 2)]


def test_a_pair_that_is_not_meant_is_no_pair() -> None:
    inputs = within("full", only="l_v > r_p")
    inputs.rows(LEFT, [(1.0, 5), (2.0, 5), (3.0, None)], [10, 10, 10])
    out = inputs.rows(RIGHT, [(1.0, 4), (2.0, 5), (3.0, 0)], [10, 10, 10])
    assert shown(out) == [(1.0, 5, 1.0, 4)]
    alone = [(2.0, 5, None, None), (3.0, None, None, None)]
    assert shown(inputs.time()) == [*alone, (None, None, 2.0, 5), (None, None, 3.0, 0)]


def test_late_rows_are_left_out_as_they_came() -> None:
    inputs = within("full")
    inputs.time(100)
    out = inputs.rows(LEFT, [(1.0, 1), (1.0, 2)], [99, 100])
    out += inputs.rows(RIGHT, [(1.0, 3), (None, 4)], [99, 98])
    assert shown(out, "late_l") == [(1.0, 1)]
    assert shown(out, "late_r") == [(1.0, 3), (None, 4)]
    assert (shown(out), inputs.late) == ([], 3)


def test_rows_that_can_match_no_more_are_removed() -> None:
    inputs = within(least=-5, most=3)
    for at in range(0, 1000, 10):
        for side in (LEFT, RIGHT):
            inputs.rows(side, [(1.0, at)], [at])
        inputs.time(at)
        assert kept(inputs) <= 2
    assert kept(inputs) == 2
    inputs.time()
    assert kept(inputs) == 0


def test_rows_alone_are_as_much_older_than_the_watermark_as_is_said() -> None:
    behind = {
        type: within(type, -5, 3).operators[0].watermark_delay_us for type in ("inner", *TYPES[1:])
    }
    assert behind == {"inner": 0, "left": 3, "right": 5, "full": 5, "semi": 3, "anti": 3}
    assert within("left", -9, -5).operators[0].watermark_delay_us == 0


def test_without_bounds_no_row_is_late_or_removed() -> None:
    inputs = within(least=None, most=None)
    inputs.rows(LEFT, [(1.0, 1)], [5])
    inputs.time(10**9)
    assert shown(inputs.rows(RIGHT, [(1.0, 2)], [3])) == [(1.0, 1, 1.0, 2)]
    inputs.time()
    inputs.begin_anew(1)
    assert len(shown(inputs.rows(RIGHT, [(1.0, 3)], [4]))) == 1


@pytest.mark.parametrize("type", ["left", "full", "anti"])
def test_without_bounds_only_unmatched_rows_are_removed_at_the_end(type: JoinType) -> None:
    inputs = within(type, None, None)
    inputs.rows(LEFT, [(1.0, 1), (2.0, 2)], [5, 5])
    inputs.rows(RIGHT, [(1.0, 1)], [5])
    nulls = () if type == "anti" else (None, None)
    assert shown(inputs.time()) == [(2.0, 2, *nulls)]
    inputs.begin_anew(2)
    out = inputs.rows(RIGHT, [(1.0, 3), (2.0, 4)], [6, 6])
    assert shown(out) == ([] if type == "anti" else [(1.0, 1, 1.0, 3)])
    assert shown(inputs.time()) == ([(None, None, 2.0, 4)] if type == "full" else [])


def test_rows_without_event_time_join_without_bounds() -> None:
    inputs = within("full", None, None, timed=False)
    inputs.operation = replace(inputs.operation, has_event_time=False)
    inputs.begin_anew(1)
    inputs.rows(LEFT, [(1.0, 1), (2.0, 2)])
    ((_, frame),) = inputs.rows(RIGHT, [(1.0, 3)])
    assert EVENT_TIME not in frame.columns
    assert frame[ORDER].struct.unnest().rows()[0][0] == 0
    assert shown(inputs.time()) == [(2.0, 2, None, None)]


def test_by_the_wall_clock_a_row_has_the_time_at_which_it_comes() -> None:
    inputs = within("left", -640, 640, processing=True)
    inputs.clock.now_us = 1000
    inputs.rows(LEFT, [(1.0, 1), (2.0, 2)], [7, 8])
    assert inputs.operators[0].next_tick_us() == 1641
    inputs.clock.now_us = 1640
    assert shown(inputs.rows(RIGHT, [(1.0, 3)], [9])) == [(1.0, 1, 1.0, 3)]
    assert shown(inputs.tick(1641)) == [(2.0, 2, None, None)]
    assert inputs.rows(RIGHT, [(1.0, 4)], [9]) == []
    assert inputs.time(10**9) == []
    inputs.tick(10**4)
    assert (kept(inputs), inputs.operators[0].next_tick_us()) == (0, None)


def test_a_key_that_all_rows_have_takes_bounded_memory() -> None:
    inputs = within(ordered=False)
    many = [(1.0, n) for n in range(2000)]
    inputs.rows(LEFT, many, [100] * 2000)
    outs = inputs.rows(RIGHT, many, [100] * 2000)
    assert sum(frame.height for _, frame in outs) == 4_000_000
    assert max(frame.height for _, frame in outs) <= MAX_OUTPUT_ROWS


BOUNDS = [(-5, 5), (-5, 3), (0, 4), (2, 6), (-7, -2), (0, 0), (None, None)]


def compared(
    type: JoinType, seed: str, *, processing: bool = False, backend: StateBackend | None = None
) -> None:
    """Random rows, watermarks and restarts, against nested loops."""
    chance = random.Random(f"{type}{seed}")
    least, most = chance.choice(BOUNDS[: 3 if processing else None])
    only = chance.choice([None, "l_v > r_p"])
    meant = None if only is None else join_oracle.greater
    expected = join_oracle.Within(type, meant, least=least, most=most, processing=processing)
    inputs = within(
        type,
        least,
        most,
        only,
        processing=processing,
        ordered=chance.random() < 0.5,
        backend=backend,
    )
    now = 0
    for _ in range(chance.randrange(5, 40)):
        what = chance.randrange(5)
        if what == 0:
            inputs.begin_anew(chance.randint(1, 3))
        elif what == 1 or processing:
            now += chance.randrange(6)
            time = inputs.tick if processing else inputs.time
            assert repr(shown(time(now))) == repr(expected.time(now))
        if what > 1:
            count = chance.randrange(1, 6)
            rows = [
                (chance.choice([1.0, 2.0, NAN, 0.0, -0.0, None]), chance.randrange(9))
                for _ in range(count)
            ]
            times = [now + chance.randrange(-2, 12) for _ in rows]
            side = chance.choice([LEFT, RIGHT])
            out = inputs.rows(side, rows, times)
            wanted = expected.rows(side, rows, [now] * count if processing else times)
            assert repr(shown(out)) == repr(wanted)
    assert repr(shown(inputs.time())) == repr(expected.time(MAX_WATERMARK_US))
    assert inputs.late == expected.late


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("seed", range(12))
def test_whatever_comes_a_join_puts_out_what_nested_loops_do(type: JoinType, seed: int) -> None:
    compared(type, str(seed))


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("seed", range(4))
def test_so_it_does_by_the_wall_clock(type: JoinType, seed: int) -> None:
    compared(type, str(seed), processing=True)


@pytest.mark.parametrize("type", TYPES)
def test_so_it_does_where_state_is_on_disk(type: JoinType, tmp_path: Path) -> None:
    for seed in range(4):
        compared(type, f"disk{seed}", backend=RocksBackend(str(tmp_path / str(seed)), memory=1))
