"""The waves of a loop, with literal events."""

from __future__ import annotations

from headrace.core.api.splits import SubtaskId
from headrace.core.coordination.loop_waves import LAST_PAUSE_S, LoopWaves
from headrace.core.coordination.messages import (
    BeginLoopWave,
    CoordinatorAction,
    HeldTime,
    LoopTimeHeld,
    LoopWaveReturned,
    ReleaseLoopTime,
)
from headrace.core.types.elements import MAX_WATERMARK_US, LoopMarker

A, B = SubtaskId(1, 0), SubtaskId(1, 1)
ENDED = HeldTime(MAX_WATERMARK_US, has_ended=True)


def begin(held: HeldTime) -> LoopWaves:
    """Return the waves of a loop of two heads that both hold this."""
    loop = LoopWaves("tries", (A, B))
    assert loop.on_time_held(LoopTimeHeld(A, held), 0.0) == []
    assert loop.on_time_held(LoopTimeHeld(B, held), 0.0) == [BeginLoopWave("tries", (A, B), 1)]
    return loop


def bring_back(
    loop: LoopWaves,
    held: HeldTime,
    now: float = 0.0,
    rows: int = 0,
    marker: LoopMarker | None = None,
) -> list[CoordinatorAction]:
    """Bring the markers of the wave back to both heads; rows came back to the first one."""
    marker = marker or LoopMarker("tries", loop.wave)
    first = LoopWaveReturned(A, loop.wave, rows, held, held, marker)
    assert loop.on_wave_returned(first, now) == []
    return loop.on_wave_returned(LoopWaveReturned(B, loop.wave, 0, held, held, marker), now)


def begin_next(loop: LoopWaves) -> None:
    """Begin the next wave at its time."""
    due = loop.next_deadline()
    assert due is not None
    assert loop.tick(due - 0.0001) == []
    wave = loop.wave + 1
    assert loop.tick(due) == [BeginLoopWave("tries", (A, B), wave)]


def test_two_waves_without_rows_release_the_lowest_watermark() -> None:
    loop = LoopWaves("tries", (A, B))
    low, high = HeldTime(10), HeldTime(30)
    loop.on_time_held(LoopTimeHeld(A, low), 0.0)
    loop.on_time_held(LoopTimeHeld(B, high), 0.0)
    for released in ([], [ReleaseLoopTime("tries", (A, B), 10, is_end=False)]):
        marker = LoopMarker("tries", loop.wave)
        loop.on_wave_returned(LoopWaveReturned(A, loop.wave, 0, low, low, marker), 0.0)
        back = LoopWaveReturned(B, loop.wave, 0, high, high, marker)
        assert loop.on_wave_returned(back, 0.0) == released
        if not released:
            begin_next(loop)
    assert loop.next_deadline() is None


def test_a_row_at_one_head_begins_the_proof_again() -> None:
    loop = begin(ENDED)
    for rows, released in ((0, 0), (1, 0), (0, 0), (0, 1)):
        actions = bring_back(loop, ENDED, rows=rows)
        assert len(actions) == released
        if not released:
            begin_next(loop)
    assert actions == [ReleaseLoopTime("tries", (A, B), MAX_WATERMARK_US, is_end=True)]
    assert loop.next_deadline() is None


def test_what_was_held_when_the_wave_began_is_released() -> None:
    loop = begin(HeldTime(10))
    bring_back(loop, HeldTime(10))
    begin_next(loop)
    marker = LoopMarker("tries", 2)
    for head in (A, B):
        back = LoopWaveReturned(head, 2, 0, HeldTime(10), HeldTime(50), marker)
        actions = loop.on_wave_returned(back, 0.0)
    assert actions == [ReleaseLoopTime("tries", (A, B), 10, is_end=False)]
    assert loop.next_deadline() is not None


def test_the_end_waits_for_inputs_from_outside() -> None:
    loop = begin(ENDED)
    waiting = LoopMarker("tries", 0, is_open=True, outside_us=7)
    bring_back(loop, ENDED, marker=waiting)
    begin_next(loop)
    released = ReleaseLoopTime("tries", (A, B), 7, is_end=False)
    assert bring_back(loop, ENDED, marker=waiting) == [released]
    for _ in range(2):
        begin_next(loop)
        assert bring_back(loop, ENDED, marker=waiting) == []
    for _ in range(2):
        begin_next(loop)
        actions = bring_back(loop, ENDED)
    assert actions == [ReleaseLoopTime("tries", (A, B), MAX_WATERMARK_US, is_end=True)]


def test_waves_are_rare_while_a_class_waits_for_the_wall_clock() -> None:
    loop, now = begin(ENDED), 0.0
    waiting = LoopMarker("tries", 0, is_waiting=True)
    pauses = []
    for _ in range(12):
        assert bring_back(loop, ENDED, now, marker=waiting) == []
        due = loop.next_deadline()
        assert due is not None
        pauses.append(round(due - now, 6))
        now = due
        loop.tick(now)
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAST_PAUSE_S


def test_idle_inputs_hold_nothing_back() -> None:
    loop = LoopWaves("tries", (A, B))
    idle, timed = HeldTime(5, is_idle=True), HeldTime(20)
    loop.on_time_held(LoopTimeHeld(A, idle), 0.0)
    loop.on_time_held(LoopTimeHeld(B, timed), 0.0)
    for _ in range(2):
        marker = LoopMarker("tries", loop.wave)
        loop.on_wave_returned(LoopWaveReturned(A, loop.wave, 0, idle, idle, marker), 0.0)
        back = LoopWaveReturned(B, loop.wave, 0, timed, timed, marker)
        actions = loop.on_wave_returned(back, 0.0)
        if not actions:
            begin_next(loop)
    assert actions == [ReleaseLoopTime("tries", (A, B), 20, is_end=False)]


def test_idleness_of_all_is_released_once() -> None:
    idle = HeldTime(5, is_idle=True)
    loop = begin(idle)
    bring_back(loop, idle)
    begin_next(loop)
    assert bring_back(loop, idle) == [ReleaseLoopTime("tries", (A, B), None, is_end=False)]
    assert loop.next_deadline() is None
    assert loop.on_time_held(LoopTimeHeld(A, idle), 1.0) == []


def test_the_rows_inside_are_those_of_the_last_whole_wave() -> None:
    loop = begin(ENDED)
    assert loop.describe_rows() == ""
    bring_back(loop, ENDED, rows=7)
    begin_next(loop)
    assert loop.describe_rows() == "7 rows go round in the loop of tries"
    bring_back(loop, ENDED)
    assert loop.describe_rows() == ""


def test_a_loop_over_a_table_is_in_a_round() -> None:
    loop = LoopWaves("ranks", (A,))
    loop.on_time_held(LoopTimeHeld(A, HeldTime(12, is_round=True)), 0.0)
    assert loop.describe_rows() == "round 12 goes on in the loop of ranks"


def test_rounds_over_whole_tables_have_no_known_number_once_they_are_released() -> None:
    held = HeldTime(0, is_round=True)
    loop = begin(held)
    bring_back(loop, held)
    assert loop.describe_rows() == ""
    begin_next(loop)
    assert bring_back(loop, held) == [ReleaseLoopTime("tries", (A, B), 0, is_end=False)]
    assert loop.describe_rows() == "rounds go on in the loop of tries"
