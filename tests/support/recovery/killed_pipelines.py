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

from headrace.cli.pipeline_file import check_pipeline
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.state_backend import StateBackend
from headrace.core.checkpoint.storage import CheckpointStorage
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.coordination.events import JobEvent
from headrace.core.coordination.messages import CheckpointCompleted, CheckpointFailed
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.job.job import Job, JobOutcome
from headrace.core.job.requests import RequestRejected
from headrace.core.job.spec import JobSpec
from headrace.core.pipeline.settings import NoRestart
from headrace.core.plan.connector import Connectors
from headrace.state.savepoints.creation import take_savepoint
from headrace.state.savepoints.savepoint import commit_as_checkpoint, open_savepoint
from headrace.state.storage.home import Home
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.runtime.crashing_jobs import NOW, Crashed, MortalLoop

RHYTHM = CheckpointSchedule(interval_s=0.05, tolerable_failures=1000)


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
    bounds: ChannelBounds = field(default_factory=ChannelBounds)
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    rhythm: CheckpointSchedule = RHYTHM
    news: list[JobEvent] = field(default_factory=list)
    heard: Callable[[JobEvent], None] = lambda news: None
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

    def run(self, after: int | None = None, *, stop: bool = False) -> JobOutcome | None:
        """Run it to its end, or kill it soon after that many checkpoints: then None.

        With `stop` it is stopped after them, and its last checkpoint returns as a savepoint.
        """
        loop = TickingLoop(self.chance.randrange(1000))
        home = Home(self.disk, "/jobs", "test")
        taken = 0

        def report(news: JobEvent) -> None:
            nonlocal taken
            self.news.append(news)
            self.heard(news)
            taken += isinstance(news, CheckpointCompleted)
            if taken == after and stop:
                assert self._running is not None
                self._running.stop()
            elif taken == after:
                loop.last = loop.turns + self.chance.choice([0, 1, 3, 10, 40])

        try:
            with home.hold(NOW):
                self._running = self._job(home, report)
                outcome = loop.run_until_complete(self._run(self._running))
                if outcome.is_stopped:
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
        folder = take_savepoint(home, "0", to=f"/saved/{self.saved}", time=lambda: NOW)
        store = home.open_store(home.ensure_job_id(NOW))
        number = max(store.list_checkpoints()) + 1
        commit_as_checkpoint(open_savepoint(folder, self.disk), store, number)
        store.collect([number])

    async def _run(self, job: Job) -> JobOutcome:
        rescaling = asyncio.create_task(self._rescale(job))
        try:
            return await job.run()
        finally:
            await asyncio.gather(rescaling, return_exceptions=True)

    async def _rescale(self, job: Job) -> None:
        for values in self.rescales:
            plan = check_pipeline(str(self.config), values).plan
            assert plan is not None
            with suppress(RequestRejected):
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
        return [news.number for news in self.news if isinstance(news, CheckpointCompleted)]

    @property
    def failed(self) -> list[str]:
        """Why checkpoints have failed."""
        return [news.reason for news in self.news if isinstance(news, CheckpointFailed)]

    def _job(self, home: Home, report: Callable[[JobEvent], None]) -> Job:
        checked = check_pipeline(str(self.config), self.values)
        assert checked.plan is not None, checked.problems
        job = home.ensure_job_id(NOW, lambda: "5eed" * 8)
        folder, read = self.config.parent, frozenset(edge.stream for edge in checked.plan.edges)
        state = self.site / "state"
        shutil.rmtree(state, ignore_errors=True)
        storage = CheckpointStorage(
            home.open_store(job),
            RestartPolicy(NoRestart()),
            self.rhythm,
            on_event=report,
            on_finished=self._finish,
            write_commit_record=home.write_commit_record,
            read_commit_record=home.read_commit_record,
            write_completion_record=home.write_completion_record,
            read_completion_record=home.read_completion_record,
            time=lambda: NOW,
        )
        spec = JobSpec(
            checked.plan,
            self.connectors,
            RunContext(folder, job, KernelExecutor()),
            OperatorContext(lambda: 0, folder, read, self.backend(state)),
            self.bounds,
            storage,
        )
        return Job(spec, storage.read_newest(checked.plan))

    def _bury(self, loop: TickingLoop) -> None:
        """Take the tasks down, without a trace of it."""
        build, kept = self.site / "build", self.site / "kept"
        if build.exists():
            shutil.copytree(build, kept)
        loop.last = None
        self.disk.before_operation = _gone
        loop.run_until_complete(_taken_down(asyncio.all_tasks(loop)))
        self.disk.before_operation = _nothing
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
