"""Where kernels run: small ones here and now, large ones in a thread, so that the loop stays free.

Polars releases the GIL, so a large kernel in a thread lets other tasks and control go on, and uses
another core. Cancelling a task does not stop its thread: whoever is cancelled waits for it first,
so that nothing it works on is closed under it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

LARGE_ROWS = 2000
"""From about this many rows on, a kernel takes longer than handing it to a thread and back."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The threads of a run; without an executor all runs on the loop, as a simulation wants."""

    executor: Executor | None = None

    async def run(self, rows: int, work: Callable[[], T]) -> T:
        """The result of a kernel over so many rows."""
        if rows < LARGE_ROWS or self.executor is None:
            return work()
        return await self.blocking(work)

    async def blocking(self, work: Callable[[], T]) -> T:
        """The result of work that waits for a disk, or takes long whatever its input."""
        if self.executor is None:
            return work()
        thread = asyncio.get_running_loop().run_in_executor(self.executor, work)
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            await _until_done(thread)
            raise


async def _until_done(thread: asyncio.Future[T]) -> None:
    """Wait for a thread, however often somebody wants to hurry."""
    while not thread.done():
        try:
            await asyncio.wait([thread])
        except asyncio.CancelledError:
            continue
    if not thread.cancelled():
        thread.exception()
