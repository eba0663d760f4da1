"""Where kernels run: short ones here and now, long ones in a thread, so that the loop stays free.

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

LONG_S = 0.001
"""What takes longer than this is done in a thread: on the loop, it would keep others waiting."""


@dataclass(slots=True)
class Pace:
    """How long a kernel takes a row at most; a user's function may take long even for one.

    Of what a call of few rows takes, most is what any call costs. So what is believed moves only as
    far as the call forces it: up to where all but a call's cost was the rows', or down to where all
    of it was. No kernel is believed to be faster than one that is worth a thread by its rows alone.
    """

    row_s: float = LONG_S / LARGE_ROWS

    def is_long(self, rows: int) -> bool:
        """Whether a call with so many rows belongs in a thread."""
        return rows * self.row_s >= LONG_S

    def learn(self, rows: int, seconds: float) -> None:
        """A call with so many rows took so long."""
        if rows:
            least, most = (seconds - LONG_S) / rows, seconds / rows
            self.row_s = max(LONG_S / LARGE_ROWS, least, min(self.row_s, most))


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
            await until_done(thread)
            raise


async def until_done(thread: asyncio.Future[T]) -> None:
    """Wait for a thread, or a task, however often somebody wants to hurry."""
    while not thread.done():
        try:
            await asyncio.wait([thread])
        except asyncio.CancelledError:
            continue
    if not thread.cancelled():
        thread.exception()
