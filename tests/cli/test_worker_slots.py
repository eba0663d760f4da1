"""Steps that run in worker processes of their own, by `slot`, and savepoints with and without."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from tests.support.cli.command_process import run_headrace
from tests.support.cli.worker_jobs import (
    LONGEST_S,
    read_events,
    read_rows,
    running_job,
    wait_for,
    wait_for_events,
)

ROWS = 1000
"""The number of rows in each file."""

PLAIN = """\
name: slotted
sources:
  numbers: {files: {path: 'in/*.jsonl', watch: 200ms}, schema: {x: bigint, key: bigint}}
steps:
  mapped:
    from: numbers
    map: {python: tag.py:tag, returns: {x: bigint, key: bigint, pid: bigint}}
  totals: {from: mapped, key: key, aggregate: {n: count(*), highest: max(x)}}
sinks:
  kept: {from: mapped, files: {path: kept}}
  out: {from: totals, files: {path: totals}}
settings:
  workers: 2
  checkpoint: {every: 300ms}
  restart: {strategy: fixed, attempts: 50, delay: 100ms}
"""

SLOTTED = (
    PLAIN.replace("    from: numbers\n", "    from: numbers\n    slot: heavy\n")
    .replace("{from: totals, files", "{from: totals, chain: false, files")
    .replace("{from: mapped, files", "{from: mapped, slot: default, files")
    .replace("{from: mapped, key", "{from: mapped, slot: default, key")
)

REGIONS = """\
name: slotted
sources:
  numbers: {files: {path: 'in/*.jsonl', watch: 200ms}, schema: {x: bigint, key: bigint}}
sinks:
  kept: {from: numbers, files: {path: kept}}
settings:
  workers: 2
  restart: {strategy: fixed, attempts: 1, delay: 1h}
"""
"""No exchange connects the two workers, so the regions of a lost one wait to restart."""

TAG = """\
import os
import polars

def tag(rows):
    return rows.with_columns(pid=polars.lit(os.getpid(), polars.Int64))
"""


def write_files(folder: Path, numbers: range) -> None:
    """Write input files with consecutive numbers."""
    (folder / "tag.py").write_text(TAG)
    (folder / "in").mkdir(exist_ok=True)
    for number in numbers:
        rows = range(number * ROWS, number * ROWS + ROWS)
        lines = [json.dumps({"x": x, "key": x % 7}) for x in rows]
        hidden = folder / "in" / f".{number:02}.jsonl"
        hidden.write_text("\n".join(lines) + "\n")
        hidden.rename(folder / "in" / f"{number:02}.jsonl")


def ask(folder: Path, *arguments: str) -> str:
    """Return the output of a command that succeeds."""
    done = run_headrace(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def describe_job(folder: Path) -> dict[str, Any]:
    """Return the running job, as `headrace jobs` shows it."""
    jobs: list[dict[str, Any]] = json.loads(ask(folder, "jobs", "--json"))
    return jobs[0] if jobs else {}


def wait_for_rows(folder: Path, files: int) -> None:
    """Wait until the job has read this number of files."""
    wait_for(lambda: describe_job(folder).get("rows_in") == files * ROWS, f"{files} files")


def wait_for_workers(folder: Path, pids: dict[int, int]) -> dict[int, set[str]]:
    """Wait until workers with these processes have reported; return the parts of each."""
    found: dict[int, set[str]] = {}

    def have_reported() -> bool:
        workers = describe_job(folder).get("workers") or []
        for each in workers:
            found[each["worker"]] = {part for task in each["tasks"] for part in task["parts"]}
        return {each["worker"]: each["pid"] for each in workers} == pids

    wait_for(have_reported, f"workers {pids}")
    return found


def find_pids(folder: Path) -> dict[int, int]:
    """Return the process of each worker, as the log has them."""
    return {event["worker"]: event["pid"] for event in read_events(folder, "worker_started")}


def check_rows(folder: Path, files: int) -> set[int]:
    """Check that each number is there once, and the last totals; return the processes of `map`."""
    rows = read_rows(folder / "kept")
    assert sorted(row["x"] for row in rows) == list(range(files * ROWS))
    totals: dict[int, tuple[int, int]] = {}
    for row in read_rows(folder / "totals"):
        totals[row["key"]] = max(totals.get(row["key"], (0, 0)), (row["n"], row["highest"]))
    numbers = [range(key, files * ROWS, 7) for key in range(7)]
    assert totals == {key: (len(of), of[-1]) for key, of in enumerate(numbers)}
    return {row["pid"] for row in rows}


def test_a_step_with_a_slot_has_a_process_of_its_own(tmp_path: Path) -> None:
    write_files(tmp_path, range(4))
    with running_job(tmp_path, SLOTTED) as job:
        wait_for_events(tmp_path, "worker_started", 2)
        first = find_pids(tmp_path)
        assert wait_for_workers(tmp_path, first) == {
            1: {"numbers", "totals", "kept", "out"},
            2: {"mapped"},
        }
        wait_for_rows(tmp_path, 4)
        os.kill(first[2], signal.SIGKILL)
        wait_for_events(tmp_path, "worker_started", 3)
        second = find_pids(tmp_path)
        write_files(tmp_path, range(4, 8))
        assert wait_for_workers(tmp_path, second)[2] == {"mapped"}
        wait_for_rows(tmp_path, 8)
        ask(tmp_path, "stop", "slotted")
        assert job.wait(LONGEST_S) == 0
    assert second[1] == first[1]
    assert {second[2]} <= check_rows(tmp_path, 8) <= {first[2], second[2]}


def test_savepoints_resume_with_slots_and_without(tmp_path: Path) -> None:
    one_process = PLAIN.replace("workers: 2", "workers: 1")
    resumed: tuple[str, ...] = ()
    for files, text in ((2, PLAIN), (4, SLOTTED), (6, one_process)):
        write_files(tmp_path, range(files - 2, files))
        with running_job(tmp_path, text, arguments=resumed) as job:
            wait_for_rows(tmp_path, files)
            resumed = ("--from-savepoint", ask(tmp_path, "stop", "slotted", "--savepoint"))
            assert job.wait(LONGEST_S) == 0
    check_rows(tmp_path, 6)


def test_a_lost_worker_is_not_listed(tmp_path: Path) -> None:
    write_files(tmp_path, range(2))
    with running_job(tmp_path, REGIONS) as job:
        wait_for_events(tmp_path, "worker_started", 2)
        pids = find_pids(tmp_path)
        assert wait_for_workers(tmp_path, pids) == {
            number: {"numbers", "kept"} for number in (1, 2)
        }
        os.kill(pids[1], signal.SIGKILL)
        wait_for_events(tmp_path, "worker_lost", 1)
        assert wait_for_workers(tmp_path, {2: pids[2]}) == {2: {"numbers", "kept"}}
        ask(tmp_path, "stop", "slotted")
        assert job.wait(LONGEST_S) == 0
