"""`headrace serve` as a process, with the jobs that it starts, which outlive it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headrace.cli.control.job_list import list_jobs
from headrace.cli.errors import Refusal
from headrace.cli.server.job_process import adopt_processes
from headrace.cli.server.server_client import ServerClient, add_served_jobs
from headrace.cli.server.server_folder import ServerFolder
from tests.support.cli.command_process import run_headrace, start_headrace
from tests.support.cli.processes import limited

LONGEST_S = 600.0
PAUSE_S = 0.05

ENDLESS = """\
name: NAME
sources:
  numbers: {generate: {rate: 1000/s, columns: {x: id}}}
sinks:
  out: {from: numbers, files: {path: NAME-out}}
settings: {checkpoint: {every: 200ms}}
"""


def endless(name: str) -> str:
    """The text of a pipeline that never ends; its output is in NAME-out."""
    return ENDLESS.replace("NAME", name)


def until(condition: Callable[[], Any], longest_s: float = LONGEST_S) -> Any:
    """Return what the condition returns, as soon as that is true."""
    end_s = time.monotonic() + longest_s
    while not (found := condition()):
        assert time.monotonic() < end_s, "it never became true"
        time.sleep(PAUSE_S)
    return found


def is_complete(numbers: list[int]) -> bool:
    """Whether each number is there once."""
    return bool(numbers) and numbers == list(range(len(numbers)))


class ServedFolder:
    """A folder with pipelines, and the servers of its home."""

    def __init__(self, path: Path, longest_s: float = 2 * LONGEST_S) -> None:
        self.path = path
        self.longest_s = longest_s
        self.folder = ServerFolder(str(path / ".headrace"))
        self.client = ServerClient(self.folder.home)
        self._servers: list[subprocess.Popen[str]] = []

    def write(self, name: str, text: str | None = None) -> Path:
        """Write a pipeline, by default one that never ends."""
        file = self.path / f"{name}.yaml"
        file.write_text(endless(name) if text is None else text)
        return file

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Start a server; what it prints goes into a file."""
        with (self.path / "server.txt").open("a") as output:
            server = start_headrace(
                "serve", ".", *options, cwd=self.path, stdout=output, stderr=output, text=True
            )
        self._servers.append(limited(server, self.longest_s))
        return server

    def printed(self) -> str:
        """All that servers have printed."""
        return (self.path / "server.txt").read_text()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder."""
        return run_headrace(*arguments, cwd=self.path, timeout=LONGEST_S)

    def list_jobs(self) -> dict[str, dict[str, Any]]:
        """What `headrace jobs` says, by name; without its process, since tests ask often."""
        entries = add_served_jobs(list_jobs(self.folder.home), self.folder.home)
        return {entry.name: entry.build_document() for entry in entries}

    def until_status(self, name: str, *statuses: str) -> dict[str, Any]:
        """Wait until a job has one of these statuses; return the job as it was before, or is."""

        def find() -> dict[str, Any] | None:
            job = self.list_jobs().get(name)
            return job if job is not None and job["status"] in statuses else None

        found: dict[str, Any] = until(find)
        return found

    def until_checkpoint(self, name: str, after: int = 0) -> dict[str, Any]:
        """Wait until a running job has completed a checkpoint after this one; return the job."""

        def find() -> dict[str, Any] | None:
            job = self.list_jobs().get(name)
            is_running = job is not None and job["status"] == "running"
            return job if job and is_running and (job["checkpoint"] or 0) > after else None

        found: dict[str, Any] = until(find)
        return found

    def until_leading(self) -> None:
        """Wait until a server leads the home: one that has just started ends at any signal."""

        def answers() -> bool:
            try:
                self.client.send_request("GET", "/v1/jobs")
            except Refusal:
                return False
            return True

        until(answers)

    def end(self, server: subprocess.Popen[str]) -> int:
        """End a server by SIGTERM; return its exit status."""
        server.terminate()
        return server.wait(LONGEST_S)

    def read_numbers(self, name: str) -> list[int]:
        """The numbers that a job has written, in their order."""
        parts = (part.read_text() for part in (self.path / f"{name}-out").glob("part-*"))
        return sorted(json.loads(line)["x"] for part in parts for line in part.splitlines())

    def list_processes(self) -> dict[str, int]:
        """The processes of jobs, by their names."""
        names = [path.stem for path in (Path(self.folder.path) / "jobs").glob("*.json")]
        found = adopt_processes({name: self.folder.get_log_path(name) for name in names})
        for process in found.values():
            os.close(process.descriptor)
        return {name: process.pid for name, process in found.items()}

    def close(self) -> None:
        """Kill all that runs."""
        for server in self._servers:
            server.kill()
            server.wait()
        for pid in self.list_processes().values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def served_folder(path: Path, longest_s: float = 2 * LONGEST_S) -> Iterator[ServedFolder]:
    """A folder whose servers and jobs are killed at the end; servers after this time."""
    folder = ServedFolder(path, longest_s)
    try:
        yield folder
    finally:
        folder.close()
