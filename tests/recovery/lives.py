"""A shipped pipeline on the simulated loop: killed after a checkpoint, and run again.

Its home is on a disk in memory, its files are real. Effects of the tasks of a killed process on
files while they are taken down are undone: a process that is killed does nothing.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headrace.cli.pipelines import check
from headrace.core.asked import Refused
from headrace.core.bench import Bench
from headrace.core.channel import Bounds
from headrace.core.checkpoints import Rhythm
from headrace.core.compile import Setting
from headrace.core.connector import Connectors
from headrace.core.contracts import Surroundings
from headrace.core.job import Job, Outcome
from headrace.core.keeping import Keeping
from headrace.core.messages import CheckpointFailed, CheckpointTaken
from headrace.core.news import News
from headrace.core.pipeline.settings import NoRestart
from headrace.core.restart import Restarts
from headrace.core.state import StateBackend
from headrace.state.savepoints.adopting import adopt
from headrace.state.savepoints.savepoint import open_savepoint
from headrace.state.savepoints.taking import take
from headrace.state.storage.home import Home
from headrace.state.storage.memory_disk import MemoryDisk
from tests.runtime.surviving import NOW, Crashed, MortalLoop

RHYTHM = Rhythm(every_s=0.05, tolerable=1000)


class TickingLoop(MortalLoop):
    """Each of its turns takes a millisecond: files are read without waiting for anything."""

    def _run_once(self) -> None:
        self.pass_time(0.001)
        super()._run_once()


@dataclass(slots=True)
class Lives:
    """A job that `run` may kill, any number of times."""

    config: Path
    values: tuple[str, ...]
    connectors: Connectors
    backend: Callable[[Path], StateBackend]
    chance: random.Random
    bounds: Bounds = field(default_factory=Bounds)
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    rhythm: Rhythm = RHYTHM
    news: list[News] = field(default_factory=list)
    heard: Callable[[News], None] = lambda news: None
    killed: int = 0
    rescales: Sequence[tuple[str, ...]] = ()
    """The overrides of each rescale, one after the other, from the first checkpoint on."""
    rescaled: int = 0
    finished: bool = False
    saved: int = 0
    """How often the job has resumed from a savepoint."""
    up: int = 2
    """How many folders the folder with `build` is above the pipeline's file."""
    _running: Job | None = None

    def run(self, after: int | None = None, *, stop: bool = False) -> Outcome | None:
        """Run it to its end, or kill it soon after that many checkpoints: then None.

        With `stop` it is stopped after them, and its last checkpoint returns as a savepoint.
        """
        loop = TickingLoop(self.chance.randrange(1000))
        home = Home(self.disk, "/jobs", "test")
        taken = 0

        def report(news: News) -> None:
            nonlocal taken
            self.news.append(news)
            self.heard(news)
            taken += isinstance(news, CheckpointTaken)
            if taken == after and stop:
                assert self._running is not None
                self._running.stop()
            elif taken == after:
                loop.last = loop.turns + self.chance.choice([0, 1, 3, 10, 40])

        try:
            with home.held(NOW):
                self._running = self._job(home, report)
                outcome = loop.run_until_complete(self._run(self._running))
                if outcome.stopped:
                    self._through_savepoint(home)
                return outcome
        except Crashed:
            self.killed += 1
            self._bury(loop)
            return None
        finally:
            loop.close()

    def _through_savepoint(self, home: Home) -> None:
        self.saved += 1
        folder = take(home, "0", to=f"/saved/{self.saved}", time=lambda: NOW)
        store = home.store(home.job(NOW))
        number = max(store.manifests()) + 1
        adopt(open_savepoint(folder, self.disk), store, number)
        store.collect([number])

    async def _run(self, job: Job) -> Outcome:
        rescaling = asyncio.create_task(self._rescale(job))
        try:
            return await job.run()
        finally:
            await asyncio.gather(rescaling, return_exceptions=True)

    async def _rescale(self, job: Job) -> None:
        for values in self.rescales:
            plan = check(str(self.config), values).plan
            assert plan is not None
            with suppress(Refused):
                await job.rescale(plan)
                self.rescaled += 1
            await asyncio.sleep(0.01)

    @property
    def site(self) -> Path:
        """The folder that it writes below."""
        return self.config.parents[self.up - 1]

    @property
    def taken(self) -> list[int]:
        """The checkpoints that are complete."""
        return [news.number for news in self.news if isinstance(news, CheckpointTaken)]

    @property
    def failed(self) -> list[str]:
        """Why checkpoints have failed."""
        return [news.why for news in self.news if isinstance(news, CheckpointFailed)]

    def _job(self, home: Home, report: Callable[[News], None]) -> Job:
        checked = check(str(self.config), self.values)
        assert checked.plan is not None, checked.problems
        job = home.job(NOW, lambda: "5eed" * 8)
        folder, read = self.config.parent, frozenset(edge.stream for edge in checked.plan.edges)
        state = self.site / "state"
        shutil.rmtree(state, ignore_errors=True)
        made = Job(
            checked.plan,
            self.connectors,
            Surroundings(folder, job, Bench()),
            Setting(lambda: 0, folder, read, self.backend(state)),
            self.bounds,
        )
        made.keeping = Keeping(
            home.store(job),
            Restarts(NoRestart()),
            self.rhythm,
            tell=report,
            finish=self._finish,
            note=home.note,
            noted=home.noted,
            time=lambda: NOW,
        )
        made.restored = made.keeping.newest(made.plan)
        return made

    def _bury(self, loop: TickingLoop) -> None:
        """Take the tasks down, without a trace of it."""
        build, kept = self.site / "build", self.site / "kept"
        if build.exists():
            shutil.copytree(build, kept)
        loop.last = None
        self.disk.before = _gone
        loop.run_until_complete(_taken_down(asyncio.all_tasks(loop)))
        self.disk.before = _nothing
        shutil.rmtree(build, ignore_errors=True)
        if kept.exists():
            kept.rename(build)
        self.disk.kill()

    def _finish(self) -> None:
        self.finished = True


async def _taken_down(tasks: Collection[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _gone(operation: str, path: str) -> None:
    raise OSError("the process is no more")


def _nothing(operation: str, path: str) -> None:
    """A disk that works."""
