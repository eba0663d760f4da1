"""A job in a process of its own: the event loop, the threads, the signals.

The first SIGINT or SIGTERM stops the job, with a checkpoint to resume from. A second ends it within
a second: uncommitted output is dropped in this time if that is possible, else at the next start.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.kernel_executor import open_executors
from headrace.core.api.run_context import NoJobNotes, RunContext
from headrace.core.api.state_backend import StateBackend
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.job.job import Job, JobOutcome
from headrace.core.job.signals import SignalHandler
from headrace.core.job.spec import JobSpec
from headrace.core.plan.connector import Connectors
from headrace.core.plan.nodes import Plan
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.pool import InProcessProvider, WorkerProvider

if TYPE_CHECKING:
    from headrace.core.checkpoint.manifest import RestoredCheckpoint
    from headrace.core.checkpoint.storage import CheckpointStorage

Watcher: TypeAlias = "Callable[[Job], Coroutine[object, object, None]]"
"""A coroutine that watches a running job; it is cancelled when the job is over."""


async def _do_nothing(job: Job, outcome: JobOutcome) -> None:
    """Do nothing."""


class JobInterrupted(Exception):
    """The job was ended at once by a second signal."""


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """The settings for running a job in this process, in addition to its plan."""

    folder: Path
    """The pipeline's folder."""
    bounds: ChannelBounds = field(default_factory=ChannelBounds)
    limit: int | None = None
    watchers: tuple[Watcher, ...] = ()
    on_ended: Callable[[Job, JobOutcome], Awaitable[None]] = _do_nothing
    """Awaited when the job has ended, before its process releases anything."""
    report_warning: Callable[[str], None] = lambda line: None
    """Reports an external warning to the user, in one line."""
    storage: CheckpointStorage | None = None
    """The checkpoint storage, if the job can resume from checkpoints."""
    initial_checkpoint: RestoredCheckpoint | None = None
    """The checkpoint to start from."""
    job_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """The id of the job."""
    open_workers: Callable[[], AbstractAsyncContextManager[WorkerProvider]] = lambda: nullcontext(
        InProcessProvider()
    )
    """Opens what provides the workers of attempts, until the job has ended."""
    worker_count: int = 1
    """The number of workers at the start."""
    signals: SignalHandler = field(default_factory=SignalHandler)
    """The signal handlers.

    Unless the caller has entered them, they do nothing: signals are the caller's.
    """


def launch_job(
    plan: Plan, connectors: Connectors, backend: StateBackend, how: LaunchOptions
) -> JobOutcome:
    """Run a job to its end.

    Raises ConnectorError or SnapshotError for errors before anything is read.
    """
    import polars  # noqa: F401 - not later, within the job: it puts its hook on SIGINT

    how.signals.reinstall()
    with open_executors() as (executor, archive):
        run_context = RunContext(
            how.folder,
            how.job_id,
            executor,
            how.limit,
            lambda: job.stop(),
            archive,
            pipeline_name=str(plan.name),
            notes=how.storage.notes if how.storage else NoJobNotes(),
            notify_user=how.report_warning,
            commit_timing=how.storage.commit_timing if how.storage else None,
        )
        read = frozenset(edge.stream for edge in plan.edges)
        setting = OperatorContext(lambda: time.time_ns() // 1000, how.folder, read, backend)
        spec = JobSpec(
            plan,
            connectors,
            run_context,
            setting,
            how.bounds,
            how.storage,
            worker_count=how.worker_count,
        )
        job = Job(spec, how.initial_checkpoint)
        return asyncio.run(_run_with_workers(job, how))


async def _run_with_workers(job: Job, how: LaunchOptions) -> JobOutcome:
    async with how.open_workers() as workers:
        job.spec = replace(job.spec, workers=workers)
        return await _run_watched(job, how)


async def _run_watched(job: Job, how: LaunchOptions) -> JobOutcome:
    watching = [asyncio.create_task(watcher(job)) for watcher in how.watchers]
    running = asyncio.create_task(_run_job(job, how))

    loop = asyncio.get_running_loop()
    with how.signals.send_to_job(
        lambda: loop.call_soon_threadsafe(job.stop),
        lambda: loop.call_soon_threadsafe(running.cancel),
    ):
        try:
            return await running
        except asyncio.CancelledError:
            if how.signals.count > 1:
                raise JobInterrupted from None
            raise
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)


async def _run_job(job: Job, how: LaunchOptions) -> JobOutcome:
    outcome = await job.run()
    await how.on_ended(job, outcome)
    return outcome
