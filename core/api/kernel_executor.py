"""Execution of kernels: short ones on the event loop, long ones in a thread.

Polars releases the GIL, so a large kernel in a thread leaves the event loop free for other tasks
and control messages, and uses another core. Cancelling a task does not stop its thread; therefore a
cancelled task waits for the thread, so that its data is not closed while the thread uses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from headrace.core.api.forked_children import call_in_parent
from headrace.core.types.lazy_dataclass import dataclass

T = TypeVar("T")

THREADS = 4
ARCHIVE_THREADS = 2

LARGE_KERNEL_ROWS = 2000
"""From about this number of rows, a kernel takes longer than the round trip to a thread."""

LONG_KERNEL_S = 0.001
"""A kernel that takes longer than this runs in a thread: it would block the loop for too long."""


@dataclass(slots=True)
class CostModel:
    """An estimate of a kernel's cost per row, learned from its calls.

    User code may be slow even for one row. In a call with few rows, most of the time is the fixed
    cost of a call, so a measurement only bounds the cost per row: at most, all of the time was the
    rows'; at least, all but LONG_KERNEL_S was. The estimate moves only as far as these bounds force
    it. It never falls below the cost at which LARGE_KERNEL_ROWS rows are worth a thread.
    """

    row_s: float = LONG_KERNEL_S / LARGE_KERNEL_ROWS

    def is_long(self, rows: int) -> bool:
        """Whether a call with this number of rows belongs in a thread."""
        return rows * self.row_s >= LONG_KERNEL_S

    def learn(self, rows: int, seconds: float) -> None:
        """Update the estimate from the measured time of a call."""
        if rows:
            least, most = (seconds - LONG_KERNEL_S) / rows, seconds / rows
            self.row_s = max(LONG_KERNEL_S / LARGE_KERNEL_ROWS, least, min(self.row_s, most))


@dataclass(frozen=True, slots=True)
class KernelExecutor:
    """Runs kernels on the loop or in threads; without an executor all on the loop (simulation)."""

    executor: Executor | None = None

    async def run(self, rows: int, work: Callable[[], T]) -> T:
        """Run a kernel over this number of rows, in a thread if they are many."""
        if rows < LARGE_KERNEL_ROWS or self.executor is None:
            return call_in_parent(work)
        return await self.run_blocking(work)

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """Run work that waits for a disk, or takes long whatever its input, in a thread."""
        if self.executor is None:
            return call_in_parent(work)
        thread = asyncio.get_running_loop().run_in_executor(self.executor, call_in_parent, work)
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            await wait_until_done(thread)
            raise


@contextmanager
def open_executors() -> Iterator[tuple[KernelExecutor, KernelExecutor]]:
    """Open the threads of a process that runs subtasks: for kernels, and for snapshots."""
    with (
        ThreadPoolExecutor(THREADS, thread_name_prefix="headrace") as executor,
        ThreadPoolExecutor(ARCHIVE_THREADS, thread_name_prefix="headrace-archive") as archive,
    ):
        yield KernelExecutor(executor), KernelExecutor(archive)


async def wait_until_done(thread: asyncio.Future[T]) -> None:
    """Wait for a thread or a task, and ignore cancellations meanwhile."""
    while not thread.done():
        try:
            await asyncio.wait([thread])
        except asyncio.CancelledError:
            continue
    if not thread.cancelled():
        thread.exception()
