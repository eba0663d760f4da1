"""A job in a process of its own: the loop, the threads, the signals.

The first SIGINT or SIGTERM asks the job to stop, with a checkpoint to go on from. A second
ends it at once: what is open is dropped, and a thread that still works is waited for, though not
for ever. A third does not wait for that either.
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
"""What looks at a job while it runs; it is cancelled when the job is over."""


async def _nothing(job: Job, outcome: Outcome) -> None:
    """Nobody waits for the end."""


class Interrupted(Exception):
    """Somebody asked twice: the job was ended where it was."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a job is run in this process, beside its plan."""

    folder: Path
    """The pipeline's folder."""
    bounds: Bounds = field(default_factory=Bounds)
    limit: int | None = None
    watchers: tuple[Watcher, ...] = ()
    over: Callable[[Job, Outcome], Awaitable[None]] = _nothing
    """Awaited when the job has ended, and before its process lets go of anything."""
    asked: Callable[[], None] = lambda: None
    """Called when somebody asks for the end the first time."""
    tell: Callable[[str], None] = lambda line: None
    """Tells the user what goes on without them, in a line."""
    keeping: Keeping | None = None
    """What it is kept with, if it can go on from a checkpoint."""
    restored: Checkpoint | None = None
    """The checkpoint that it begins with."""
    job: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Its id."""
    signals: Signals = field(default_factory=Signals)
    """Whoever has not entered them hears none: they are the caller's own affair then."""


def launch(plan: Plan, connectors: Connectors, backend: StateBackend, how: Launch) -> Outcome:
    """Run a job to its end. What is refused before it begins is raised: ConnectorError,
    SnapshotError.
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
