"""A job in a process of its own: the loop, the threads, the signals.

The first SIGINT or SIGTERM asks the job to stop: what was read is finished and committed. A second
ends it at once. A thread that is still working then is waited for, but not for ever.
"""

from __future__ import annotations

import asyncio
import signal
import time
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

from headrace.core.bench import Bench
from headrace.core.channel import Bounds
from headrace.core.compile import Setting
from headrace.core.contracts import Connectors, Surroundings
from headrace.core.job import Job, Outcome
from headrace.core.plan import Plan

THREADS = 4

Watcher: TypeAlias = "Callable[[Job], Coroutine[Any, Any, None]]"
"""What looks at a job while it runs; it is cancelled when the job is over."""


class Interrupted(Exception):
    """Somebody asked twice: the job was ended where it was."""


def launch(
    plan: Plan,
    connectors: Connectors,
    folder: Path,
    *,
    bounds: Bounds | None = None,
    limit: int | None = None,
    watcher: Watcher | None = None,
) -> Outcome:
    """Run a job to its end. Raises ConnectorError for what is refused before it begins."""
    with ThreadPoolExecutor(THREADS, thread_name_prefix="headrace") as executor:
        surroundings = Surroundings(folder, uuid.uuid4().hex, Bench(executor), limit)
        read = frozenset(edge.stream for edge in plan.edges)
        setting = Setting(lambda: time.time_ns() // 1000, folder, read)
        job = Job(plan, connectors, surroundings, setting, bounds or Bounds())
        return asyncio.run(_until_over(job, watcher))


async def _until_over(job: Job, watcher: Watcher | None) -> Outcome:
    running = asyncio.create_task(job.run())
    interrupts = _listen(job, running)
    watching = asyncio.create_task(watcher(job)) if watcher else None
    try:
        return await running
    except asyncio.CancelledError:
        if interrupts:
            raise Interrupted from None
        raise
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


def _listen(job: Job, running: asyncio.Task[Outcome]) -> list[int]:
    """Turn signals into requests; the list that is returned grows with each."""
    loop = asyncio.get_running_loop()
    seen: list[int] = []

    def asked(number: int) -> None:
        if seen:
            running.cancel()
        seen.append(number)
        job.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked, number)
    return seen
