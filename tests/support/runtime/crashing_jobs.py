"""A job over memory that fails, is stopped or killed, and restarted, on a disk that may lose data.

The disk is that of `state/storage/memory_disk`; the faults are drawn from a seed.
"""

from __future__ import annotations

import asyncio
import errno
import random
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeAlias

import polars as pl

from headrace.cli.pipeline_tests.simulated_job import (
    build_memory_storage,
    end_tasks,
    ignore_operation,
)
from headrace.connectors.memory import InMemoryData, MemorySource, MemorySplitReader
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.snapshots import Manifest, SnapshotError
from headrace.core.api.sources import SourceEvent, SplitReader
from headrace.core.api.state_backend import StateBackend
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.coordination.events import JobEvent
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.job.job import Job, JobOutcome
from headrace.core.job.requests import RequestRejected
from headrace.core.pipeline.settings import FixedRestart, NoRestart, Restart
from headrace.core.plan import nodes
from headrace.core.testing.simulated_loop import SimulatedLoop
from headrace.state.rocks.backend import RocksBackend
from headrace.state.storage.home import Home
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.runtime.faulty_disk import FaultyDisk
from tests.support.runtime.memory_pipelines import bounds_of, job_of_plan, plan_of

MOST_TURNS = 200_000
NOW = "2026-01-31T08:00:00Z"
PATIENT = FixedRestart.model_construct(attempts=100, delay=timedelta(seconds=1))


Outputs: TypeAlias = "tuple[dict[str, list[pl.DataFrame]], dict[str, list[pl.DataFrame]]]"
"""The output that outlives a process: committed and prepared."""


class Crashed(BaseException):
    """The process was killed."""


class MortalLoop(SimulatedLoop):
    """A simulated loop that is killed after a number of turns."""

    def __init__(self, seed: int, last: int | None = None, slow_share: float = 0.0) -> None:
        super().__init__(seed, slow_share)
        self.turns = 0
        self.last = last
        self.set_exception_handler(lambda loop, context: None)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, as if everything were blocked."""
        self._now += seconds

    def now_us(self) -> int:
        """Return the time, also in a thread in which operators are built."""
        return int(self._now * 1e6)

    def kill(self) -> None:
        """Kill the process after this turn."""
        self.last = self.turns

    def _run_once(self) -> None:
        self.turns += 1
        if self.last is not None and self.turns > self.last:
            raise Crashed
        assert self.turns < MOST_TURNS, "it does not end"
        super()._run_once()


@dataclass(slots=True)
class Fate:
    """The faults and requests in one life of a process; None: none of that kind."""

    last_turn: int | None = None
    """The process is killed after this turn of the loop."""
    last_operation: int | None = None
    """The process is killed before this operation of the disk."""
    killed_at: float | None = None
    """The process is killed at this time."""
    failing: range = range(0)
    """The operations of the disk that fail."""
    slow_s: float = 0.0
    """The duration of a disk operation."""
    stopped_at: float | None = None
    """The time of a stop request."""
    drains: bool = False
    """Whether the stop request asks to drain."""
    unread: int | None = None
    """The number of arrivals after which one read fails."""
    restart: Restart = field(default_factory=NoRestart)
    parallelism: int | None = None
    """The parallelism of this life; None: that of the pipeline."""
    rescaled: Mapping[float, int] = field(default_factory=dict)
    """The parallelism by time of the rescale request."""
    saved: Sequence[float] = ()
    """The times of checkpoint requests; the checkpoints are then read."""

    @classmethod
    def drawn(cls, chance: random.Random) -> Fate:
        """Draw one or two kinds of faults."""
        fate = cls(restart=PATIENT, parallelism=chance.choice([None, 1, 2, 3, 5]))
        times = [chance.uniform(0, 8) for _ in range(chance.choice([0, 0, 1, 3]))]
        fate.rescaled = {at: chance.choice([1, 2, 3, 4]) for at in times}
        fate.saved = [chance.uniform(0, 8) for _ in range(chance.choice([0, 0, 1, 3]))]
        for kind in chance.sample(range(6), chance.choice([1, 2])):
            match kind:
                case 0:
                    fate.last_turn = chance.randrange(400)
                case 1:
                    fate.last_operation = chance.randrange(150)
                case 2:
                    first = chance.randrange(10, 150)
                    fate.failing = range(first, first + chance.choice([1, 5, 40]))
                case 3:
                    fate.slow_s = chance.choice([0.01, 0.3])
                case 4:
                    fate.stopped_at = chance.uniform(0, 8)
                case 5:
                    fate.unread = chance.randrange(30)
        return fate


@dataclass(slots=True)
class FlakyMemory(InMemoryData):
    """A memory of which one read fails."""

    unread: int | None = None
    unopened: int = 0
    """The number of times that it cannot be opened."""

    def _open_source(self, source: nodes.Source, surroundings: RunContext) -> MemorySource:
        if self.unopened:
            self.unopened -= 1
            raise ConnectorError("the memory is out of order")
        made = InMemoryData._open_source(self, source, surroundings)
        return _FlakySource(
            made.source, made.splits, made.discovery_interval_s, made.is_ordered, self
        )


@dataclass(slots=True)
class _FlakySource(MemorySource):
    memory: FlakyMemory

    def create_reader(self) -> SplitReader:
        return _FlakyReading(self)


class _FlakyReading(MemorySplitReader):
    async def fetch(self) -> SourceEvent | None:
        arrival = await MemorySplitReader.fetch(self)
        source = self._source
        assert isinstance(source, _FlakySource)
        left = source.memory.unread
        if left is not None:
            source.memory.unread = left - 1 if left else None
            if not left:
                raise ConnectorError("the memory is out of order")
        return arrival


@dataclass(slots=True)
class Life:
    """A job with its home."""

    folder: Path
    text: str
    memory: FlakyMemory
    rhythm: CheckpointSchedule = field(default_factory=lambda: CheckpointSchedule(interval_s=1.0))
    bounds: ChannelBounds | None = None
    aligned: bool = True
    backend: Callable[[], StateBackend] | None = None
    fresh: frozenset[str] = frozenset()
    """The steps and sources that start fresh."""
    disk: MemoryDisk | FaultyDisk = field(default_factory=MemoryDisk)
    root: str = "/jobs"
    news: list[JobEvent] = field(default_factory=list)
    finished: bool = False
    rescaled: list[float] = field(default_factory=list)
    """The downtime of each rescale."""
    saved: list[int] = field(default_factory=list)
    """The checkpoints that were requested and taken."""
    job: Job | None = None
    slow_share: float = 0.0
    """The share of tasks of which each step may be delayed."""
    on_committed: Callable[[Manifest], None] = lambda manifest: None
    """Called with the manifest of each checkpoint when all its output is committed."""
    clock_s: float = 0.0
    """The time of the wall clock at which the next process starts."""
    _plans: dict[str, nodes.Plan] = field(default_factory=dict)
    """The plans of earlier lives, by their texts."""
    _operations: int = 0
    _dead: bool = False
    _left: Outputs | None = None
    """The output that a killed process leaves."""

    def run(self, seed: int, fate: Fate | None = None) -> JobOutcome:
        """Run from the newest checkpoint. Raises Crashed."""
        fate = fate or Fate()
        loop = MortalLoop(seed, fate.last_turn, self.slow_share)
        loop.pass_time(self.clock_s)
        self._operations, self._dead, self._left = 0, False, None
        self.memory.unread = fate.unread
        home = Home(self.disk, self.root, "test")
        try:
            with home.hold(NOW):
                job = self._job(home, fate, seed, loop.now_us)
                self.disk.before_operation = lambda operation, path: self._before(loop, fate)
                if fate.stopped_at is not None:
                    loop.call_later(fate.stopped_at, partial(job.stop, drain=fate.drains))
                if fate.killed_at is not None:
                    loop.call_later(fate.killed_at, loop.kill)
                return loop.run_until_complete(self._controlled(job, fate))
        except (Crashed, AssertionError):
            self._bury(loop)
            raise
        finally:
            self.disk.before_operation = ignore_operation
            loop.close()

    def spill(self, memory_bytes: int) -> None:
        """Store states in RocksDB, which needs a real disk; those of each process in a folder."""
        self.disk, self.root, numbers = FaultyDisk(), f"{self.folder}/jobs", count()
        self.backend = lambda: RocksBackend(f"{self.folder}/{next(numbers)}", memory_bytes)

    def end(self, chance: random.Random) -> None:
        """Apply a crash to the disk: the process was killed, or the power failed.

        A real disk keeps all that was written.
        """
        if isinstance(self.disk, FaultyDisk):
            return
        if chance.random() < 0.5:
            self.disk.kill()
        else:
            self.disk.lose_power(chance)

    async def _controlled(self, job: Job, fate: Fate) -> JobOutcome:
        """Run the job, and send it requests meanwhile."""
        try:
            async with asyncio.TaskGroup() as group:
                for at, parallelism in fate.rescaled.items():
                    plan = self._plan(parallelism)
                    group.create_task(_later(at, partial(self._rescale, job, plan)))
                for at in fate.saved:
                    group.create_task(_later(at, partial(self._save, job)))
                return await job.run()
        except BaseExceptionGroup as errors:
            unread = errors.subgroup(SnapshotError)
            raise unread.exceptions[0] if unread else errors from None

    async def _rescale(self, job: Job, plan: nodes.Plan) -> None:
        with suppress(RequestRejected):
            rescaled = await job.rescale(plan)
            assert job.plan is plan or job.status != "running"
            self.rescaled.append(rescaled.downtime_s)

    async def _save(self, job: Job) -> None:
        """Request a checkpoint, and check that it exists while it is pinned."""
        with suppress(RequestRejected):
            number = await job.take_checkpoint()
            assert job.storage is not None
            try:
                await asyncio.sleep(3)
                with suppress(SnapshotError, Crashed):
                    there = job.storage.store.list_checkpoints()
                    assert number in there, "it was collected, or never existed"
                    self.saved.append(number)
            finally:
                job.release_checkpoint(number)

    def _plan(self, parallelism: int | None) -> nodes.Plan:
        text = self._text(parallelism)
        if text not in self._plans:
            connectors = {"memory": self.memory.build_connector()}
            self._plans[text] = plan_of(self.folder, text, connectors)
        return self._plans[text]

    def _text(self, parallelism: int | None) -> str:
        if parallelism is None:
            return self.text
        said = f"settings: {{parallelism: {parallelism}"
        return re.sub(r"settings: {parallelism: \d+", said, self.text)

    def _job(self, home: Home, fate: Fate, seed: int, now_us: Callable[[], int]) -> Job:
        plan = self._plan(fate.parallelism)
        bounds = self.bounds or bounds_of(seed)
        bench = KernelExecutor()
        job = job_of_plan(self.folder, plan, self.memory, bench, bounds, self.backend, now_us)
        storage = replace(
            build_memory_storage(home),
            restarts=RestartPolicy(fate.restart),
            schedule=self.rhythm,
            is_aligned=self.aligned,
            on_event=self.news.append,
            on_finished=self._finish,
            write_commit_record=partial(self._record_commit, home),
            time=lambda: NOW,
            fresh_parts=self.fresh,
        )
        storage.resumed_number = storage.find_last_number()
        job.spec = replace(job.spec, storage=storage)
        job.initial_checkpoint = storage.read_newest(job.plan)
        self.job = job
        return job

    def _record_commit(self, home: Home, number: int) -> None:
        home.write_commit_record(number)
        if not self._dead:
            assert self.job is not None and self.job.storage is not None
            with self._without_faults():
                self.on_committed(self.job.storage.store.read_manifest(number))

    @contextmanager
    def _without_faults(self) -> Iterator[None]:
        """Read the disk as a test, and not as the process."""
        before, self.disk.before_operation = self.disk.before_operation, ignore_operation
        try:
            yield
        finally:
            self.disk.before_operation = before

    def _before(self, loop: MortalLoop, fate: Fate) -> None:
        """Inject faults before an operation of the disk."""
        at, self._operations = self._operations, self._operations + 1
        loop.pass_time(fate.slow_s)
        if at == fate.last_operation:
            loop.last, self._dead = loop.turns, True
            self._left = self._outputs()
        if self._dead or at in fate.failing:
            raise OSError(errno.EIO, "injected")

    def _bury(self, loop: MortalLoop) -> None:
        """End the tasks of a killed process, without any effect outside."""
        left = self._left or self._outputs()
        self._dead, loop.last, loop.turns = True, None, 0
        end_tasks(loop)
        self.memory.outputs, self.memory.prepared_batches = left

    def _outputs(self) -> Outputs:
        outputs = {name: [*frames] for name, frames in self.memory.outputs.items()}
        return outputs, {name: [*frames] for name, frames in self.memory.prepared_batches.items()}

    def _finish(self) -> None:
        self.finished = True


def live(life: Life, fates: Sequence[Fate], chance: random.Random) -> JobOutcome:
    """Live one life after the other until the job ends; the last life has no faults."""
    for fate in fates:
        try:
            outcome = life.run(chance.randrange(1000), fate)
            if life.finished:
                return outcome
        except Crashed:
            life.end(chance)
        except SnapshotError as error:
            # A read failed, and the process has ended without changing anything.
            assert fate.failing, error
    return life.run(chance.randrange(1000))


async def _later(at: float, do: Callable[[], Coroutine[None, None, None]]) -> None:
    await asyncio.sleep(at)
    await do()
