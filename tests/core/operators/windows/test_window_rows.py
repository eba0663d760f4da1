"""Windows that keep rows, the best or those an evictor leaves; triggers that count."""

from __future__ import annotations

import polars as pl

from headrace.core.plan.nodes.windows import (
    Evict,
    Global,
    Slide,
    Trigger,
    Tumble,
    Window,
    WindowShape,
)
from headrace.core.types.elements import EVENT_TIME, ORDER
from tests.support.runtime.window_operators import FOREVER, aggregate, driven, frame_of, top, us

TEN = Tumble(us(10))
SIX_EVERY_TWO = Slide(us(6), us(2))


def test_the_best_rows_of_each_window_have_their_rank() -> None:
    step = driven(top(Window(TEN), 2, "-x"))
    step.rows((1, "a", 5), (2, "a", 7), (3, "b", None), (11, "a", 9))
    step.rows((4, "a", 6), (5, "b", 1))
    found = step.time(10)
    assert sorted(found, key=str) == [("a", 6, 2), ("a", 7, 1), ("b", 1, 1), ("b", None, 2)]
    assert [row[2] for row in found] == [1, 2, 1, 2]
    assert step.end() == [("a", 9, 1)]


def test_ties_go_by_time_and_then_by_order_of_arrival() -> None:
    step = driven(top(Window(TEN), 3, "x", key=()))
    step.rows((3, "c", 1), (2, "b", 1))
    step.rows((2, "d", 1), (1, "a", 1))
    assert step.end() == [("a", 1, 1), ("b", 1, 2), ("d", 1, 3)]


def test_a_top_slides_and_may_be_late() -> None:
    window = Window(SIX_EVERY_TWO, late_to="late")
    step = driven(top(window, 1, "-x"), ordered=True)
    step.rows((1, "a", 5), (3, "a", 7))
    assert step.time(4) == [("a", 5, 1), ("a", 7, 1)]
    assert step.rows((-3, "a", 9), (1, "a", 8)) == [("late", "a", 9)]
    ((_, frame),) = list(step.operator.advance(us(6)))
    assert frame.columns == ["k", "x", "rank", EVENT_TIME, ORDER]
    assert frame.rows()[0][:3] == ("a", 8, 1)
    assert frame[EVENT_TIME].cast(pl.Int64).to_list() == [us(6) - 1]
    assert frame.schema["rank"] == pl.Int32


def test_a_top_of_everything_has_the_greatest_time_of_its_key() -> None:
    step = driven(top(Window(Global()), 1, "x"))
    assert step.time(5) == []
    step.rows((1, "a", 5), (9, "a", 7))
    assert step.operator.pending_rows == 2
    ((_, frame),) = list(step.operator.advance(us(FOREVER)))
    assert frame.rows()[0][:3] == ("a", 5, 1)
    assert frame[EVENT_TIME].cast(pl.Int64).to_list() == [us(9)]


def test_a_top_keeps_columns_that_are_called_like_those_of_windows() -> None:
    frame = frame_of([(1, "a", 5)]).with_columns(window_end=pl.lit("x"), window_start=pl.lit(1))
    step = driven(top(Window(TEN), 1, "x"))
    list(step.operator.process(frame))
    ((_, out),) = list(step.operator.advance(us(FOREVER)))
    assert out.drop(EVENT_TIME).rows(named=True) == [
        {"k": "a", "x": 5, "window_end": "x", "window_start": 1, "rank": 1}
    ]


def test_only_the_last_rows_of_a_window_are_seen() -> None:
    for shape, ends in ((TEN, [(0, 10)]), (Slide(us(10), us(5)), [(-5, 5), (0, 10), (5, 15)])):
        step = driven(aggregate(Window(shape, evict=Evict(last=2)), n="count(*)", x="sum(x)"))
        step.rows((4, "a", 4), (1, "a", 1), (6, "b", 9))
        step.rows((2, "a", 2), (6, "a", 8))
        found = sorted(step.end())
        for start, end in ends:
            rows = [at for at in (1, 2, 4, 6) if start <= at < end][-2:]
            x = sum({1: 1, 2: 2, 4: 4, 6: 8}[at] for at in rows)
            assert ("a", start, end, len(rows), x) in found
        assert len(found) == len(ends) + sum(start <= 6 < end for start, end in ends)


def test_only_rows_near_the_last_one_are_seen() -> None:
    step = driven(aggregate(Window(TEN, evict=Evict(within_us=us(3))), x="sum(x)", f="first(x)"))
    step.rows((4, "a", 4), (7, "a", 7), (3.999999, "a", 3))
    step.rows((2, "a", 2), (12, "a", 1))
    assert step.end() == [("a", 0, 10, 11, 4), ("a", 10, 20, 1, 1)]


def test_evicted_rows_are_not_ranked() -> None:
    step = driven(top(Window(Global(), evict=Evict(last=2)), 5, "-x"))
    step.rows((1, "a", 9), (2, "a", 1), (3, "a", 2))
    assert step.end() == [("a", 2, 1), ("a", 1, 2)]


def counting(
    count: int, shape: WindowShape = TEN, *, accumulate: bool = True, late: int = 0
) -> Window:
    return Window(shape, us(late), trigger=Trigger(count=count), keeps_rows=accumulate)


def test_a_window_is_emitted_at_each_multiple_of_the_count() -> None:
    step = driven(aggregate(counting(2)))
    assert step.rows((1, "a", 1), (1, "b", 1)) == []
    assert step.rows((2, "a", 2), (12, "a", 4)) == [("a", 0, 10, 2, 3)]
    assert step.rows((3, "a", 4)) == []
    assert step.rows((3, "a", 8), (3, "a", 16), (3, "a", 32)) == [
        ("a", 0, 10, 4, 15),
        ("a", 0, 10, 6, 63),
    ]
    assert step.time(10) == [("b", 0, 10, 1, 1)], "no row of a has come since"
    assert step.end() == [("a", 10, 20, 1, 4)]
    assert step.operator.pending_rows == 0


def test_a_cleared_window_is_cut_at_exactly_the_count() -> None:
    step = driven(aggregate(counting(2, accumulate=False)))
    assert step.rows((1, "a", 1), (1, "b", 1)) == []
    assert step.rows((2, "a", 2), (12, "a", 4), (2, "a", 4), (1, "a", 8), (1, "a", 16)) == [
        ("a", 0, 10, 2, 3),
        ("a", 0, 10, 2, 12),
    ]
    assert sorted(step.time(10)) == [("a", 0, 10, 1, 16), ("b", 0, 10, 1, 1)]
    assert step.end() == [("a", 10, 20, 1, 4)]


def test_each_window_that_a_row_is_in_counts_for_itself() -> None:
    step = driven(aggregate(counting(2, SIX_EVERY_TWO)))
    assert step.rows((1, "a", 1)) == []
    assert step.rows((3, "a", 2)) == [("a", -2, 4, 2, 3), ("a", 0, 6, 2, 3)]
    assert step.time(4) == [("a", -4, 2, 1, 1)]
    assert step.rows((1, "a", 4)) == []
    assert step.end() == [("a", 0, 6, 3, 7), ("a", 2, 8, 1, 2)]


def test_late_rows_fire_at_once_below_the_count() -> None:
    step = driven(aggregate(counting(3, late=5)))
    step.rows((1, "a", 1))
    assert step.time(10) == [("a", 0, 10, 1, 1)]
    assert step.rows((2, "a", 2)) == [("a", 0, 10, 2, 3)]
    assert step.time(15) == []
    assert step.operator.pending_rows == 0
    step = driven(aggregate(counting(3, late=5, accumulate=False)))
    step.rows((1, "a", 1))
    assert step.time(10) == [("a", 0, 10, 1, 1)]
    assert step.rows((2, "a", 2), (13, "a", 4)) == [("a", 0, 10, 1, 2)]
    assert step.end() == [("a", 10, 20, 1, 4)]


def test_a_global_window_fires_at_each_multiple_of_the_count() -> None:
    step = driven(aggregate(counting(2, Global(), accumulate=False), ()))
    assert step.rows((1, "a", 1), (1, "b", 2), (1, "c", 4), (0, "d", 8)) == [(2, 3), (2, 12)]
    assert step.operator.pending_rows == 0
    step = driven(top(counting(2, Global(), accumulate=False), 1, "-x", key=()))
    assert step.rows((1, "a", 1), (1, "b", 2), (1, "c", 4)) == [("b", 2, 1)]
    assert step.end() == [("c", 4, 1)]


def test_parts_of_one_row_are_in_their_order() -> None:
    frame = frame_of([(1, "a", part * 7 % 50) for part in range(50)])
    same = pl.struct(time=pl.lit(us(1)), at=pl.lit(0, pl.Int64), part=pl.col("x"))
    for evict, first in ((None, 0), (Evict(last=2), 48)):
        step = driven(top(Window(TEN, evict=evict), 2, "k"))
        list(step.operator.process(frame.with_columns(same.alias(ORDER))))
        assert step.end() == [("a", first, 1), ("a", first + 1, 2)]
