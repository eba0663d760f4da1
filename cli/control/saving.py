"""Savepoints of a running job: written in the threads of checkpoints, with progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeAlias

from headrace.core.bench import KernelExecutor, wait_until_done

PROGRESS_INTERVAL_S = 0.2
"""The least time between two progress messages."""

ByteProgress: TypeAlias = "Callable[[int, int], None]"
"""Called with the bytes written and the total; an exception that it raises ends the writing."""

SavepointExport: TypeAlias = "Callable[[int, str | None, ByteProgress], str]"
"""Makes a savepoint of a checkpoint at a location, by default among the job's; returns its path.

It may take long. Raises SnapshotError, and then leaves no incomplete savepoint.
"""


class ProgressReceiver(Protocol):
    """A receiver of progress, in words and numbers."""

    def __call__(self, words: str, **numbers: float) -> None:
        """Receive progress."""
        ...


class SavepointAbandoned(Exception):
    """A savepoint was abandoned."""


@dataclass(slots=True)
class SavepointWriter:
    """Writer of savepoints."""

    export: SavepointExport
    kernel_executor: KernelExecutor = field(default_factory=KernelExecutor)
    is_abandoned: bool = False
    """Whether the savepoint being written is abandoned."""

    async def save(self, number: int, to: str | None, say: ProgressReceiver) -> str:
        """Make a savepoint; return its path. Raises SnapshotError, SavepointAbandoned."""
        loop = asyncio.get_running_loop()
        last = 0.0

        def tell(written: int, of: int) -> None:
            nonlocal last
            if self.is_abandoned:
                raise SavepointAbandoned
            if time.monotonic() - last >= PROGRESS_INTERVAL_S:
                last = time.monotonic()
                words = f"writing a savepoint from checkpoint {number}"
                loop.call_soon_threadsafe(partial(say, words, done=written, of=of))

        work = partial(self.export, number, to, tell)
        writing = asyncio.ensure_future(self.kernel_executor.run_blocking(work))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            self.is_abandoned = True
            await wait_until_done(writing)
            raise
