"""The worker processes of `headrace run`, as its settings ask for them."""

from __future__ import annotations

import os
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.cli.process_limits import POLARS_THREADS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from headrace.core.coordination.events import JobEvent
    from headrace.core.coordination.messages import CoordinatorEvent
    from headrace.core.job.launch import LaunchOptions
    from headrace.core.pipeline.loader import LoadedPipeline
    from headrace.core.plan.nodes import Plan
    from headrace.core.processes.worker_process import WorkerProcess
    from headrace.core.processes.worker_processes import WorkerProcesses
    from headrace.core.worker.connectors import OpenConnectors
    from headrace.core.worker.pool import WorkerPool, WorkerProvider, WorkerSpec
    from headrace.state.storage.home import Home

MODULE = "headrace.cli.worker_process"
SPARE_FILES, FILES_PER_WORKER = 256, 8
"""The open files of this process, besides the streams between workers."""


def add_workers(
    launch: LaunchOptions,
    loaded: LoadedPipeline,
    plan: Plan,
    home: Home,
    report: Callable[[JobEvent], None],
) -> LaunchOptions:
    """Have the subtasks of a job run in worker processes; with one worker, there are none yet.

    Workers that would run no subtask are not started, which the user is told.
    """
    from headrace.core.plan.placement import count_usable_workers, describe_unused_workers

    build = partial(_build_processes, launch, loaded, home, report)
    wanted = loaded.pipeline.settings.workers
    if unused := describe_unused_workers(plan, wanted):
        launch.report_warning(unused)
    count = min(wanted, count_usable_workers(plan))
    return replace(launch, open_workers=partial(_open_workers, build), worker_count=count)


@asynccontextmanager
async def _open_workers(build: Callable[[], WorkerProcesses]) -> AsyncIterator[WorkerProvider]:
    """Open what provides workers, until the job has ended."""
    async with AsyncExitStack() as stack:
        yield _LazyProvider(build, stack)


class _LazyProvider:
    """Provides workers; what processes need is loaded when there are several for the first time."""

    def __init__(self, build: Callable[[], WorkerProcesses], stack: AsyncExitStack) -> None:
        from headrace.core.worker.pool import InProcessProvider

        self._build: Callable[[], WorkerProcesses] | None = build
        self._stack = stack
        self._provider: WorkerProvider = InProcessProvider()

    async def prepare(self, count: int) -> None:
        await (await self._choose_provider(count)).prepare(count)

    async def start_attempt(
        self, spec: WorkerSpec, connectors: OpenConnectors, send: Callable[[CoordinatorEvent], None]
    ) -> WorkerPool:
        provider = await self._choose_provider(spec.worker_count)
        return await provider.start_attempt(spec, connectors, send)

    async def _choose_provider(self, count: int) -> WorkerProvider:
        _allow_open_files(count)
        if count > 1 and self._build is not None:
            build, self._build = self._build, None
            self._provider = await self._stack.enter_async_context(build())
        return self._provider


def _allow_open_files(count: int) -> None:
    """Raise the limit of open files, if this number of workers needs more and the system allows it.

    While an attempt starts, this process holds both ends of a stream between every two workers.
    """
    import resource

    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = SPARE_FILES + count * (count + FILES_PER_WORKER)
    if 0 <= limit < needed:
        allowed = needed if most == resource.RLIM_INFINITY else min(needed, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))


def _build_processes(
    launch: LaunchOptions, loaded: LoadedPipeline, home: Home, report: Callable[[JobEvent], None]
) -> WorkerProcesses:
    from headrace.core.coordination.events import WorkerLost, WorkerStarted
    from headrace.core.processes.messages import WorkerSetup
    from headrace.core.processes.worker_processes import WorkerProcesses

    def build_setup(number: int) -> WorkerSetup:
        return WorkerSetup(
            number,
            loaded.inputs,
            launch.job_id,
            os.path.join(home.state_folder, f"worker-{number}"),
            launch.bounds,
            home.checkpoint_folder,
        )

    return WorkerProcesses(
        build_setup,
        partial(_start_process, set()),
        report_started=lambda number, pid: report(WorkerStarted(number, pid)),
        report_lost=lambda number, why: report(WorkerLost(number, why)),
    )


def _start_process(started: set[int], number: int, count: int) -> WorkerProcess:
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
