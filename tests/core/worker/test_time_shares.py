"""Time shares between samples, with literal times."""

from __future__ import annotations

import pytest

from headrace.core.worker.time_shares import (
    TaskTime,
    TimeShares,
    TimeShareSampler,
    compute_shares,
    make_task_time,
)


@pytest.mark.parametrize(
    ("seconds", "waited_s", "blocked_s", "busy_s"),
    [(10.0, 4.0, 1.0, 5.0), (10.0, 10.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0), (1.0, 0.9, 0.2, 0.0)],
)
def test_what_is_not_waited_is_worked(
    seconds: float, waited_s: float, blocked_s: float, busy_s: float
) -> None:
    assert make_task_time(seconds, waited_s, blocked_s) == TaskTime(busy_s, waited_s, blocked_s)


@pytest.mark.parametrize(
    ("now", "seconds"),
    [
        (TaskTime(3.0, 2.0, 5.0), 10.0),
        (TaskTime(7.0, 0.0, 7.0), 10.0),  # clocks are not read at the same instant
        (TaskTime(20.0, 0.0, 0.0), 10.0),
        (TaskTime(), 10.0),
        (TaskTime(), 0.0),
    ],
)
def test_shares_add_up_to_one_and_none_is_negative(now: TaskTime, seconds: float) -> None:
    seen = compute_shares(TaskTime(), now, seconds)
    assert seen.busy + seen.idle + seen.backpressured == pytest.approx(1.0)
    assert min(seen.busy, seen.idle, seen.backpressured) >= 0


def test_a_look_sees_what_was_since_the_last() -> None:
    looks = TimeShareSampler[str](min_interval_s=1.0)
    assert looks.sample(10.0, {"a": TaskTime(2, 0, 2)}) == {"a": TimeShares(0.5, 0.0, 0.5)}
    assert looks.sample(20.0, {"a": TaskTime(3, 9, 2)}) == {"a": TimeShares(0.1, 0.9, 0.0)}
    assert looks.sample(30.0, {"a": TaskTime(13, 9, 2)}) == {"a": TimeShares(1.0, 0.0, 0.0)}


def test_two_who_look_at_once_see_the_same() -> None:
    looks = TimeShareSampler[str](min_interval_s=1.0)
    looks.sample(10.0, {"a": TaskTime(10, 0, 0)})
    assert looks.sample(20.0, {"a": TaskTime(15, 5, 0)}) == {"a": TimeShares(0.5, 0.5, 0.0)}
    assert looks.sample(20.0, {"a": TaskTime(15, 5, 0)}) == {"a": TimeShares(0.5, 0.5, 0.0)}
    assert looks.sample(20.5, {"a": TaskTime(15, 5.5, 0)})["a"].busy == pytest.approx(5 / 10.5)


def test_a_second_sample_just_after_the_first_has_all_shares() -> None:
    looks = TimeShareSampler[str](min_interval_s=1.0)
    looks.sample(10.0, {"a": TaskTime(10, 0, 0)})
    assert looks.sample(10.5, {"a": TaskTime(10, 0.5, 0)})["a"].busy == pytest.approx(10 / 10.5)


def test_new_subtasks_count_from_their_start_and_ended_ones_are_idle() -> None:
    looks = TimeShareSampler[str](min_interval_s=1.0)
    looks.sample(10.0, {"a": TaskTime(10, 0, 0)})
    seen = looks.sample(20.0, {"a": TaskTime(12, 0, 0), "b": TaskTime(1, 0, 1)})
    assert seen == {"a": TimeShares(0.2, 0.8, 0.0), "b": TimeShares(0.5, 0.0, 0.5)}


@pytest.mark.parametrize(
    ("blocked", "word"),
    [(0.0, "ok"), (0.10, "ok"), (0.11, "low"), (0.50, "low"), (0.51, "high"), (1.0, "high")],
)
def test_backpressure_has_a_word(blocked: float, word: str) -> None:
    assert TimeShares(0.0, 1 - blocked, blocked).backpressure == word
