"""Alignment of watermarks and barriers over several inputs, with literal elements."""

from __future__ import annotations

import polars as pl

from headrace.core.dataflow.input_aligner import InputAligner
from headrace.core.types.elements import (
    MAX_WATERMARK_US,
    MIN_WATERMARK_US,
    Barrier,
    Batch,
    Element,
    EndOfStream,
    IdleMarker,
    LatencyMarker,
    LoopMarker,
    WatermarkElement,
)

ROW = Batch(pl.DataFrame({"a": [1]}))


def hand_on(alignment: InputAligner, *received: tuple[int, Element]) -> list[list[Element]]:
    """Return the elements handed on for each received element."""
    return [list(alignment.receive(at, element)) for at, element in received]


def test_the_watermark_is_the_least_and_never_goes_back() -> None:
    assert hand_on(
        InputAligner(2),
        (0, WatermarkElement(5)),
        (1, WatermarkElement(3)),
        (1, WatermarkElement(9)),
        (0, WatermarkElement(4)),
        (0, WatermarkElement(7)),
    ) == [[], [WatermarkElement(3)], [WatermarkElement(5)], [], [WatermarkElement(7)]]


def test_an_idle_input_does_not_hold_time_back_until_it_speaks_again() -> None:
    alignment = InputAligner(2)
    assert hand_on(alignment, (0, WatermarkElement(5)), (1, IdleMarker())) == [
        [],
        [WatermarkElement(5)],
    ]
    assert hand_on(alignment, (1, ROW), (0, WatermarkElement(8))) == [[ROW], []]
    assert hand_on(alignment, (1, WatermarkElement(6))) == [[WatermarkElement(6)]]


def test_a_latency_marker_of_an_idle_input_leaves_it_idle() -> None:
    alignment, marker = InputAligner(2), LatencyMarker(0, 7)
    assert hand_on(alignment, (1, IdleMarker()), (1, marker), (0, WatermarkElement(8))) == [
        [],
        [marker],
        [WatermarkElement(8)],
    ]


def test_rows_of_an_input_that_was_idle_do_not_take_time_back() -> None:
    alignment = InputAligner(2)
    assert hand_on(
        alignment, (0, WatermarkElement(5)), (1, WatermarkElement(3)), (1, IdleMarker())
    ) == [
        [],
        [WatermarkElement(3)],
        [WatermarkElement(5)],
    ]
    assert hand_on(alignment, (1, ROW), (0, WatermarkElement(9))) == [[ROW], []]
    assert hand_on(
        alignment, (1, WatermarkElement(4)), (1, WatermarkElement(7)), (1, IdleMarker())
    ) == [
        [],
        [WatermarkElement(7)],
        [WatermarkElement(9)],
    ]


def test_an_input_that_never_had_a_watermark_holds_time_from_its_first_row_on() -> None:
    alignment = InputAligner(2)
    assert hand_on(alignment, (1, IdleMarker()), (0, WatermarkElement(5))) == [
        [],
        [WatermarkElement(5)],
    ]
    assert hand_on(alignment, (1, ROW), (0, WatermarkElement(9)), (1, IdleMarker())) == [
        [ROW],
        [],
        [WatermarkElement(9)],
    ]


def test_all_idle_is_reported_once_and_its_end_by_the_watermark() -> None:
    alignment = InputAligner(2)
    assert hand_on(alignment, (0, IdleMarker()), (1, IdleMarker()), (1, IdleMarker())) == [
        [],
        [IdleMarker()],
        [],
    ]
    assert hand_on(alignment, (0, ROW), (0, ROW), (0, IdleMarker())) == [
        [ROW, WatermarkElement(MIN_WATERMARK_US)],
        [ROW],
        [IdleMarker()],
    ]
    assert hand_on(alignment, (0, WatermarkElement(4)), (0, IdleMarker())) == [
        [WatermarkElement(4)],
        [IdleMarker()],
    ]
    assert hand_on(alignment, (1, WatermarkElement(2)), (1, IdleMarker())) == [
        [WatermarkElement(4)],
        [IdleMarker()],
    ]


def test_an_input_is_not_idle_when_another_one_of_its_origins_resumes() -> None:
    """Of two subtasks of a source, one input reads the first, and another one both."""
    one, both = frozenset({("s", 0)}), frozenset({("s", 0), ("s", 1)})
    alignment = InputAligner(2, origins=(one, both))
    times = [(at, WatermarkElement(5)) for at in range(2)]
    idle = [(at, IdleMarker()) for at in range(2)]
    assert hand_on(alignment, *times, *idle)[-1] == [IdleMarker()]
    assert hand_on(alignment, (0, WatermarkElement(9)), (1, WatermarkElement(8))) == [
        [WatermarkElement(5)],
        [WatermarkElement(8)],
    ]
    assert hand_on(alignment, *idle, (1, WatermarkElement(12)), (0, WatermarkElement(11))) == [
        [],
        [IdleMarker()],
        [WatermarkElement(12)],
        [],
    ]


def test_inputs_of_the_same_origins_are_idle_only_together() -> None:
    same, other = frozenset({("s", 0)}), frozenset({("s", 1)})
    alignment = InputAligner(3, origins=(same, same, other))
    times = [(at, WatermarkElement(5)) for at in range(3)]
    idle = [(at, IdleMarker()) for at in range(3)]
    assert hand_on(alignment, *times, *idle)[-1] == [IdleMarker()]
    assert hand_on(alignment, (0, WatermarkElement(9)), (1, ROW), (1, WatermarkElement(9))) == [
        [WatermarkElement(5)],
        [ROW],
        [WatermarkElement(9)],
    ]
    assert hand_on(alignment, (0, WatermarkElement(12)), (1, IdleMarker()), (0, IdleMarker())) == [
        [],
        [],
        [IdleMarker()],
    ]


def test_an_input_that_ended_waits_for_nobody_and_nobody_for_it() -> None:
    assert hand_on(
        InputAligner(2),
        (0, WatermarkElement(5)),
        (0, EndOfStream()),
        (1, WatermarkElement(3)),
        (1, EndOfStream()),
    ) == [
        [],
        [],
        [WatermarkElement(3)],
        [WatermarkElement(MAX_WATERMARK_US), EndOfStream()],
    ]


def test_the_end_of_all_inputs_is_that_of_a_drain_if_any_was_drained() -> None:
    drained = EndOfStream(is_drained=True)
    for ends in ((drained, EndOfStream()), (EndOfStream(), drained), (drained, drained)):
        handed_on = hand_on(InputAligner(2), *enumerate(ends))
        assert handed_on[-1][-1] == drained
    assert hand_on(InputAligner(1), (0, EndOfStream()))[-1][-1] != drained


def test_an_ended_and_an_idle_input_are_idle_together() -> None:
    alignment = InputAligner(2)
    assert hand_on(
        alignment, (1, IdleMarker()), (0, WatermarkElement(MAX_WATERMARK_US)), (0, EndOfStream())
    ) == [
        [],
        [IdleMarker()],
        [],
    ]
    assert hand_on(alignment, (1, ROW), (1, EndOfStream())) == [
        [ROW, WatermarkElement(MIN_WATERMARK_US)],
        [WatermarkElement(MAX_WATERMARK_US), EndOfStream()],
    ]


def test_the_last_watermark_waits_for_nobody_but_for_all_to_have_it() -> None:
    alignment = InputAligner(2)
    assert hand_on(
        alignment, (0, WatermarkElement(MAX_WATERMARK_US)), (1, WatermarkElement(3))
    ) == [[], [WatermarkElement(3)]]
    assert hand_on(alignment, (1, IdleMarker()), (1, WatermarkElement(MAX_WATERMARK_US))) == [
        [IdleMarker()],
        [WatermarkElement(MAX_WATERMARK_US)],
    ]
    assert hand_on(alignment, (0, EndOfStream()), (1, EndOfStream())) == [[], [EndOfStream()]]


def test_a_barrier_waits_for_the_slower_input_and_blocks_the_faster() -> None:
    alignment = InputAligner(2)
    assert hand_on(alignment, (0, Barrier(1))) == [[]]
    assert alignment.blocked_inputs == {0}
    assert hand_on(alignment, (1, ROW), (1, Barrier(1))) == [[ROW], [Barrier(1)]]
    assert not alignment.blocked_inputs


def test_at_least_once_never_blocks() -> None:
    alignment = InputAligner(2, is_aligned=False)
    assert hand_on(alignment, (0, Barrier(1)), (0, ROW)) == [[], [ROW]]
    assert not alignment.blocked_inputs
    assert hand_on(alignment, (1, Barrier(1))) == [[Barrier(1)]]


def test_an_ended_input_has_sent_every_barrier() -> None:
    alignment = InputAligner(2)
    assert hand_on(alignment, (0, Barrier(1)), (1, EndOfStream())) == [[], [Barrier(1)]]
    assert hand_on(alignment, (0, Barrier(2))) == [[Barrier(2)]]


def test_an_input_without_time_holds_nobody_back() -> None:
    alignment = InputAligner(2, timeless_inputs=frozenset({1}))
    assert hand_on(alignment, (1, ROW), (0, WatermarkElement(5)), (1, ROW)) == [
        [ROW],
        [WatermarkElement(5)],
        [ROW],
    ]
    assert hand_on(alignment, (1, EndOfStream()), (0, WatermarkElement(7)), (0, EndOfStream())) == [
        [],
        [WatermarkElement(7)],
        [WatermarkElement(MAX_WATERMARK_US), EndOfStream()],
    ]


def test_rows_of_a_timeless_input_may_follow_the_end_of_the_others() -> None:
    alignment = InputAligner(2, timeless_inputs=frozenset({1}))
    assert hand_on(
        alignment,
        (0, WatermarkElement(5)),
        (0, WatermarkElement(MAX_WATERMARK_US)),
        (0, EndOfStream()),
    ) == [
        [WatermarkElement(5)],
        [IdleMarker()],
        [IdleMarker()],
    ]
    assert hand_on(alignment, (1, ROW), (1, EndOfStream())) == [
        [ROW, IdleMarker()],
        [WatermarkElement(MAX_WATERMARK_US), EndOfStream()],
    ]


def test_a_marker_waits_for_the_inputs_from_inside_and_tells_of_those_from_outside() -> None:
    alignment = InputAligner(3, loop_inputs={"tries": frozenset({0, 1})})
    one, other = LoopMarker("tries", 4), LoopMarker("tries", 4, is_waiting=True, outside_us=9)
    hand_on(alignment, (2, WatermarkElement(7)))
    assert hand_on(alignment, (0, one), (0, ROW), (1, other)) == [
        [],
        [ROW],
        [LoopMarker("tries", 4, is_waiting=True, is_open=True, outside_us=7)],
    ]
    hand_on(alignment, (2, EndOfStream()))
    assert hand_on(alignment, (1, one), (0, one)) == [[], [one]]


def test_a_marker_of_another_loop_goes_no_further() -> None:
    alignment = InputAligner(2, loop_inputs={"tries": frozenset({0})})
    assert hand_on(alignment, (1, LoopMarker("other", 1))) == [[]]
