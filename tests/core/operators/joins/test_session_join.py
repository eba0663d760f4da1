"""Joins of the rows of one session: both sides make it, and pairs go out when it closes."""

from __future__ import annotations

import random

import polars as pl
import pytest

from headrace.core.plan.nodes import JoinType
from headrace.core.plan.nodes.matching import WindowMatch
from headrace.core.plan.nodes.windows import Session, Window
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US, ORDER
from tests.support.runtime import join_oracle
from tests.support.runtime.changelogs import schema_of
from tests.support.runtime.two_input_operators import Inputs, join, kept, plain, shown

LEFT, RIGHT = 0, 1
SCHEMAS = schema_of(k="double", v="int"), schema_of(k="double", p="int")
TYPES: tuple[JoinType, ...] = ("inner", "left", "right", "full", "semi", "anti")
NAN = float("nan")


def session(
    type: JoinType = "inner",
    gap: int = 10,
    only: str | None = None,
    *,
    lateness: int = 0,
    ordered: bool = True,
) -> Inputs:
    """A join by `k` of rows that follow each other at most the gap apart, in microseconds."""
    sides = (SCHEMAS[0], ["k"]), (SCHEMAS[1], ["k"])
    operation = join(*sides, WindowMatch(Window(Session(gap), lateness)), type, only)
    return Inputs(operation, SCHEMAS, ordered=ordered)


def test_rows_of_both_sides_make_a_session_which_closes_when_its_gap_has_passed() -> None:
    inputs = session()
    inputs.rows(LEFT, [(1.0, 1), (1.0, 2)], [0, 20])
    inputs.rows(RIGHT, [(1.0, 8)], [10])
    assert inputs.time(30) == []
    out = inputs.time(31)
    assert plain(out) == [(1.0, 1, 1.0, 8, 0, 30), (1.0, 2, 1.0, 8, 0, 30)]
    assert {at for _, frame in out for at in frame[EVENT_TIME].cast(pl.Int64)} == {29}
    assert kept(inputs) == 0
    assert inputs.operators[0].watermark_delay_us == 1


def test_rows_further_apart_than_the_gap_do_not_meet() -> None:
    inputs = session("full")
    inputs.rows(LEFT, [(1.0, 1)], [0])
    inputs.rows(RIGHT, [(1.0, 8)], [11])
    assert plain(inputs.time(11)) == [(1.0, 1, None, None, 0, 10)]
    assert plain(inputs.time()) == [(None, None, 1.0, 8, 11, 21)]


def test_an_open_session_retains_its_rows() -> None:
    inputs = session("semi")
    inputs.rows(LEFT, [(1.0, 1)], [0])
    for at in range(5, 100, 5):
        inputs.rows(RIGHT, [(1.0, at)], [at])
        assert inputs.time(at) == []
        inputs.begin_anew(1 + at % 3)
    ((_, frame),) = inputs.time()
    assert plain([("out", frame)]) == [(1.0, 1, 0, 105)]
    assert frame[ORDER].struct.unnest().rows() == [(104, 0, 0)]


def test_a_row_is_late_when_its_session_would_be_over_were_it_alone() -> None:
    inputs = session("full")
    inputs.rows(RIGHT, [(1.0, 8)], [20])
    inputs.time(25)
    out = inputs.rows(LEFT, [(1.0, 1), (1.0, 2), (2.0, 3), (None, 4)], [14, 3, 14, 14])
    assert shown(out, "late_l") == [(1.0, 2), (2.0, 3), (None, 4)]
    assert inputs.late == 3
    assert plain(inputs.time()) == [(1.0, 1, 1.0, 8, 14, 30)]


def test_a_row_with_a_null_key_is_a_session_of_its_own() -> None:
    inputs = session("left")
    out = inputs.rows(LEFT, [(None, 1), (None, 2)], [3, 4])
    assert plain(out) == [(None, 1, None, None, 3, 13), (None, 2, None, None, 4, 14)]
    assert kept(inputs) == 0


def test_a_late_row_makes_new_pairs_only_and_joins_what_went_out_apart() -> None:
    inputs = session(lateness=50)
    inputs.rows(LEFT, [(1.0, 1), (1.0, 2)], [0, 20])
    inputs.rows(RIGHT, [(1.0, 8), (1.0, 9)], [0, 20])
    assert len(plain(inputs.time(40))) == 2
    out = inputs.rows(RIGHT, [(1.0, 7)], [10])
    assert plain(out) == [
        (1.0, 1, 1.0, 7, 0, 30),
        (1.0, 1, 1.0, 9, 0, 30),
        (1.0, 2, 1.0, 7, 0, 30),
        (1.0, 2, 1.0, 8, 0, 30),
    ]
    assert plain(inputs.rows(LEFT, [(1.0, 3)], [0])) == [(1.0, 3, 1.0, p, 0, 30) for p in (7, 8, 9)]
    inputs.time(81)
    assert kept(inputs) == 0


def compared(type: JoinType, seed: str) -> None:
    """Random rows, watermarks and restarts, against nested loops."""
    chance = random.Random(f"{type}{seed}")
    gap, lateness = chance.choice([1, 3, 6]), chance.choice([0, 0, 4, 9])
    lateness = lateness if type == "inner" else 0
    only = chance.choice([None, "l_v > r_p"])
    meant = None if only is None else join_oracle.greater
    expected = join_oracle.Sessions(type, meant, gap=gap, lateness=lateness)
    inputs = session(type, gap, only, lateness=lateness, ordered=chance.random() < 0.5)
    now = 0
    for _ in range(chance.randrange(5, 40)):
        what = chance.randrange(5)
        if what == 0:
            inputs.begin_anew(chance.randint(1, 3))
        elif what == 1:
            now += chance.randrange(6)
            assert repr(plain(inputs.time(now))) == repr(expected.time(now))
        else:
            count = chance.randrange(1, 6)
            keys = [1.0, 2.0, NAN, 0.0, -0.0, None]
            rows = [(chance.choice(keys), chance.randrange(9)) for _ in range(count)]
            times = [now + chance.randrange(-12, 12) for _ in rows]
            side = chance.choice([LEFT, RIGHT])
            out = inputs.rows(side, rows, times)
            assert repr(plain(out)) == repr(expected.rows(side, rows, times))
    assert repr(plain(inputs.time())) == repr(expected.time(MAX_WATERMARK_US))
    assert inputs.late == expected.late


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("seed", range(12))
def test_whatever_comes_a_join_puts_out_what_nested_loops_do(type: JoinType, seed: int) -> None:
    compared(type, str(seed))
