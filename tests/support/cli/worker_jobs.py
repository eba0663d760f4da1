"""Jobs in processes of their own, with worker processes that a test may kill."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headrace.cli.control.client import JobClient, NoAnswer, NotListening
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.support.cli.command_process import run_headrace, start_headrace

LONGEST_S = 600.0
"""Far longer than anything takes on a busy machine."""

AT_ONCE = ("--set", "sources.numbers.generate.rate=10000000/s")
"""Options of a run that computes its remaining numbers without waiting."""


def read_rows(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for file in sorted(folder.rglob("*.jsonl"))
        if not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
        for line in file.read_text().splitlines()
    ]


@contextmanager
def running_job(
    folder: Path, text: str, fault: str = "", arguments: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    (folder / "job.yaml").write_text(text)
    with open(folder / "log", "a") as log:
        job = start_headrace(
            *("run", "job.yaml", "--log", "json", *arguments),
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=log,
            text=True,
            env=os.environ | ({"HEADRACE_FAULT": fault} if fault else {}),
        )
    try:
        yield job
    finally:
        job.kill()
        job.wait()


def read_events(folder: Path, kind: str) -> list[dict[str, Any]]:
    found = []
    for line in (folder / "log").read_text().splitlines():
        with suppress(json.JSONDecodeError):
            event = json.loads(line)
            if event.get("event") == kind:
                found.append(event)
    return found


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def wait_for_events(folder: Path, kind: str, count: int) -> None:
    wait_for(lambda: len(read_events(folder, kind)) >= count, f"{count} x {kind}")


def start_command(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return start_headrace(*arguments, cwd=folder, stdout=pipe, stderr=pipe, text=True)


def run_command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_headrace(*arguments, cwd=folder, timeout=LONGEST_S)


def fetch_job(folder: Path, name: str) -> dict[str, Any]:
    """Return the document of a job; empty while it does not answer."""
    client = JobClient(Home(LocalDisk(), str(folder / ".headrace"), name))
    with suppress(NotListening, NoAnswer):
        return client.fetch_job()
    return {}


def wait_for_rows(folder: Path, name: str, count: int, attempt: int = 1) -> None:
    """Wait until an attempt runs and has written this many rows."""

    def has_written() -> bool:
        job = fetch_job(folder, name)
        is_running = job.get("status") == "running" and job["attempt"] == attempt
        return is_running and job["rows_out"] >= count

    wait_for(has_written, f"{count} rows of attempt {attempt}")


def check_totals(folder: Path, keys: int) -> None:
    """Check that each number is there once, and that the last total of each key is theirs."""
    numbers = [row["x"] for row in read_rows(folder / "kept")]
    assert numbers
    assert len(numbers) == len(set(numbers))
    expected: dict[int, tuple[int, int]] = {}
    for number in numbers:
        count, total = expected.get(number % keys, (0, 0))
        expected[number % keys] = count + 1, total + number
    totals: dict[int, tuple[int, int]] = {}
    for row in read_rows(folder / "totals"):
        totals[row["key"]] = max(totals.get(row["key"], (0, 0)), (row["n"], row["sum"]))
    assert totals == expected


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
