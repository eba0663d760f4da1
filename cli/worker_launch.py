"""The worker processes of `headrace run`, as its settings ask for them."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.coordination.events import JobEvent
    from headrace.core.job.launch import LaunchOptions
    from headrace.core.pipeline.loader import LoadedPipeline
    from headrace.core.processes.worker_process import WorkerProcess
    from headrace.state.storage.home import Home

MODULE = "headrace.cli.worker_process"
POLARS_THREADS = "POLARS_MAX_THREADS"


def add_workers(
    launch: LaunchOptions, loaded: LoadedPipeline, home: Home, report: Callable[[JobEvent], None]
) -> LaunchOptions:
    """Have the subtasks of a job run in worker processes."""
    from headrace.core.coordination.events import WorkerLost, WorkerStarted
    from headrace.core.processes.messages import WorkerSetup
    from headrace.core.processes.worker_processes import WorkerProcesses

    count = loaded.pipeline.settings.workers

    def build_setup(number: int) -> WorkerSetup:
        return WorkerSetup(
            number,
            count,
            loaded.inputs,
            launch.job_id,
            os.path.join(home.state_folder, f"worker-{number}"),
            launch.bounds,
            home.checkpoint_folder,
        )

    processes = WorkerProcesses(
        count,
        build_setup,
        partial(_start_process, count, set()),
        report_started=lambda number, pid: report(WorkerStarted(number, pid)),
        report_lost=lambda number, why: report(WorkerLost(number, why)),
    )
    return replace(launch, open_workers=lambda: processes)


def _start_process(count: int, started: set[int], number: int) -> WorkerProcess:
    """Start the process of a worker; `started` has the numbers of those that were started before.

    Only the first process of a number has a fault, so that its successor lives.
    """
    from headrace.core.errors.failpoints import VARIABLE, select_fault
    from headrace.core.processes.worker_process import start_process

    environment = _build_environment(count)
    fault = select_fault(environment.pop(VARIABLE, ""), f"worker {number}")
    if fault and number not in started:
        environment[VARIABLE] = fault
    started.add(number)
    return start_process(number, MODULE, environment, print_line)


def _build_environment(count: int) -> dict[str, str]:
    """Return the environment of a worker: each has its share of the processors."""
    environment = dict(os.environ)
    environment.setdefault(POLARS_THREADS, str(max(1, (os.cpu_count() or 1) // count)))
    if sys.flags.utf8_mode:
        environment["PYTHONUTF8"] = "1"
    return environment


def print_line(line: str, is_error: bool) -> None:
    """Print a line of a worker in one write, because each worker has threads of its own for it."""
    stream = sys.stderr if is_error else sys.stdout
    stream.write(f"{line}\n")
    stream.flush()
