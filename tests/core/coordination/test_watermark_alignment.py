"""Watermark alignment, with literal times."""

from __future__ import annotations

from headrace.core.api.splits import SubtaskId
from headrace.core.coordination.watermark_alignment import (
    REPORT_INTERVAL_S,
    WatermarkAlignment,
    WatermarkReporter,
)
from headrace.core.types.elements import MAX_WATERMARK_US

A, B = SubtaskId(0, 0), SubtaskId(0, 1)


def test_the_bound_follows_the_slowest() -> None:
    drift = WatermarkAlignment(10)
    assert drift.update(A, 100) == 110
    assert drift.update(B, 50) == 60
    assert drift.update(A, 105) is None
    assert drift.update(B, 70) == 80
    assert drift.update(B, 200) == 115


def test_a_subtask_that_reads_nothing_holds_nobody() -> None:
    drift = WatermarkAlignment(10)
    assert drift.update(A, None) is None
    drift.update(A, 100)
    assert drift.update(B, 50) == 60
    assert drift.update(B, None) == 110
    assert drift.update(A, None) is None
    assert drift.update(B, 20) == 30


def test_a_bound_is_never_beyond_the_end_of_time() -> None:
    assert WatermarkAlignment(10).update(A, MAX_WATERMARK_US - 1) == MAX_WATERMARK_US


def test_reports_come_now_and_then() -> None:
    reports = WatermarkReporter()
    assert reports.next_report_at(None) is None
    assert reports.next_report_at(5) == 0
    reports.mark_reported(5, now=100)
    assert reports.next_report_at(5) is None
    assert reports.next_report_at(6) == 100 + REPORT_INTERVAL_S
    assert reports.next_report_at(None) == 100 + REPORT_INTERVAL_S


def test_a_subtask_whose_slowest_split_waits_reports_at_once_and_once() -> None:
    reports = WatermarkReporter(limit_us=10)
    reports.mark_reported(5, now=100)
    assert reports.next_report_at(11) == 0
    reports.mark_reported(11, now=100.001)
    assert reports.next_report_at(11) is None
    assert reports.next_report_at(10) == 100.001 + REPORT_INTERVAL_S
