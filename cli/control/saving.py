"""Savepoints of a running job: written in the threads of checkpoints, with progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeAlias

from headrace.core.bench import Bench, until_done

EVERY_S = 0.2
"""The least time between two progress messages."""

Tell: TypeAlias = "Callable[[int, int], None]"
"""Called with the bytes written and the total; an exception that it raises ends the writing."""

Export: TypeAlias = "Callable[[int, str | None, Tell], str]"
"""Makes a savepoint of a checkpoint at a location, by default among the job's; returns its path.

It may take long. Raises SnapshotError, and then leaves no incomplete savepoint.
"""


class Say(Protocol):
    """A receiver of progress, in words and numbers."""

    def __call__(self, words: str, **numbers: float) -> None:
        """Receive progress."""
        ...


class GivenUp(Exception):
    """A savepoint was abandoned."""


@dataclass(slots=True)
class Saving:
    """Writer of savepoints."""

    export: Export
    bench: Bench = field(default_factory=Bench)
    given_up: bool = False
    """Whether the savepoint being written is abandoned."""

    async def save(self, number: int, to: str | None, say: Say) -> str:
        """Make a savepoint; return its path. Raises SnapshotError, SavepointAbandoned."""
        loop = asyncio.get_running_loop()
        last = 0.0

        def tell(written: int, of: int) -> None:
            nonlocal last
            if self.given_up:
                raise GivenUp
            if time.monotonic() - last >= EVERY_S:
                last = time.monotonic()
                words = f"writing a savepoint from checkpoint {number}"
                loop.call_soon_threadsafe(partial(say, words, done=written, of=of))

        work = partial(self.export, number, to, tell)
        writing = asyncio.ensure_future(self.bench.blocking(work))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            self.given_up = True
            await until_done(writing)
            raise
