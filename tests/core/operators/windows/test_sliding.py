"""Windows that share panes: sliding and cumulating ones, with literal times in seconds."""

from __future__ import annotations

import pytest

from headrace.core.operators.windows import pane_expander
from headrace.core.plan.nodes.windows import Cumulate, Slide, Window
from tests.support.runtime.window_operators import Row, aggregate, driven, us

SIX_EVERY_TWO = Window(Slide(us(6), us(2)))


@pytest.fixture(params=[20_000, -1_000_000], ids=["spread", "trailing"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways in which windows that share panes are made."""
    monkeypatch.setattr(pane_expander, "CALL_COST_ROWS", request.param)


def test_a_row_is_in_every_window_over_it() -> None:
    step = driven(aggregate(SIX_EVERY_TWO))
    step.rows((1, "a", 1), (3, "a", 2))
    assert step.time(1.9) == []
    assert step.time(2) == [("a", -4, 2, 1, 1)]
    assert step.time(7) == [("a", -2, 4, 2, 3), ("a", 0, 6, 2, 3)]
    assert step.time(8) == [("a", 2, 8, 1, 2)]
    assert step.end() == []
    assert step.operator.pending_rows == 0


def test_size_need_not_be_a_multiple_of_the_slide() -> None:
    step = driven(aggregate(Window(Slide(us(5), us(2), us(1)))))
    step.rows((0, "a", 1), (1, "a", 2), (6, "b", 4))
    assert step.end() == [
        ("a", -3, 2, 2, 3),
        ("a", -1, 4, 2, 3),
        ("a", 1, 6, 1, 2),
        ("b", 3, 8, 1, 4),
        ("b", 5, 10, 1, 4),
    ]


def test_rows_between_windows_are_nobodys() -> None:
    step = driven(aggregate(Window(Slide(us(2), us(10)), late_to="late")))
    assert step.rows((1, "a", 1), (2, "a", 2), (9.9, "a", 3), (11, "a", 4)) == []
    assert step.time(5) == [("a", 0, 2, 1, 1)]
    assert step.rows((1, "a", 5), (3, "a", 6)) == [("late", "a", 5)]
    assert step.state.counters.late == 1
    assert step.end() == [("a", 10, 12, 1, 4)]


def test_a_row_that_is_late_for_some_windows_counts_in_the_others() -> None:
    step = driven(aggregate(SIX_EVERY_TWO))
    step.rows((3, "a", 1))
    assert step.time(4) == [("a", -2, 4, 1, 1)]
    assert step.rows((2, "a", 10)) == []
    assert step.time(6) == [("a", 0, 6, 2, 11)]
    assert step.time(8) == [("a", 2, 8, 2, 11)]
    assert step.rows((2, "a", 100)) == []
    assert step.state.counters.late == 1


def test_lateness_puts_out_again_the_windows_that_changed() -> None:
    step = driven(aggregate(Window(Slide(us(6), us(2)), lateness_us=us(3), late_to="late")))
    step.rows((3, "a", 1), (3, "b", 7))
    assert sorted(step.time(6)) == [
        ("a", -2, 4, 1, 1), ("a", 0, 6, 1, 1), ("b", -2, 4, 1, 7), ("b", 0, 6, 1, 7)
    ]  # fmt: skip
    assert step.rows((2, "a", 10)) == [("a", -2, 4, 2, 11), ("a", 0, 6, 2, 11)]
    assert sorted(step.time(8)) == [("a", 2, 8, 2, 11), ("b", 2, 8, 1, 7)]
    assert step.rows((2, "a", 100), (-1, "c", 5)) == [
        ("late", "c", 5),
        ("a", 0, 6, 3, 111),
        ("a", 2, 8, 3, 111),
    ]
    assert step.time(11) == []
    assert step.operator.pending_rows == 0


def test_lateness_without_accumulating_puts_out_what_came_since() -> None:
    window = Window(Slide(us(6), us(2)), lateness_us=us(3), keeps_rows=False)
    step = driven(aggregate(window))
    step.rows((3, "a", 1))
    assert step.time(6) == [("a", -2, 4, 1, 1), ("a", 0, 6, 1, 1)]
    assert step.rows((2, "a", 10)) == [("a", -2, 4, 1, 10), ("a", 0, 6, 1, 10)]
    assert step.time(8) == [("a", 2, 8, 2, 11)]


def test_cumulating_windows_grow_from_a_common_start() -> None:
    step = driven(aggregate(Window(Cumulate(us(6), us(2)))))
    step.rows((1, "a", 1), (3, "a", 2), (7, "a", 4))
    assert step.time(2) == [("a", 0, 2, 1, 1)]
    step.rows((0, "b", 8))
    assert sorted(step.time(6)) == [
        ("a", 0, 4, 2, 3), ("a", 0, 6, 2, 3), ("b", 0, 4, 1, 8), ("b", 0, 6, 1, 8)
    ]  # fmt: skip
    assert step.rows((5, "b", 1)) == []
    assert step.state.counters.late == 1
    assert step.end() == [("a", 6, 8, 1, 4), ("a", 6, 10, 1, 4), ("a", 6, 12, 1, 4)]


def test_only_windows_with_rows_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pane_expander, "CHUNK_WINDOWS", 3)
    monkeypatch.setattr(pane_expander, "CHUNK_ROWS", 5)
    century = 100 * 365 * 86400
    step = driven(aggregate(SIX_EVERY_TWO))
    rows: list[Row] = [(at * century, key, at) for at in (-3, 0, 2) for key in ("a", "b")]
    step.rows(*rows)
    expected = [
        (key, end - 6, end, 1, at)
        for at in (-3, 0, 2)
        for end in (at * century + 2, at * century + 4, at * century + 6)
        for key in ("a", "b")
    ]
    assert sorted(step.end(), key=lambda row: (row[2], row[0])) == expected
