"""The times of the checks for idle splits, and the splits found, with literal times."""

from __future__ import annotations

from headrace.core.api.splits import Split
from headrace.core.sources.watermarks import IdleDetector

A, B = Split("s", "a"), Split("s", "b")


def test_a_split_is_idle_when_it_has_been_exhausted_for_so_long() -> None:
    looks = IdleDetector(30)
    assert (looks.find_idle(100, {A: 75}), looks.next_check_at) == ([], 105)
    assert (looks.find_idle(105, {A: 75}), looks.next_check_at) == ([A], 135)


def test_a_split_that_was_exhausted_between_two_looks_is_found_before_its_time() -> None:
    looks = IdleDetector(30)
    assert (looks.find_idle(100, {}), looks.next_check_at) == ([], 130)
    assert (looks.find_idle(130, {A: 101, B: 129}), looks.next_check_at) == ([], 131)
    assert (looks.find_idle(131, {A: 101, B: 129}), looks.next_check_at) == ([A], 159)
    assert looks.find_idle(159, {A: 101, B: 129}) == [A, B]


def test_a_split_exhausted_again_is_not_idle() -> None:
    looks = IdleDetector(30)
    assert looks.find_idle(100, {A: 70}) == [A]
    assert looks.find_idle(130, {A: 110}) == []


def test_one_does_not_look_without_pause() -> None:
    looks = IdleDetector(0)
    assert (looks.find_idle(100, {A: 100}), looks.next_check_at) == ([A], 100.01)
