"""Timelines of jobs: rates between samples, the use of processes, and the bound of samples."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.control.job_socket import open_listener
from headrace.cli.server import timelines
from headrace.cli.server.timelines import (
    MAX_SAMPLES,
    JobTimeline,
    ProcessUse,
    Timelines,
    measure_processes,
)
from headrace.state.storage.names import LOCK

IDLE = ProcessUse({}, 0)


def statistics(rows_in: int, rows_out: int = 0, **more: Any) -> dict[str, Any]:
    """The answer of a job with a source and a sink, as far as samples need it."""
    source = {"kind": "source", "rows_in": rows_in, "rows_out": rows_in, "bad": 2, "late": None}
    sink = {"kind": "sink", "rows_in": rows_out, "rows_out": rows_out, "bad": 0, "late": 3}
    return {
        "parts": {"a": source | {"lag_s": 4.5}, "b": sink | {"lag_s": None} | more},
        "subtasks": [{"busy": 0.25, "backpressured": 0.5}, {"busy": 0.75, "backpressured": 0.0}],
        "state": {"rows": 1, "bytes": 100, "bytes_on_disk": 20},
    }


def test_rates_are_between_two_samples() -> None:
    timeline = JobTimeline()
    timeline.add(10.0, statistics(100, 10), ProcessUse({7: 1.0}, 50))
    timeline.add(15.0, statistics(200, 60), ProcessUse({7: 3.5, 8: 9.0}, 60))
    found = timeline.build_document()
    assert found["time"] == [10.0, 15.0]
    assert (found["in_per_s"], found["out_per_s"]) == ([None, 20.0], [None, 10.0])
    assert (found["cpu"], found["rss_bytes"]) == ([None, 0.5], [50, 60])
    assert (found["lag_s"][1], found["busy"][1], found["backpressured"][1]) == (4.5, 0.75, 0.5)
    assert (found["state_bytes"][1], found["bad"][1], found["late"][1]) == (120, 2, 3)


def test_a_restart_that_resets_counts_is_no_negative_rate() -> None:
    timeline = JobTimeline()
    timeline.add(10.0, statistics(100), IDLE)
    timeline.add(15.0, statistics(40), IDLE)
    assert timeline.build_document()["in_per_s"] == [None, 0.0]


def test_the_slowest_latency_is_shown_where_it_is_measured() -> None:
    timeline = JobTimeline()
    timeline.add(10.0, statistics(1), IDLE)
    latency = {"a": {"p50_s": 0.1, "p99_s": 0.4}, "c": {"p50_s": 0.2, "p99_s": 0.3}}
    timeline.add(15.0, statistics(2, latency=latency), IDLE)
    found = timeline.build_document()
    assert (found["latency_p50_s"], found["latency_p99_s"]) == ([None, 0.2], [None, 0.4])


def test_the_oldest_samples_make_room() -> None:
    timeline = JobTimeline()
    for at in range(MAX_SAMPLES + 5):
        timeline.add(float(at), statistics(at), IDLE)
    times = timeline.build_document()["time"]
    assert (len(times), times[0]) == (MAX_SAMPLES, 5.0)


def test_without_samples_all_lists_are_empty() -> None:
    found = JobTimeline().build_document()
    assert found.pop("interval_s") == 5.0
    assert set(map(len, found.values())) == {0}


def test_this_process_is_measured_and_one_that_has_ended_is_not() -> None:
    found = measure_processes([os.getpid(), 2**22 + 1])
    assert [*found.seconds] == [os.getpid()]
    assert found.seconds[os.getpid()] > 0
    assert found.rss_bytes > 2**20


def test_a_job_that_does_not_answer_holds_up_one_round_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "SAMPLE_INTERVAL_S", 0.05)
    silent = tmp_path / "silent"
    silent.mkdir()
    (silent / LOCK).touch()
    found = Timelines(str(tmp_path), report_bug=lambda error: None)

    async def sample() -> None:
        # A job that is asked without a bound answers, or fails, after more than a minute.
        async with asyncio.timeout(60.0):
            await found.sample_all()

    with open_listener(str(silent)):
        asyncio.run(sample())
    assert found.by_job == {}
