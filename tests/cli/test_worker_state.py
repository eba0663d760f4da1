"""The state of workers on disk, when a worker is lost and another process takes its place."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli.worker_jobs import (
    LONGEST_S,
    check_totals,
    read_events,
    run_command,
    running_job,
    wait_for_rows,
)

SPILLING = """\
name: spilling
sources:
  numbers: {generate: {rate: 10000/s, columns: {x: id, key: id % 5000}}}
steps:
  totals: {from: numbers, key: key, aggregate: {n: count(*), sum: sum(x)}}
sinks:
  kept: {from: numbers, files: {path: kept}}
  out: {from: totals, files: {path: totals}}
settings:
  workers: 2
  state: {memory: 4KB}
  checkpoint: {every: 1h}
  restart: {strategy: fixed, attempts: 50, delay: 100ms}
"""


def test_a_successor_does_not_take_rows_that_no_checkpoint_has(tmp_path: Path) -> None:
    """The killed worker has stored its rows for the first checkpoint, which is never complete."""
    with running_job(tmp_path, SPILLING, fault="worker 2: snapshot.acknowledging:2") as job:
        wait_for_rows(tmp_path, "spilling", 10000)
        assert run_command(tmp_path, "savepoint", "spilling").returncode == 0
        wait_for_rows(tmp_path, "spilling", 10000, attempt=2)
        run_command(tmp_path, "stop", "spilling")
        assert job.wait(LONGEST_S) == 0
    assert [e["worker"] for e in read_events(tmp_path, "worker_started")] == [1, 2, 2]
    check_totals(tmp_path, keys=5000)
