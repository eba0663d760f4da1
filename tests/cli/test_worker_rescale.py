"""`headrace rescale --workers` on a running job, whose processes start, stay and end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.support.cli.worker_jobs import (
    LONGEST_S,
    check_totals,
    fetch_job,
    is_alive,
    read_events,
    run_command,
    running_job,
    wait_for,
    wait_for_rows,
)

SUMMED = """\
name: summed
sources:
  numbers: {generate: {rate: 1000/s, columns: {x: id, key: id % 50}}}
steps:
  totals: {from: numbers, key: key, aggregate: {n: count(*), sum: sum(x)}}
sinks:
  kept: {from: numbers, files: {path: kept}}
  out: {from: totals, files: {path: totals}}
settings:
  checkpoint: {every: 300ms}
  restart: {strategy: fixed, attempts: 50, delay: 100ms}
"""


def rescale(folder: Path, *arguments: str) -> str:
    done = run_command(folder, "rescale", "summed", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_workers_without_subtasks_start_when_a_rescale_gives_them_some(tmp_path: Path) -> None:
    text = SUMMED.replace("{path: totals}", "{path: totals}, slot: apart")
    with running_job(tmp_path, text, arguments=("--workers", "3", "--parallelism", "1")) as job:
        wait_for_rows(tmp_path, "summed", 100)
        said = "workers: 3: 2 are used: more would have no subtask"
        assert [each["message"] for each in read_events(tmp_path, "notice")] == [said]
        assert len(read_events(tmp_path, "worker_started")) == 2
        rescale(tmp_path, "--parallelism", "2")
        wait_for_rows(tmp_path, "summed", 100, attempt=2)
        assert run_command(tmp_path, "stop", "summed").returncode == 0
        assert job.wait(LONGEST_S) == 0
    assert len(read_events(tmp_path, "worker_started")) == 3
    assert [each["workers"] for each in read_events(tmp_path, "rescaled")] == [3]
    check_totals(tmp_path, keys=50)


def test_a_running_job_changes_its_workers_and_the_parallelism_follows(tmp_path: Path) -> None:
    with running_job(tmp_path, SUMMED) as job:
        wait_for_rows(tmp_path, "summed", 100)
        assert not read_events(tmp_path, "worker_started")
        for attempt, workers in ((2, 2), (3, 3)):
            assert rescale(tmp_path, "--workers", f"{workers}").startswith("summed paused for ")
            assert set(fetch_job(tmp_path, "summed")["parallelism"].values()) == {workers}
            wait_for_rows(tmp_path, "summed", 100, attempt)
        started = read_events(tmp_path, "worker_started")
        assert [each["worker"] for each in started] == [1, 2, 3]  # those that run are used again
        assert "already" in rescale(tmp_path, "--workers", "3")
        os.kill(started[1]["pid"], signal.SIGKILL)
        wait_for_rows(tmp_path, "summed", 100, attempt=4)
        started = read_events(tmp_path, "worker_started")
        assert [each["worker"] for each in started] == [1, 2, 3, 2]
        assert all(is_alive(started[at]["pid"]) for at in (0, 2, 3))
        rescale(tmp_path, "--workers", "1")
        wait_for(lambda: not any(is_alive(each["pid"]) for each in started), "the end of workers")
        wait_for_rows(tmp_path, "summed", 100, attempt=5)
        rescale(tmp_path, "--workers", "2", "--parallelism", "1", "--step", "totals=2")
        assert fetch_job(tmp_path, "summed")["parallelism"] == {
            "numbers": 1,
            "totals": 2,
            "kept": 1,
            "out": 1,
        }
        wait_for_rows(tmp_path, "summed", 100, attempt=6)
        assert run_command(tmp_path, "stop", "summed").returncode == 0
        assert job.wait(LONGEST_S) == 0
    assert len(read_events(tmp_path, "worker_lost")) == 1
    assert [each["workers"] for each in read_events(tmp_path, "rescaled")] == [2, 3, 1, 2]
    check_totals(tmp_path, keys=50)


FATAL = """\
import os, signal

try:
    os.rename("armed", "fired")
except FileNotFoundError:
    pass
else:
    os.kill(os.getpid(), signal.SIGKILL)

def same(rows):
    return rows
"""


def test_a_new_worker_that_dies_as_its_subtasks_start_is_replaced_at_the_new_size(
    tmp_path: Path,
) -> None:
    (tmp_path / "fatal.py").write_text(FATAL)
    step = "map: {python: fatal.py:same, returns: {x: bigint, key: bigint}}"
    text = SUMMED.replace("from: numbers, key: key", "from: mapped, key: key")
    text = text.replace("steps:\n", f"steps:\n  mapped: {{from: numbers, {step}}}\n")
    with running_job(tmp_path, text) as job:
        wait_for_rows(tmp_path, "summed", 100)
        (tmp_path / "armed").touch()
        assert rescale(tmp_path, "--workers", "2").startswith("summed paused for ")
        wait_for_rows(tmp_path, "summed", 100, attempt=3)
        assert set(fetch_job(tmp_path, "summed")["parallelism"].values()) == {2}
        assert run_command(tmp_path, "stop", "summed").returncode == 0
        assert job.wait(LONGEST_S) == 0
    assert (tmp_path / "fired").exists()
    assert len(read_events(tmp_path, "worker_lost")) == 1
    assert [each["workers"] for each in read_events(tmp_path, "rescaled")] == [2]
    check_totals(tmp_path, keys=50)
