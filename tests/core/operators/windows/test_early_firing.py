"""Windows that fire before their end, or by the wall clock: literal times, in seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import polars as pl
import pytest

from headrace.core.operators.windows import pane_expander, row_trigger_windows
from headrace.core.operators.windows.grid import Grid
from headrace.core.plan.nodes.windows import Cumulate, Global, Slide, Trigger, Tumble, Window
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US
from tests.support.runtime.window_operators import aggregate, driven, frame_of, shown, us

TEN = Tumble(us(10))
EVERY_TWO = Trigger(every_us=us(2))


def test_everything_is_one_window_that_ends_with_the_stream() -> None:
    step = driven(aggregate(Window(Global())))
    step.rows((7, "a", 1), (-9, "b", 2))
    assert step.time(1000) == []
    assert step.rows((3, "a", 4)) == []
    ((_, frame),) = list(step.operator.advance(MAX_WATERMARK_US))
    assert frame.columns == ["k", "n", "x", EVENT_TIME]
    assert sorted(frame.drop(EVENT_TIME).rows()) == [("a", 2, 5), ("b", 1, 2)]
    assert frame.sort("k")[EVENT_TIME].dt.epoch("us").to_list() == [us(7), us(-9)]
    assert step.operator.pending_rows == 0


def test_everything_needs_no_event_time() -> None:
    step = driven(aggregate(Window(Global()), ()))
    list(step.operator.process(frame_of([(7, "a", 1)]).drop(EVENT_TIME)))
    ((_, frame),) = list(step.operator.advance(MAX_WATERMARK_US))
    assert frame.rows() == [(1, 1)]


def test_a_periodic_trigger_emits_changed_windows() -> None:
    step = driven(aggregate(Window(TEN, trigger=EVERY_TWO)))
    step.rows((1, "a", 1), (1, "b", 1), (11, "a", 5))
    assert sorted(step.time(1.9)) == [("a", 0, 10, 1, 1), ("a", 10, 20, 1, 5), ("b", 0, 10, 1, 1)]
    step.rows((3, "a", 2))
    assert step.time(4) == [("a", 0, 10, 2, 3)]
    assert step.time(8) == []
    step.rows((9, "b", 2))
    assert sorted(step.time(10)) == [("a", 0, 10, 2, 3), ("b", 0, 10, 2, 3)]
    assert step.end() == [("a", 10, 20, 1, 5)]


def test_a_window_may_be_cleared_after_firing() -> None:
    step = driven(aggregate(Window(TEN, trigger=EVERY_TWO, keeps_rows=False)))
    step.time(0)
    step.rows((1, "a", 1), (11, "a", 5))
    assert step.time(2) == [("a", 0, 10, 1, 1), ("a", 10, 20, 1, 5)]
    step.rows((9, "a", 2))
    assert step.time(9) == [("a", 0, 10, 1, 2)]
    step.rows((9, "a", 3), (11, "a", 7))
    assert step.time(10) == [("a", 0, 10, 1, 3), ("a", 10, 20, 1, 7)]
    assert step.end() == []


def test_every_window_with_a_changed_pane_is_emitted() -> None:
    step = driven(aggregate(Window(Slide(us(6), us(3)), trigger=EVERY_TWO)))
    step.rows((1, "a", 1), (4, "a", 2))
    assert step.time(2) == [("a", -3, 3, 1, 1), ("a", 0, 6, 2, 3), ("a", 3, 9, 1, 2)]
    step.rows((5, "a", 4))
    assert step.time(4) == [("a", -3, 3, 1, 1), ("a", 0, 6, 3, 7), ("a", 3, 9, 2, 6)]
    assert step.end() == [("a", 0, 6, 3, 7), ("a", 3, 9, 2, 6)]


def test_shared_panes_are_cleared_for_all_windows() -> None:
    window = Window(Slide(us(6), us(3)), trigger=EVERY_TWO, keeps_rows=False)
    step = driven(aggregate(window))
    step.time(0)
    step.rows((1, "a", 1), (4, "a", 2))
    assert step.time(2) == [("a", -3, 3, 1, 1), ("a", 0, 6, 2, 3), ("a", 3, 9, 1, 2)]
    step.rows((5, "a", 4))
    assert step.time(3) == []
    assert step.end() == [("a", 0, 6, 1, 4), ("a", 3, 9, 1, 4)]


def test_what_was_cleared_is_not_merged_from_window_to_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pane_expander, "CALL_COST_ROWS", -1_000_000)
    window = Window(Slide(us(6), us(2)), trigger=EVERY_TWO, keeps_rows=False)
    step = driven(aggregate(window))
    step.time(0)
    step.rows((1, "a", 1))
    assert step.time(2) == [("a", -4, 2, 1, 1), ("a", -2, 4, 1, 1), ("a", 0, 6, 1, 1)]
    step.rows((3, "a", 2))
    assert step.time(4) == [("a", -2, 4, 1, 2), ("a", 0, 6, 1, 2), ("a", 2, 8, 1, 2)]
    step.rows((5, "a", 4))
    assert step.time(6) == [("a", 0, 6, 1, 4), ("a", 2, 8, 1, 4), ("a", 4, 10, 1, 4)]


@pytest.mark.parametrize("accumulate", [True, False])
def test_rows_of_many_windows_are_spread_over_them_in_bounded_pieces(
    monkeypatch: pytest.MonkeyPatch, accumulate: bool
) -> None:
    monkeypatch.setattr(pane_expander, "CHUNK_ROWS", 8)
    sizes = []

    def noted(grid: Grid, rows: pl.DataFrame, closed_us: int) -> Iterator[pl.DataFrame]:
        for expanded in pane_expander.expand_rows(grid, rows, closed_us):
            sizes.append(expanded.height)
            yield expanded

    monkeypatch.setattr(row_trigger_windows, "expand_rows", noted)
    window = Window(Slide(us(6), us(2)), trigger=Trigger(count=2), keeps_rows=accumulate)
    step = driven(aggregate(window))
    came = step.rows(*[(at % 9, "a", at) for at in range(40)])
    assert sum(sizes) == 40 * 3 and max(sizes) <= 8
    counts = Counter[object]()
    for _, start, _, n, _ in [*came, *step.end()]:
        assert isinstance(n, int)
        counts[start] = n if accumulate else counts[start] + n  # the last one counts, or all do
    assert counts == {-4: 10, -2: 20, 0: 28, 2: 26, 4: 20, 6: 12, 8: 4}


def test_a_global_window_is_emitted_periodically() -> None:
    step = driven(aggregate(Window(Global(), trigger=EVERY_TWO)))
    step.time(0)
    step.rows((1, "a", 1), (1, "b", 1))
    assert sorted(step.time(2)) == [("a", 1, 1), ("b", 1, 1)]
    step.rows((1, "a", 1))
    assert step.time(3) == []
    assert step.time(4) == [("a", 2, 2)]
    assert sorted(step.end()) == [("a", 2, 2), ("b", 1, 1)]


def test_a_trigger_of_the_wall_clock_rings_every_so_often() -> None:
    trigger = Trigger(every_us=us(2), uses_processing_time=True)
    step = driven(aggregate(Window(TEN, trigger=trigger)))
    assert step.operator.next_tick_us() is None
    step.rows((1, "a", 1))
    assert step.operator.next_tick_us() == us(2)
    assert step.tick(2) == [("a", 0, 10, 1, 1)]
    assert step.operator.next_tick_us() is None, "nothing has changed"
    assert step.tick(5) == []
    step.rows((2, "b", 1))
    assert step.operator.next_tick_us() == us(6)
    assert step.tick(7) == [("b", 0, 10, 1, 1)]
    assert sorted(step.end()) == [("a", 0, 10, 1, 1), ("b", 0, 10, 1, 1)]


def test_by_the_wall_clock_a_row_belongs_to_when_it_comes() -> None:
    step = driven(aggregate(Window(TEN, uses_processing_time=True)))
    step.now_us = us(101)
    assert step.rows((5, "a", 1), (500, "a", 2)) == []
    assert step.operator.next_tick_us() == us(110)
    assert step.time(1000) == []
    step.now_us = us(109)
    step.rows((0, "a", 4))
    ((_, frame),) = list(step.operator.tick(us(110)))
    assert list(shown("out", frame)) == [("a", 100, 110, 3, 7)]
    assert EVENT_TIME not in frame.columns
    assert step.operator.next_tick_us() is None
    step.now_us = us(105)  # the clock was set back
    step.rows((0, "a", 8))
    assert step.tick(115) == []
    assert step.end() == [("a", 110, 120, 1, 8)]


def test_windows_of_the_wall_clock_slide_and_fire_early() -> None:
    step = driven(aggregate(Window(Slide(us(4), us(2)), uses_processing_time=True)))
    step.now_us = us(1)
    step.rows((5, "a", 1))
    assert step.operator.next_tick_us() == us(2)
    assert step.tick(2) == [("a", -2, 2, 1, 1)]
    assert step.operator.next_tick_us() == us(4)
    assert step.tick(5) == [("a", 0, 4, 1, 1)]
    step = driven(
        aggregate(Window(Cumulate(us(8), us(4)), uses_processing_time=True, trigger=EVERY_TWO))
    )
    step.now_us = us(1)
    step.rows((5, "a", 1))
    assert step.operator.next_tick_us() == us(2)
    assert step.tick(2) == [("a", 0, 4, 1, 1), ("a", 0, 8, 1, 1)]
    assert step.operator.next_tick_us() == us(4)
    assert step.tick(4) == [("a", 0, 4, 1, 1)]
    assert step.tick(8) == [("a", 0, 8, 1, 1)]
