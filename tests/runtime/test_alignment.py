"""Alignment of watermarks and barriers over several inputs, with literal elements."""

from __future__ import annotations

import polars as pl

from headrace.core.alignment import BEGINNING_US, Alignment
from headrace.core.elements import (
    FOREVER_US,
    Barrier,
    Batch,
    Element,
    End,
    Idle,
    Watermark,
)

ROW = Batch(pl.DataFrame({"a": [1]}))


def hand_on(alignment: Alignment, *received: tuple[int, Element]) -> list[list[Element]]:
    """Return the elements handed on for each received element."""
    return [list(alignment.receive(at, element)) for at, element in received]


def test_the_watermark_is_the_least_and_never_goes_back() -> None:
    assert hand_on(
        Alignment(2),
        (0, Watermark(5)),
        (1, Watermark(3)),
        (1, Watermark(9)),
        (0, Watermark(4)),
        (0, Watermark(7)),
    ) == [[], [Watermark(3)], [Watermark(5)], [], [Watermark(7)]]


def test_an_idle_input_does_not_hold_time_back_until_it_speaks_again() -> None:
    alignment = Alignment(2)
    assert hand_on(alignment, (0, Watermark(5)), (1, Idle())) == [[], [Watermark(5)]]
    assert hand_on(alignment, (1, ROW), (0, Watermark(8))) == [[ROW], []]
    assert hand_on(alignment, (1, Watermark(6))) == [[Watermark(6)]]


def test_rows_of_an_input_that_was_idle_do_not_take_time_back() -> None:
    alignment = Alignment(2)
    assert hand_on(alignment, (0, Watermark(5)), (1, Watermark(3)), (1, Idle())) == [
        [],
        [Watermark(3)],
        [Watermark(5)],
    ]
    assert hand_on(alignment, (1, ROW), (0, Watermark(9))) == [[ROW], []]
    assert hand_on(alignment, (1, Watermark(4)), (1, Watermark(7)), (1, Idle())) == [
        [],
        [Watermark(7)],
        [Watermark(9)],
    ]


def test_an_input_that_never_had_a_watermark_holds_time_from_its_first_row_on() -> None:
    alignment = Alignment(2)
    assert hand_on(alignment, (1, Idle()), (0, Watermark(5))) == [[], [Watermark(5)]]
    assert hand_on(alignment, (1, ROW), (0, Watermark(9)), (1, Idle())) == [
        [ROW],
        [],
        [Watermark(9)],
    ]


def test_all_idle_is_reported_once_and_its_end_by_the_watermark() -> None:
    alignment = Alignment(2)
    assert hand_on(alignment, (0, Idle()), (1, Idle()), (1, Idle())) == [[], [Idle()], []]
    assert hand_on(alignment, (0, ROW), (0, ROW), (0, Idle())) == [
        [ROW, Watermark(BEGINNING_US)],
        [ROW],
        [Idle()],
    ]
    assert hand_on(alignment, (0, Watermark(4)), (0, Idle())) == [[Watermark(4)], [Idle()]]
    assert hand_on(alignment, (1, Watermark(2)), (1, Idle())) == [[Watermark(4)], [Idle()]]


def test_an_input_that_ended_waits_for_nobody_and_nobody_for_it() -> None:
    assert hand_on(Alignment(2), (0, Watermark(5)), (0, End()), (1, Watermark(3)), (1, End())) == [
        [],
        [],
        [Watermark(3)],
        [Watermark(FOREVER_US), End()],
    ]


def test_an_ended_input_beside_an_idle_one_is_idle_not_over() -> None:
    alignment = Alignment(2)
    assert hand_on(alignment, (1, Idle()), (0, Watermark(FOREVER_US)), (0, End())) == [
        [],
        [Idle()],
        [],
    ]
    assert hand_on(alignment, (1, ROW), (1, End())) == [
        [ROW, Watermark(BEGINNING_US)],
        [Watermark(FOREVER_US), End()],
    ]


def test_the_last_watermark_waits_for_nobody_but_for_all_to_have_it() -> None:
    alignment = Alignment(2)
    assert hand_on(alignment, (0, Watermark(FOREVER_US)), (1, Watermark(3))) == [[], [Watermark(3)]]
    assert hand_on(alignment, (1, Idle()), (1, Watermark(FOREVER_US))) == [
        [Idle()],
        [Watermark(FOREVER_US)],
    ]
    assert hand_on(alignment, (0, End()), (1, End())) == [[], [End()]]


def test_a_barrier_waits_for_the_slower_input_and_blocks_the_faster() -> None:
    alignment = Alignment(2)
    assert hand_on(alignment, (0, Barrier(1))) == [[]]
    assert alignment.blocked == {0}
    assert hand_on(alignment, (1, ROW), (1, Barrier(1))) == [[ROW], [Barrier(1)]]
    assert not alignment.blocked


def test_at_least_once_never_blocks() -> None:
    alignment = Alignment(2, aligned=False)
    assert hand_on(alignment, (0, Barrier(1)), (0, ROW)) == [[], [ROW]]
    assert not alignment.blocked
    assert hand_on(alignment, (1, Barrier(1))) == [[Barrier(1)]]


def test_an_ended_input_has_sent_every_barrier() -> None:
    alignment = Alignment(2)
    assert hand_on(alignment, (0, Barrier(1)), (1, End())) == [[], [Barrier(1)]]
    assert hand_on(alignment, (0, Barrier(2))) == [[Barrier(2)]]


def test_an_input_without_time_holds_nobody_back() -> None:
    alignment = Alignment(2, timeless=frozenset({1}))
    assert hand_on(alignment, (1, ROW), (0, Watermark(5)), (1, ROW)) == [
        [ROW],
        [Watermark(5)],
        [ROW],
    ]
    assert hand_on(alignment, (1, End()), (0, Watermark(7)), (0, End())) == [
        [],
        [Watermark(7)],
        [Watermark(FOREVER_US), End()],
    ]


def test_rows_without_time_that_come_behind_the_others_are_not_the_end_of_time() -> None:
    alignment = Alignment(2, timeless=frozenset({1}))
    assert hand_on(alignment, (0, Watermark(5)), (0, Watermark(FOREVER_US)), (0, End())) == [
        [Watermark(5)],
        [Idle()],
        [Idle()],
    ]
    assert hand_on(alignment, (1, ROW), (1, End())) == [
        [ROW, Idle()],
        [Watermark(FOREVER_US), End()],
    ]
