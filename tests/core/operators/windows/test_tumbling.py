"""Adjacent windows: literal rows and watermarks in, literal rows out. Times in seconds."""

from __future__ import annotations

import polars as pl
import pytest

from headrace.core.plan.nodes.windows import Tumble, Window
from headrace.core.types.elements import EVENT_TIME, ORDER
from tests.support.runtime.window_operators import aggregate, driven, frame_of, us

TEN = Window(Tumble(us(10)))


def test_a_window_fires_when_the_watermark_reaches_its_end() -> None:
    step = driven(aggregate(TEN))
    assert step.rows((1, "a", 1), (9.999999, "a", 2), (10, "a", 4), (3, "b", 8)) == []
    assert step.time(9.999999) == []
    assert sorted(step.time(10)) == [("a", 0, 10, 2, 3), ("b", 0, 10, 1, 8)]
    assert step.time(10) == []
    assert step.end() == [("a", 10, 20, 1, 4)]


def test_rows_come_out_window_after_window() -> None:
    step = driven(aggregate(TEN))
    step.rows((35, "a", 1), (15, "a", 2), (25, "b", 3))
    assert step.end() == [("a", 10, 20, 1, 2), ("b", 20, 30, 1, 3), ("a", 30, 40, 1, 1)]


def test_windows_before_the_epoch_and_at_the_ends_of_time() -> None:
    first, last = -62_135_596_800, 253_402_300_799
    step = driven(aggregate(TEN))
    step.rows((-0.000001, "a", 1), (-10, "a", 2), (first, "a", 3), (last, "a", 4))
    ends = [(first, first + 10, 3), (-10, 0, 3)]
    assert step.time(last) == [("a", a, b, 1 if a == first else 2, x) for a, b, x in ends]
    ((_, frame),) = list(step.operator.advance(us(last + 1)))
    assert frame["window_end"].cast(pl.Int64).to_list() == [us(last + 1)]
    assert step.end() == []


def test_an_offset_moves_the_grid() -> None:
    step = driven(aggregate(Window(Tumble(us(10), us(13)))))
    step.rows((2, "a", 1), (3, "a", 2), (12, "a", 3), (13, "a", 4))
    assert step.end() == [("a", -7, 3, 1, 1), ("a", 3, 13, 2, 5), ("a", 13, 23, 1, 4)]


def test_null_is_a_key_and_so_is_none_at_all() -> None:
    step = driven(aggregate(TEN))
    step.rows((1, None, 1), (2, None, None), (3, "a", None))
    assert sorted(step.end(), key=str) == [("a", 0, 10, 1, None), (None, 0, 10, 2, 1)]
    step = driven(aggregate(TEN, ()))
    step.rows((1, "a", 1), (2, "b", 1))
    step.rows((12, "b", 1))
    assert step.end() == [(0, 10, 2, 2), (10, 20, 1, 1)]
    step = driven(aggregate(TEN, (), n="count(*)"))
    step.rows((1, "a", 1))
    assert step.end() == [(0, 10, 1)]


def test_a_late_row_is_counted_and_emitted_unchanged() -> None:
    step = driven(aggregate(Window(Tumble(us(10)), late_to="late")))
    step.rows((1, "a", 1))
    assert step.time(10) == [("a", 0, 10, 1, 1)]
    assert step.rows((9, "b", 7), (11, "b", 2)) == [("late", "b", 7)]
    assert step.state.counters.late == 1
    ((stream, late),) = list(step.operator.process(frame_of([(9, "b", 7)])))
    assert (stream, late.columns) == ("late", ["k", "x", EVENT_TIME, ORDER])
    assert step.end() == [("b", 10, 20, 1, 2)]


def test_lateness_fires_a_window_again_with_all_its_rows() -> None:
    step = driven(aggregate(Window(Tumble(us(10)), lateness_us=us(5), late_to="late")))
    step.rows((1, "a", 1), (2, "b", 1))
    assert sorted(step.time(12)) == [("a", 0, 10, 1, 1), ("b", 0, 10, 1, 1)]
    again = step.rows((3, "a", 10), (4, "c", 5), (15, "b", 1))
    assert sorted(again) == [("a", 0, 10, 2, 11), ("c", 0, 10, 1, 5)]
    assert step.time(14.9) == []
    assert step.rows((3, "a", 100)) == [("a", 0, 10, 3, 111)]
    assert step.time(15) == []
    assert step.rows((3, "a", 1000)) == [("late", "a", 1000)]
    assert step.end() == [("b", 10, 20, 1, 1)]
    assert step.operator.pending_rows == 0


def test_having_filters_facts_and_deletes_changes() -> None:
    step = driven(aggregate(TEN, having="n > 1 and window_start >= timestamp '1970-01-01'"))
    step.rows((1, "a", 1), (2, "b", 1), (3, "b", 1))
    assert step.end() == [("b", 0, 10, 2, 2)]
    late = Window(Tumble(us(10)), lateness_us=us(5))
    step = driven(aggregate(late, having="x > 0"))
    step.rows((1, "a", 1))
    assert step.time(10) == [("a", 0, 10, 1, 1)]
    assert step.rows((1, "a", -1)) == [("-", "a", 0, 10, 2, 0)]


def test_rows_carry_the_last_instant_of_their_window_and_a_place() -> None:
    step = driven(aggregate(TEN), ordered=True)
    step.rows((1, "a", 1), (2, "b", 1))
    ((_, frame),) = list(step.operator.advance(us(10)))
    assert frame[EVENT_TIME].cast(pl.Int64).to_list() == [us(10) - 1] * 2
    assert frame[ORDER].struct.field("time").to_list() == [us(10) - 1] * 2
    assert frame[ORDER].struct.field("at").n_unique() == 2


def test_many_rows_come_out_in_bounded_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.core.operators.windows.window_rows.MAX_OUTPUT_ROWS", 2)
    step = driven(aggregate(TEN))
    step.rows(*((at, "a", at) for at in range(0, 50, 10)))
    pieces = [frame.height for _, frame in step.operator.advance(us(100))]
    assert pieces == [2, 2, 1]
