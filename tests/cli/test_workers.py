"""Jobs whose subtasks run in worker processes, each killed for real."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli.command_process import run_headrace
from tests.support.cli.worker_jobs import (
    AT_ONCE,
    LONGEST_S,
    is_alive,
    read_events,
    read_rows,
    running_job,
    wait_for,
    wait_for_events,
)

WINDOWED = """\
name: windowed
sources:
  numbers:
    files: {path: 'in/*.jsonl'}
    schema: {id: bigint, key: string, at: timestamp}
    event_time: at
    watermark: {delay: 2h}
steps:
  doubled:
    from: numbers
    map: {python: twice.py:twice, returns: {id: bigint, key: string, at: timestamp, x: bigint}}
  totals: {from: doubled, key: key, window: {tumble: 1m}, aggregate: {n: count(*), sum: sum(x)}}
sinks:
  all: {from: doubled, files: {path: all}}
  out: {from: totals, files: {path: totals}}
"""

TWICE = """\
import os

def twice(rows):
    print("mapped by", os.getpid())
    return rows.with_columns(x=rows["id"] * 2)
"""

COUNTED = """\
name: counted
sources:
  numbers: {generate: {rows: 24000, rate: 3000/s, columns: {x: id, key: id % 7}}}
steps:
  totals: {from: numbers, key: key, aggregate: {n: count(*), highest: max(x)}}
sinks:
  kept: {from: numbers, files: {path: kept}}
  out: {from: totals, files: {path: totals}}
settings:
  workers: 2
  checkpoint: {every: 300ms}
  restart: {strategy: fixed, attempts: 50, delay: 100ms}
"""

FORKING = """\
name: forking
sources:
  numbers: {generate: {rows: 3000, rate: 1000/s, columns: {x: id}}}
steps:
  mapped: {from: numbers, map: {python: forking.py:fork, returns: {x: bigint}}}
sinks:
  out: {from: mapped, files: {path: out}}
settings:
  workers: 2
  checkpoint: {every: 300ms}
  restart: {strategy: fixed, attempts: 50, delay: 100ms}
"""

FORK = """\
import os, time

def fork(rows):
    if not os.path.exists("forked"):
        open("forked", "w").close()
        if not os.fork():
            time.sleep(120)
            os._exit(0)
        os.kill(os.getpid(), 9)
    return rows
"""


def write_inputs(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "twice.py").write_text(TWICE)
    for file in range(4):
        lines = [
            json.dumps({"id": i, "key": f"k{i % 13}", "at": f"2026-01-01T00:{i % 50:02}:00Z"})
            for i in range(file * 1000, file * 1000 + 1000)
        ]
        (folder / "in" / f"{file}.jsonl").write_text("\n".join(lines) + "\n")


def canonical(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize("parallelism", ["2", "3"])
def test_two_workers_give_the_rows_of_one_process(tmp_path: Path, parallelism: str) -> None:
    rows = {}
    for workers in ("1", "2"):
        folder = tmp_path / workers
        folder.mkdir()
        write_inputs(folder)
        (folder / "windowed.yaml").write_text(WINDOWED)
        options = ("--workers", workers, "--parallelism", parallelism)
        done = run_headrace("run", "windowed.yaml", *options, cwd=folder, timeout=LONGEST_S)
        assert done.returncode == 0, done.stderr
        rows[workers] = [canonical(read_rows(folder / name)) for name in ("all", "totals")]
        assert "mapped by" in done.stdout
        pids = {line.split()[-1] for line in done.stdout.splitlines() if "mapped by" in line}
        assert len(pids) == int(workers)
    assert len(rows["1"][0]) == 4000
    assert rows["1"] == rows["2"]


def check_counted_rows(folder: Path) -> None:
    """Check that each number is there once, and that the totals are theirs."""
    numbers = sorted(row["x"] for row in read_rows(folder / "kept"))
    assert numbers == list(range(24000))
    totals: dict[int, tuple[int, int]] = {}
    for row in read_rows(folder / "totals"):
        seen = totals.get(row["key"], (0, 0))
        totals[row["key"]] = max(seen, (row["n"], row["highest"]))
    for key, (count, highest) in totals.items():
        of_key = [number for number in numbers if number % 7 == key]
        assert count == len(of_key)
        assert highest == max(of_key)


def test_a_job_goes_on_after_its_workers_were_killed(tmp_path: Path) -> None:
    with running_job(tmp_path, COUNTED) as job:
        for kill in range(3):
            wait_for_events(tmp_path, "worker_started", 2 + kill)
            wait_for_events(tmp_path, "checkpoint", 1 + len(read_events(tmp_path, "checkpoint")))
            os.kill(read_events(tmp_path, "worker_started")[-1]["pid"], signal.SIGKILL)
            wait_for_events(tmp_path, "worker_lost", kill + 1)
        wait_for_events(tmp_path, "worker_started", 5)
        assert job.wait(LONGEST_S) == 0
    check_counted_rows(tmp_path)


def test_workers_end_when_their_coordinator_is_killed(tmp_path: Path) -> None:
    with running_job(tmp_path, COUNTED) as job:
        wait_for_events(tmp_path, "checkpoint", 2)
        pids = [event["pid"] for event in read_events(tmp_path, "worker_started")]
        assert len(pids) == 2
        os.kill(job.pid, signal.SIGKILL)
        wait_for(lambda: not any(map(is_alive, pids)), "the end of the workers")
    with running_job(tmp_path, COUNTED, arguments=AT_ONCE) as job:
        assert job.wait(LONGEST_S) == 0
    check_counted_rows(tmp_path)


def test_a_stopped_worker_is_waited_for(tmp_path: Path) -> None:
    with running_job(tmp_path, COUNTED) as job:
        wait_for_events(tmp_path, "checkpoint", 1)
        stopped = read_events(tmp_path, "worker_started")[0]["pid"]
        os.kill(stopped, signal.SIGSTOP)
        time.sleep(2)
        os.kill(stopped, signal.SIGCONT)
        assert job.wait(LONGEST_S) == 0
    assert not read_events(tmp_path, "worker_lost")
    check_counted_rows(tmp_path)


def test_a_child_that_user_code_forked_does_not_hide_the_end_of_its_worker(tmp_path: Path) -> None:
    (tmp_path / "forking.py").write_text(FORK)
    with running_job(tmp_path, FORKING) as job:
        assert job.wait(LONGEST_S) == 0
    assert len(read_events(tmp_path, "worker_lost")) == 1
    assert sorted(row["x"] for row in read_rows(tmp_path / "out")) == list(range(3000))


def test_a_fault_kills_the_worker_that_it_names(tmp_path: Path) -> None:
    with running_job(tmp_path, COUNTED, fault="worker 2: snapshot.acknowledging:3") as job:
        assert job.wait(LONGEST_S) == 0
    (lost,) = read_events(tmp_path, "worker_lost")
    assert lost["worker"] == 2
    assert "SIGKILL" in lost["message"]
    assert [e["worker"] for e in read_events(tmp_path, "worker_started")] == [1, 2, 2]
    check_counted_rows(tmp_path)


def test_a_fault_kills_the_coordinator_that_it_names(tmp_path: Path) -> None:
    with running_job(tmp_path, COUNTED, fault="coordinator: manifest.after:2") as job:
        assert job.wait(LONGEST_S) == -signal.SIGKILL
    assert not read_events(tmp_path, "worker_lost")
    with running_job(tmp_path, COUNTED, arguments=AT_ONCE) as job:
        assert job.wait(LONGEST_S) == 0
    check_counted_rows(tmp_path)
