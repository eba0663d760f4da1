"""Failures of the processes of a job with workers: killed, or stopped for a while, at any time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.support.cli.worker_jobs import is_alive, wait_for

LOSS = re.compile(r"(worker \d+ was|the connection to worker \d+ is) lost")
"""The words of a run for a process that is gone."""
LONGEST_PAUSE_S = 2.0
MODULE = b"headrace.cli.worker_process"


@dataclass(slots=True)
class WorkerFailures:
    """The failures of the processes of one job, from one run of it to the next."""

    random: Random
    log: list[str] = field(default_factory=list)
    _pids: set[int] = field(default_factory=set)
    """The workers that have been seen."""

    def strike(self, coordinator: subprocess.Popen[str]) -> Iterator[None]:
        """Let a process of a job fail now and then; one is stopped at most, and continues later.

        The coordinator is not killed: its end is that of the run.
        """
        while True:
            yield from wait(self.random.uniform(0.1, 1.5))
            workers = list_workers(coordinator.pid)
            self._pids |= {*workers}
            how = self.random.choice(["kill", "kill", "stop", "stop coordinator"])
            pid = coordinator.pid if how == "stop coordinator" else 0
            if not pid and workers:
                pid = self.random.choice(workers)
            if not pid or coordinator.poll() is not None:
                continue
            self.log.append(how)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if how == "kill" else signal.SIGSTOP)
                if how == "stop coordinator":
                    time.sleep(self.random.uniform(0, LONGEST_PAUSE_S))
                elif how == "stop":
                    yield from wait(self.random.uniform(0, LONGEST_PAUSE_S))
                if how != "kill":
                    os.kill(pid, signal.SIGCONT)

    def draw_options(self, workers: int) -> list[str]:
        """Return options of a run that has worker processes if there may be any."""
        if workers == 1:
            return ["--parallelism", str(self.random.choice([1, 2, 3]))]
        started = self.random.randint(2, workers)
        return ["--parallelism", str(self.random.choice([2, 3])), "--workers", str(started)]

    def draw_rescale(self, workers: int) -> dict[str, int]:
        """Return the body of a request for another parallelism, or other workers."""
        if workers > 1 and self.random.random() < 0.5:
            wanted = self.random.randint(1, workers)
            return {"workers": wanted, "parallelism": self.random.randint(wanted, max(3, wanted))}
        return {"parallelism": self.random.choice([1, 2, 3])}

    def assert_all_gone(self) -> None:
        """Check that all workers end after their coordinator, also those that are stopped."""
        wait_for(lambda: not any(map(is_alive, self._pids)), f"workers live on: {self._pids}")
        self._pids.clear()


def wait(seconds: float) -> Iterator[None]:
    """Yield until the time has passed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield


def list_workers(coordinator: int) -> list[int]:
    """Return the ids of the worker processes that a process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == coordinator and MODULE in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return sorted(found)
