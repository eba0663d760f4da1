"""A job over memory that is killed and begun again, on a disk that keeps what was synced."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from headrace.connectors.memory import Memory
from headrace.core.bench import Bench
from headrace.core.channel import Bounds
from headrace.core.checkpoints import Rhythm
from headrace.core.job import Job, Outcome
from headrace.core.keeping import Keeping
from headrace.core.news import News
from headrace.core.pipeline.settings import NoRestart, Restart
from headrace.core.restart import Restarts
from headrace.state.storage.home import Home
from headrace.state.storage.memory_disk import MemoryDisk
from tests.runtime.running import job_of
from tests.simulation import SimulatedLoop

NOW = "2026-01-31T08:00:00Z"


class Crashed(BaseException):
    """The process is no more."""


class MortalLoop(SimulatedLoop):
    """A simulated loop that comes to its end after so many turns."""

    def __init__(self, seed: int, turns: int | None = None) -> None:
        super().__init__(seed)
        self.turns = 0
        self.last = turns
        self.set_exception_handler(lambda loop, context: None)

    def _run_once(self) -> None:
        self.turns += 1
        if self.last is not None and self.turns > self.last:
            raise Crashed
        super()._run_once()


async def _ended(tasks: Collection[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _dead(operation: str, path: str) -> None:
    raise OSError(operation, path)


@dataclass(slots=True)
class Life:
    """A job with its home. `before` is called before each operation of its disk."""

    folder: Path
    text: str
    memory: Memory
    rhythm: Rhythm = field(default_factory=lambda: Rhythm(every_s=1.0))
    before: Callable[[str, str], None] = lambda operation, path: None
    bounds: Bounds = field(default_factory=lambda: Bounds(rows=7))
    restart: Restart = field(default_factory=NoRestart)
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    news: list[News] = field(default_factory=list)
    finished: bool = False
    turns: int = 0
    """How many turns of the loop the last run took."""
    job: Job | None = None

    def run(self, seed: int, turns: int | None = None) -> Outcome:
        """Run from the newest checkpoint on; raises Crashed after so many turns of the loop."""
        self.disk.before = self.before
        loop = MortalLoop(seed, turns)
        try:
            home = Home(self.disk, "/home", "test")
            with home.held(NOW):
                return loop.run_until_complete(self._job(home).run())
        except Crashed:
            self._bury(loop)
            raise
        finally:
            self.turns = min(loop.turns, turns or loop.turns)
            loop.close()

    def _bury(self, loop: MortalLoop) -> None:
        """Let the tasks of a dead process end; the world does not hear of it."""
        outputs = {name: list(frames) for name, frames in self.memory.outputs.items()}
        prepared = dict(self.memory.prepared)
        self.disk.before = _dead
        loop.last = None
        loop.run_until_complete(_ended(asyncio.all_tasks(loop)))
        self.memory.outputs, self.memory.prepared = outputs, prepared

    def _job(self, home: Home) -> Job:
        job = job_of(self.folder, self.text, self.memory, Bench(), self.bounds)
        store = home.store(home.job(NOW, lambda: "0" * 32))
        job.keeping = Keeping(
            store,
            Restarts(self.restart),
            self.rhythm,
            tell=self.news.append,
            finish=self._finish,
            time=lambda: NOW,
        )
        job.restored = job.keeping.newest(job.plan)
        self.job = job
        return job

    def _finish(self) -> None:
        self.finished = True

    def end(self, chance: random.Random) -> None:
        """What a crash leaves: perhaps the power went as well."""
        self.disk.before = lambda operation, path: None
        if chance.random() < 0.5:
            self.disk.kill()
        else:
            self.disk.lose_power(chance)
