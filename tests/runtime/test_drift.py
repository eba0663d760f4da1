"""Watermark alignment, with literal times."""

from __future__ import annotations

from headrace.core.drift import EVERY_S, Drift, Reports
from headrace.core.elements import FOREVER_US
from headrace.core.messages import SubtaskId

A, B = SubtaskId(0, 0), SubtaskId(0, 1)


def test_the_bound_follows_the_slowest() -> None:
    drift = Drift(10)
    assert drift.reported(A, 100) == 110
    assert drift.reported(B, 50) == 60
    assert drift.reported(A, 105) is None
    assert drift.reported(B, 70) == 80
    assert drift.reported(B, 200) == 115


def test_a_subtask_that_reads_nothing_holds_nobody() -> None:
    drift = Drift(10)
    assert drift.reported(A, None) is None
    drift.reported(A, 100)
    assert drift.reported(B, 50) == 60
    assert drift.reported(B, None) == 110
    assert drift.reported(A, None) is None
    assert drift.reported(B, 20) == 30


def test_a_bound_is_never_beyond_the_end_of_time() -> None:
    assert Drift(10).reported(A, FOREVER_US - 1) == FOREVER_US


def test_reports_come_now_and_then() -> None:
    reports = Reports()
    assert reports.due(None) is None
    assert reports.due(5) == 0
    reports.told(5, now=100)
    assert reports.due(5) is None
    assert reports.due(6) == 100 + EVERY_S
    assert reports.due(None) == 100 + EVERY_S


def test_a_subtask_whose_slowest_split_waits_reports_at_once_and_once() -> None:
    reports = Reports(until_us=10)
    reports.told(5, now=100)
    assert reports.due(11) == 0
    reports.told(11, now=100.001)
    assert reports.due(11) is None
    assert reports.due(10) == 100.001 + EVERY_S
