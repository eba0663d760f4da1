"""Processes of jobs: started, found again by a later server, and watched by their descriptors.

A process belongs to a server's job if `--log-file` on its command line is that job's log. So a
server needs no record of process ids, which another process may have by now.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from headrace.cli.errors import Refusal
from headrace.core.types.lazy_dataclass import dataclass

LOG_OPTION = b"--log-file"


@dataclass(slots=True)
class JobProcess:
    """A running process of a job."""

    pid: int
    descriptor: int
    child: subprocess.Popen[bytes] | None
    """The process as a child of this one; None if another server has started it."""

    async def wait(self) -> int | None:
        """Wait for the end; return the exit status, negative for a signal, None if unknown."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(self.descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self.descriptor)
            os.close(self.descriptor)
        return None if self.child is None else self.child.wait()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        with suppress(OSError):
            signal.pidfd_send_signal(self.descriptor, number)


def check_system() -> None:
    """Check that this system has descriptors of processes. Raises Refusal."""
    if not hasattr(os, "pidfd_open") or not os.path.isdir("/proc/self"):
        raise Refusal("serve needs Linux", "run each pipeline with headrace run", 1)


def start_job(
    arguments: Sequence[str], log: str, folder: str, variables: Mapping[str, str]
) -> JobProcess:
    """Start `headrace ARGUMENTS`, in a session of its own. Raises OSError.

    `variables` are added to the environment.
    -P: Python files next to the pipelines must not take the place of modules.
    """
    command = [sys.executable, "-P", "-m", "headrace.cli", *arguments]
    with open(log, "ab", buffering=0) as output:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        return JobProcess(child.pid, os.pidfd_open(child.pid), child)
    except OSError:
        child.kill()
        child.wait()
        raise


def adopt_processes(logs: Mapping[str, str]) -> dict[str, JobProcess]:
    """Find the running processes of jobs, by their names; `logs` has the log of each job."""
    names = {os.fsencode(log): name for name, log in logs.items()}
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        with suppress(OSError):
            descriptor = os.pidfd_open(int(entry))
            name = names.get(_find_log(int(entry)))
            if name is None or name in found:
                os.close(descriptor)
            else:
                found[name] = JobProcess(int(entry), descriptor, None)
    return found


def _find_log(pid: int) -> bytes:
    """Return the log on the command line of a process; empty if it has none. Raises OSError."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read().split(b"\0")
    at = words.index(LOG_OPTION) if LOG_OPTION in words else len(words)
    return words[at + 1] if at + 1 < len(words) else b""
