"""A job in a process of its own: the event loop, the threads, the signals.

The first SIGINT or SIGTERM stops the job, with a checkpoint to resume from. A second ends it at
once: uncommitted output is dropped, and a running thread is waited for, up to a limit. A third does
not wait.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from headrace.core.bench import Bench
from headrace.core.channel import Bounds
from headrace.core.compile import Setting
from headrace.core.connector import Connectors
from headrace.core.contracts import NoNotes, Surroundings
from headrace.core.job import Job, Outcome
from headrace.core.keeping import Keeping
from headrace.core.manifest import Checkpoint
from headrace.core.plan import Plan
from headrace.core.signals import Signals
from headrace.core.state import StateBackend

THREADS = 4
ARCHIVE_THREADS = 2

Watcher: TypeAlias = "Callable[[Job], Coroutine[object, object, None]]"
"""A coroutine that watches a running job; it is cancelled when the job is over."""


async def _nothing(job: Job, outcome: Outcome) -> None:
    """Do nothing."""


class Interrupted(Exception):
    """The job was ended at once by a second signal."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The settings for running a job in this process, in addition to its plan."""

    folder: Path
    """The pipeline's folder."""
    bounds: Bounds = field(default_factory=Bounds)
    limit: int | None = None
    watchers: tuple[Watcher, ...] = ()
    over: Callable[[Job, Outcome], Awaitable[None]] = _nothing
    """Awaited when the job has ended, before its process releases anything."""
    asked: Callable[[], None] = lambda: None
    """Called on the first request to end."""
    tell: Callable[[str], None] = lambda line: None
    """Reports an external warning to the user, in one line."""
    keeping: Keeping | None = None
    """The checkpoint storage, if the job can resume from checkpoints."""
    restored: Checkpoint | None = None
    """The checkpoint to start from."""
    job: str = field(default_factory=lambda: uuid.uuid4().hex)
    """The id of the job."""
    signals: Signals = field(default_factory=Signals)
    """The signal handlers.

    Unless the caller has entered them, they do nothing: signals are the caller's.
    """


def launch(plan: Plan, connectors: Connectors, backend: StateBackend, how: Launch) -> Outcome:
    """Run a job to its end.

    Raises ConnectorError or SnapshotError for errors before anything is read.
    """
    import polars  # noqa: F401 - not later, within the job: it puts its hook on SIGINT

    how.signals.renew()
    with (
        ThreadPoolExecutor(THREADS, thread_name_prefix="headrace") as executor,
        ThreadPoolExecutor(ARCHIVE_THREADS, thread_name_prefix="headrace-archive") as archive,
    ):
        surroundings = Surroundings(
            how.folder,
            how.job,
            Bench(executor),
            how.limit,
            lambda: job.stop(),
            Bench(archive),
            pipeline=str(plan.name),
            notes=how.keeping.notes if how.keeping else NoNotes(),
            tell=how.tell,
            commits=how.keeping.commits if how.keeping else None,
        )
        read = frozenset(edge.stream for edge in plan.edges)
        setting = Setting(lambda: time.time_ns() // 1000, how.folder, read, backend)
        job = Job(plan, connectors, surroundings, setting, how.bounds, how.keeping, how.restored)
        return asyncio.run(_until_over(job, how))


async def _until_over(job: Job, how: Launch) -> Outcome:
    watching = [asyncio.create_task(watcher(job)) for watcher in how.watchers]
    running = asyncio.create_task(_run(job, how))

    def ask() -> None:
        how.asked()
        job.stop()

    loop = asyncio.get_running_loop()
    with how.signals.heard(
        lambda: loop.call_soon_threadsafe(ask), lambda: loop.call_soon_threadsafe(running.cancel)
    ):
        try:
            return await running
        except asyncio.CancelledError:
            if how.signals.count > 1:
                raise Interrupted from None
            raise
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)


async def _run(job: Job, how: Launch) -> Outcome:
    outcome = await job.run()
    await how.over(job, outcome)
    return outcome
