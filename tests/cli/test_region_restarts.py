"""Regions that restart alone when their worker is killed, while those of the other worker go on."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tests.support.cli.worker_jobs import (
    AT_ONCE,
    LONGEST_S,
    read_events,
    read_rows,
    running_job,
    wait_for_events,
)

REGIONS = """\
name: regions
sources:
  numbers: {generate: {rows: 24000, rate: 3000/s, columns: {x: id}}}
  others: {generate: {rows: 9600, rate: 1200/s, columns: {x: id, key: id % 7}}}
steps:
  even:
    from: numbers
    where: x % 2 = 0
    map: {python: doubled.py:double, mode: row, returns: {x: bigint, y: bigint}}
    on_error: {to: failed}
  totals: {from: others, key: key, aggregate: {n: count(*), highest: max(x)}}
sinks:
  out: {from: even, files: {path: out}}
  bad: {from: failed, files: {path: bad}}
  sums: {from: totals, files: {path: sums}}
settings:
  workers: 2
  parallelism: 1
  checkpoint: {every: 300ms}
  restart: {strategy: fixed, attempts: 50, delay: 100ms}
"""
"""Two graphs: the steps with state and without are each on one worker."""

DOUBLED = """\
def double(row):
    if row["x"] % 1000 == 0:
        raise ValueError("round")
    return {"x": row["x"], "y": row["x"] * 2}
"""

FILTERED = """\
name: filtered
sources:
  numbers: {generate: {rows: 24000, rate: 3000/s, columns: {x: id}}}
steps:
  even: {from: numbers, where: x % 2 = 0}
sinks:
  out: {from: even, files: {path: out}}
settings:
  workers: 2
  checkpoint: {every: 300ms}
  restart: {strategy: none}
"""


def kill(folder: Path, worker: int, restarts: int) -> None:
    """Kill a worker after a checkpoint, and wait until its regions have restarted so often."""
    wait_for_events(folder, "checkpoint", 1 + len(read_events(folder, "checkpoint")))
    pids = {event["worker"]: event["pid"] for event in read_events(folder, "worker_started")}
    os.kill(pids[worker], signal.SIGKILL)
    wait_for_events(folder, "region_restarted", restarts)


def check_job(folder: Path, job: subprocess.Popen[str], restarts: int) -> None:
    """Check that the job ends, without having restarted as a whole."""
    assert job.wait(LONGEST_S) == 0
    assert not read_events(folder, "restarting")
    assert len(read_events(folder, "worker_started")) == 2 + restarts


def test_rows_states_and_counters_go_on_while_both_workers_are_killed(tmp_path: Path) -> None:
    (tmp_path / "doubled.py").write_text(DOUBLED)
    with running_job(tmp_path, REGIONS) as job:
        wait_for_events(tmp_path, "worker_started", 2)
        for restarts, worker in enumerate((1, 2, 2, 1), start=1):
            kill(tmp_path, worker, restarts)
        check_job(tmp_path, job, 4)
    rows = sorted(row["x"] for row in read_rows(tmp_path / "out"))
    assert rows == [x for x in range(0, 24000, 2) if x % 1000]
    assert len(read_rows(tmp_path / "bad")) == 24
    totals: dict[int, tuple[int, int]] = {}
    for row in read_rows(tmp_path / "sums"):
        totals[row["key"]] = max(totals.get(row["key"], (0, 0)), (row["n"], row["highest"]))
    numbers = {key: range(key, 9600, 7) for key in range(7)}
    assert totals == {key: (len(each), each[-1]) for key, each in numbers.items()}
    (summary,) = read_events(tmp_path, "summary")
    counts = {name: (part["rows_in"], part["bad"]) for name, part in summary["parts"].items()}
    assert counts["numbers"] == (24000, 0)
    assert counts["even"] == (24000, 24)
    assert counts["totals"] == (9600, 0)
    assert counts["out"] == (len(rows), 0)


def test_a_lost_worker_ends_a_job_that_does_not_restart(tmp_path: Path) -> None:
    with running_job(tmp_path, FILTERED) as job:
        wait_for_events(tmp_path, "checkpoint", 2)
        os.kill(read_events(tmp_path, "worker_started")[0]["pid"], signal.SIGKILL)
        assert job.wait(LONGEST_S) == 1
    (failure,) = read_events(tmp_path, "failure")
    assert failure["message"] == "worker 1 was lost: it was killed by SIGKILL"
    with running_job(tmp_path, FILTERED, arguments=AT_ONCE) as job:
        assert job.wait(LONGEST_S) == 0
    assert sorted(row["x"] for row in read_rows(tmp_path / "out")) == list(range(0, 24000, 2))


def test_a_job_is_stopped_while_its_regions_wait_to_restart(tmp_path: Path) -> None:
    text = FILTERED.replace("none", "fixed, attempts: 5, delay: 10m")
    with running_job(tmp_path, text) as job:
        wait_for_events(tmp_path, "checkpoint", 2)
        os.kill(read_events(tmp_path, "worker_started")[1]["pid"], signal.SIGKILL)
        wait_for_events(tmp_path, "worker_lost", 1)
        job.send_signal(signal.SIGINT)
        assert job.wait(LONGEST_S) == 0
    with running_job(tmp_path, FILTERED, arguments=AT_ONCE) as job:
        assert job.wait(LONGEST_S) == 0
    assert sorted(row["x"] for row in read_rows(tmp_path / "out")) == list(range(0, 24000, 2))
