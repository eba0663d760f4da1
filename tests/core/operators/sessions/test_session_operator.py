"""Session windows as a state machine with literal times, and against rows taken one by one."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.operators.operator import OperatorChain
from headrace.core.operators.sessions.fragments import (
    FRAGMENT_END,
    FRAGMENT_START,
    SESSION_END,
    find_continued,
)
from headrace.core.plan.nodes.windows import Session, Trigger, Window
from headrace.core.types.elements import MAX_WATERMARK_US
from tests.support.runtime.keyed_operators import Keyed, Row

GAP = Window(Session(10))


def test_events_exactly_the_gap_apart_share_a_session() -> None:
    keyed = Keyed(GAP)
    keyed.process((1, 0, 1), (1, 10, 2), (1, 21, 4), (2, 5, 8))
    keyed.advance(MAX_WATERMARK_US)
    assert sorted(keyed.rows) == [(1, 0, 20, 2, 3), (1, 21, 31, 1, 4), (2, 5, 15, 1, 8)]


def test_a_session_closes_when_the_watermark_is_past_its_end() -> None:
    keyed = Keyed(GAP)
    keyed.process((1, 0, 1), (2, 0, 1))
    keyed.advance(10)
    assert keyed.rows == []
    keyed.process((2, 10, 2))
    keyed.advance(11)
    assert keyed.rows == [(1, 0, 10, 1, 1)]


def test_the_watermark_after_sessions_allows_for_rows_at_the_end() -> None:
    chain = OperatorChain([("s", Keyed(GAP).operator)])
    assert chain.delay_watermark(10) == 9
    assert chain.delay_watermark(MAX_WATERMARK_US) == MAX_WATERMARK_US


def test_an_open_session_waits_for_later_rows() -> None:
    keyed = Keyed(GAP)
    keyed.process((1, 0, 1))
    keyed.process((1, 8, 2))
    keyed.advance(12)
    assert keyed.rows == []
    keyed.process((1, 16, 4))
    keyed.advance(27)
    assert keyed.rows == [(1, 0, 26, 3, 7)]


def test_a_row_between_two_sessions_joins_them() -> None:
    keyed = Keyed(GAP)
    keyed.process((None, 0, 1))
    keyed.process((None, 20, 2))
    keyed.process((None, 10, 4))
    keyed.advance(MAX_WATERMARK_US)
    assert keyed.rows == [(None, 0, 30, 3, 7)]


def test_a_row_whose_session_is_over_is_late() -> None:
    keyed = Keyed(Window(Session(10), late_to="late"))
    keyed.process((1, 30, 1))
    keyed.advance(25)
    keyed.process((1, 15, 2), (1, 16, 3), (2, 10, 4), (3, 14, 5))
    assert keyed.late == [(2, 10, 4), (3, 14, 5)]
    assert keyed.state.counters.late == 2


def test_a_late_row_that_joins_an_open_session_is_not_late() -> None:
    keyed = Keyed(Window(Session(10), late_to="late"))
    keyed.process((1, 20, 1))
    keyed.advance(25)
    keyed.process((1, 12, 2))
    keyed.advance(MAX_WATERMARK_US)
    assert keyed.late == []
    assert keyed.rows == [(1, 12, 30, 2, 3)]


def test_an_allowed_late_row_puts_the_session_in_the_place_of_the_old_ones() -> None:
    keyed = Keyed(Window(Session(10), lateness_us=100))
    keyed.process((1, 0, 1), (1, 20, 2))
    keyed.advance(31)
    assert sorted(keyed.rows) == [(1, 0, 10, 1, 1), (1, 20, 30, 1, 2)]
    keyed.process((1, 10, 4))
    assert keyed.rows == [(1, 0, 30, 3, 7)]


def test_an_emitted_session_is_emitted_again_at_its_end() -> None:
    keyed = Keyed(Window(Session(10), trigger=Trigger(every_us=5)))
    keyed.advance(0)
    keyed.process((1, 1, 1))
    keyed.advance(5)
    assert keyed.rows == [(1, 1, 11, 1, 1)]
    keyed.process((1, 9, 2))
    assert keyed.rows == []
    keyed.advance(20)
    assert keyed.rows == [(1, 1, 19, 2, 3)]


def test_a_session_is_emitted_after_a_number_of_rows() -> None:
    keyed = Keyed(Window(Session(10), trigger=Trigger(count=2)))
    keyed.process((1, 0, 1), (2, 0, 1))
    keyed.process((1, 1, 1))
    assert keyed.rows == [(1, 0, 11, 2, 2)]
    keyed.advance(MAX_WATERMARK_US)
    assert sorted(keyed.rows) == [(1, 0, 11, 2, 2), (2, 0, 10, 1, 1)]


def test_by_the_wall_clock_a_session_closes_when_nothing_came_for_its_gap() -> None:
    keyed = Keyed(Window(Session(10), uses_processing_time=True))
    keyed.process((1, 0, 1))
    keyed.tick(9)
    keyed.process((1, 0, 2))
    keyed.tick(19)
    assert keyed.rows == []
    keyed.tick(20)
    assert keyed.rows == [(1, 0, 19, 2, 3)]


@pytest.mark.parametrize("key", [(), ("k",)])
def test_a_hundred_thousand_sessions_of_one_key_meet_as_many_without_making_pairs(
    key: tuple[str, ...],
) -> None:
    """Pairs of them would need more memory than there is."""
    number = pl.int_range(100_000)
    open_ = pl.select((number * 100).alias(FRAGMENT_START), (number * 0).alias("k"))
    pieces = open_.with_columns((pl.col(FRAGMENT_START) + 30).alias(FRAGMENT_END))
    later = open_.with_columns(
        pl.col(FRAGMENT_START) + 40, (pl.col(FRAGMENT_START) + 60).alias(FRAGMENT_END)
    )
    assert not find_continued(pieces, later, key, 9).height
    touched = find_continued(pieces, later, key, 10)
    assert touched.sort(FRAGMENT_START)[[FRAGMENT_START, FRAGMENT_END, SESSION_END]].rows()[-1] == (
        9_999_900,
        9_999_930,
        9_999_960,
    )
    assert touched.height == 100_000


def test_a_row_that_is_late_by_itself_is_not_saved_by_a_later_row_of_its_batch() -> None:
    keyed = Keyed(Window(Session(30), late_to="late"))
    keyed.advance(58)
    keyed.process((1, 26, 1), (1, 41, 2), (1, 26, 4))
    keyed.advance(MAX_WATERMARK_US)
    assert keyed.late == [(1, 26, 1)]
    assert keyed.rows == [(1, 26, 71, 2, 6)]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([None, 1, 2]), st.integers(0, 60)), max_size=30),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 60)), max_size=3),
    st.sampled_from([1, 5, 20]),
    st.sampled_from([0, 0, 10]),
    st.booleans(),
    st.data(),
)
def test_late_rows_do_not_depend_on_where_batches_are_cut(
    times: list[tuple[int | None, int]],
    watermarks: list[tuple[int, int]],
    gap: int,
    lateness_us: int,
    with_key: bool,
    data: st.DataObject,
) -> None:
    """Rows in any order, of which many are late, in batches and one by one."""
    rows = [(key, time, 1 << at) for at, (key, time) in enumerate(times)]
    window = Window(Session(gap), lateness_us=lateness_us, late_to="late")
    batched, single = Keyed(window, keyed=with_key), Keyed(window, keyed=with_key)
    begin = 0
    for end, watermark_us in [*sorted(watermarks), (len(rows), MAX_WATERMARK_US)]:
        while begin < min(end, len(rows)):
            size = data.draw(st.integers(1, min(end, len(rows)) - begin))
            batched.process(*rows[begin : begin + size])
            for row in rows[begin : begin + size]:
                single.process(row)
            begin += size
        batched.advance(watermark_us)
        single.advance(watermark_us)
    assert batched.late == single.late
    assert sorted(batched.rows, key=repr) == sorted(single.rows, key=repr)


TRIGGERS = st.sampled_from([None, Trigger(every_us=7), Trigger(count=2)])
STEPS = st.lists(
    st.tuples(st.sampled_from([None, 1, 2]), st.integers(0, 30), st.integers(-9, 9)), max_size=40
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from([1, 5, 20]), TRIGGERS, st.booleans(), st.data())
def test_sessions_do_not_depend_on_how_rows_come(
    steps: list[Row], gap: int, trigger: Trigger | None, with_key: bool, data: st.DataObject
) -> None:
    """Rows out of order by at most 30, watermarks that allow for it, and any cut of batches."""
    rows = [(key, 3 * at - late, number) for at, (key, late, number) in enumerate(steps)]
    keyed = Keyed(Window(Session(gap), lateness_us=0, trigger=trigger), keyed=with_key)
    left = rows
    while left:
        size = data.draw(st.integers(1, 12))
        keyed.process(*left[:size])
        left = left[size:]
        if data.draw(st.booleans()) and left:
            keyed.advance(min(time for _, time, _ in left))
    keyed.advance(MAX_WATERMARK_US)
    assert keyed.state.counters.late == 0
    assert sorted(keyed.rows, key=repr) == sorted(_sessions(rows, gap, with_key), key=repr)
    assert keyed.operator.pending_rows == 0


def _sessions(rows: list[Row], gap: int, with_key: bool) -> list[tuple[int | None, ...]]:
    """The sessions of rows, one by one in the order of their times."""
    found: list[tuple[int | None, ...]] = []
    for key in {key if with_key else 0 for key, _, _ in rows}:
        mine = sorted((time, v) for k, time, v in rows if not with_key or k == key)
        session = [mine[0]]
        for row in [*mine[1:], (1 << 60, 0)]:
            if row[0] - session[-1][0] > gap:
                bounds = (session[0][0], session[-1][0] + gap)
                values = (len(session), sum(v for _, v in session))
                found.append((*((key,) if with_key else ()), *bounds, *values))
                session = []
            session.append(row)
    return found
