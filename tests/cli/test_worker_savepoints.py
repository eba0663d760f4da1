"""Savepoints whose checkpoint is hit by the death of a worker, which a fault makes certain."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.state.savepoints.savepoint import open_savepoint
from tests.support.cli.worker_jobs import (
    LONGEST_S,
    check_totals,
    read_events,
    read_rows,
    run_command,
    running_job,
    wait_for_rows,
)

SUMMED = """\
name: saved
sources:
  numbers: {generate: {rate: 1000/s, columns: {x: id, key: id % 50}}}
steps:
  totals: {from: numbers, key: key, aggregate: {n: count(*), sum: sum(x)}}
sinks:
  kept: {from: numbers, files: {path: kept}}
  out: {from: totals, files: {path: totals}}
settings:
  workers: 2
  checkpoint: {every: 1h}
  restart: {strategy: fixed, attempts: 50, delay: 100ms}
"""

FORWARD = """\
name: saved
sources:
  numbers: {generate: {rate: 1000/s, columns: {x: id}}}
sinks:
  kept: {from: numbers, files: {path: kept}}
settings:
  workers: 2
  checkpoint: {every: 1h}
  restart: {strategy: fixed, attempts: 50, delay: 100ms}
"""

FAULT = "worker 2: snapshot.acknowledging"
"""Kills a worker during the first checkpoint, which only a request begins."""


def check_savepoint(folder: Path, done: subprocess.CompletedProcess[str], number: int) -> None:
    """Check that the command has printed the path of a savepoint of this checkpoint."""
    assert done.returncode == 0, done.stderr
    assert open_savepoint(str(folder / done.stdout.strip())).number == number


def test_a_savepoint_is_taken_once_more_after_the_restart(tmp_path: Path) -> None:
    with running_job(tmp_path, SUMMED, FAULT) as job:
        wait_for_rows(tmp_path, "saved", 1000)
        saved = run_command(tmp_path, "savepoint", "saved")
        (restarting,) = read_events(tmp_path, "restarting")
        wait_for_rows(tmp_path, "saved", 1000, attempt=2)
        assert run_command(tmp_path, "stop", "saved").returncode == 0
        assert job.wait(LONGEST_S) == 0
    assert "worker 2" in restarting["message"]
    check_savepoint(tmp_path, saved, 1)
    check_totals(tmp_path, keys=50)


def test_a_savepoint_is_taken_once_more_after_the_restart_of_a_region(tmp_path: Path) -> None:
    with running_job(tmp_path, FORWARD, FAULT) as job:
        wait_for_rows(tmp_path, "saved", 1000)
        saved = run_command(tmp_path, "savepoint", "saved")
        assert len(read_events(tmp_path, "region_restarted")) == 1
        wait_for_rows(tmp_path, "saved", 1000)
        assert run_command(tmp_path, "stop", "saved").returncode == 0
        assert job.wait(LONGEST_S) == 0
    assert not read_events(tmp_path, "restarting")
    check_savepoint(tmp_path, saved, 2)
    numbers = [row["x"] for row in read_rows(tmp_path / "kept")]
    assert len(numbers) == len(set(numbers))


def test_the_checkpoint_of_a_stop_is_taken_once_more(tmp_path: Path) -> None:
    with running_job(tmp_path, SUMMED, FAULT) as job:
        wait_for_rows(tmp_path, "saved", 1000)
        stopped = run_command(tmp_path, "stop", "saved", "--savepoint")
        assert job.wait(LONGEST_S) == 0
    assert len(read_events(tmp_path, "restarting")) == 1
    check_savepoint(tmp_path, stopped, 1)
    (summary,) = read_events(tmp_path, "summary")
    assert (summary["status"], summary["checkpoint"]) == ("stopped", 1)


@pytest.mark.parametrize("command", [("savepoint",), ("stop", "--savepoint")])
def test_a_savepoint_of_a_job_that_does_not_restart_fails(
    tmp_path: Path, command: tuple[str]
) -> None:
    text = SUMMED.replace("fixed, attempts: 50, delay: 100ms", "none")
    with running_job(tmp_path, text, FAULT) as job:
        wait_for_rows(tmp_path, "saved", 1000)
        failed = run_command(tmp_path, command[0], "saved", *command[1:])
        assert job.wait(LONGEST_S) == 1
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "saved: the job has failed: " in failed.stderr
    assert "worker 2" in failed.stderr
