"""Savepoints of a running job, written in the threads of checkpoints; how far they have come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeAlias

from headrace.core.bench import Bench, until_done

EVERY_S = 0.2
"""The least time between two words."""

Tell: TypeAlias = "Callable[[int, int], None]"
"""Told how much of how much has been written; whatever it raises ends the writing."""

Export: TypeAlias = "Callable[[int, str | None, Tell], str]"
"""Make a savepoint of a checkpoint, there or where savepoints are: where it is. It may take long.

Raises SnapshotError. It leaves nothing behind but whole savepoints.
"""


class Say(Protocol):
    """Told how far it is, in words and numbers."""

    def __call__(self, words: str, **numbers: float) -> None:
        """Say it."""
        ...


class GivenUp(Exception):
    """Nobody waits for a savepoint any more."""


@dataclass(slots=True)
class Saving:
    """How savepoints are made."""

    export: Export
    bench: Bench = field(default_factory=Bench)
    given_up: bool = False
    """Whether what is being written is to be left."""

    async def save(self, number: int, to: str | None, say: Say) -> str:
        """Make one: where it is. Raises SnapshotError, GivenUp."""
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
