"""A job in a process of its own: the loop, the threads, the signals.

The first SIGINT or SIGTERM asks the job to stop: what was read is finished and committed. A second
ends it at once: what is open is dropped, and a thread that still works is waited for, though not
for ever. A third does not wait for that either. Signals are counted outside of the loop, because a
user's function may be keeping the loop from turning.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from headrace.core.bench import Bench
from headrace.core.channel import Bounds
from headrace.core.compile import Setting
from headrace.core.contracts import Connectors, Surroundings
from headrace.core.job import Job, Outcome
from headrace.core.plan import Plan
from headrace.core.state import StateBackend

THREADS = 4
PATIENCE_S = 30.0
"""How long a thread may go on after everything was told to end."""
INTERRUPTED = 130

Watcher: TypeAlias = "Callable[[Job], Coroutine[object, object, None]]"
"""What looks at a job while it runs; it is cancelled when the job is over."""


class Interrupted(Exception):
    """Somebody asked twice: the job was ended where it was."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a job is run in this process, beside its plan."""

    folder: Path
    """The pipeline's folder."""
    bounds: Bounds = field(default_factory=Bounds)
    limit: int | None = None
    watcher: Watcher | None = None
    asked: Callable[[], None] = lambda: None
    """Called when somebody asks for the end the first time."""


def launch(plan: Plan, connectors: Connectors, backend: StateBackend, how: Launch) -> Outcome:
    """Run a job to its end. Raises ConnectorError for what is refused before it begins."""
    with ThreadPoolExecutor(THREADS, thread_name_prefix="headrace") as executor:
        surroundings = Surroundings(
            how.folder, uuid.uuid4().hex, Bench(executor), how.limit, lambda: job.stop()
        )
        read = frozenset(edge.stream for edge in plan.edges)
        setting = Setting(lambda: time.time_ns() // 1000, how.folder, read, backend)
        job = Job(plan, connectors, surroundings, setting, how.bounds)
        return asyncio.run(_until_over(job, how))


async def _until_over(job: Job, how: Launch) -> Outcome:
    running = asyncio.create_task(job.run())
    watching = asyncio.create_task(how.watcher(job)) if how.watcher else None

    def ask() -> None:
        how.asked()
        job.stop()

    with _listening(ask, running.cancel) as seen:
        try:
            return await running
        except asyncio.CancelledError:
            if len(seen) > 1:
                raise Interrupted from None
            raise
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)


@contextmanager
def _listening(ask: Callable[[], object], end: Callable[[], object]) -> Iterator[list[int]]:
    """Turn signals into requests to the running loop; the list grows with each signal."""
    loop = asyncio.get_running_loop()
    seen: list[int] = []

    def came(number: int, _: object) -> None:
        seen.append(number)
        if len(seen) > 2:
            os._exit(INTERRUPTED)
        loop.call_soon_threadsafe(end if len(seen) == 2 else ask)
        if len(seen) == 2:
            patience = threading.Timer(PATIENCE_S, os._exit, (INTERRUPTED,))
            patience.daemon = True
            patience.start()

    before = {number: signal.signal(number, came) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
