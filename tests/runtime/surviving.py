"""A job over memory that fails, is stopped or killed, and begun again, on a disk that may forget.

The disk is that of `state/storage/memory_disk`; what happens is drawn from a seed.
"""

from __future__ import annotations

import asyncio
import errno
import random
import re
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeAlias

import polars as pl

from headrace.connectors.memory import Memory, MemoryReading, MemorySource
from headrace.core.asked import Refused
from headrace.core.bench import Bench
from headrace.core.channel import Bounds
from headrace.core.checkpoints import Rhythm
from headrace.core.contracts import Arrival, ConnectorError, Reading, Surroundings
from headrace.core.job import Job, Outcome
from headrace.core.keeping import Keeping
from headrace.core.news import News
from headrace.core.pipeline.settings import FixedRestart, NoRestart, Restart
from headrace.core.plan import nodes
from headrace.core.restart import Restarts
from headrace.core.snapshots import SnapshotError
from headrace.core.state import StateBackend
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.memory_disk import MemoryDisk
from tests.runtime.running import job_of, plan_of
from tests.simulation import SimulatedLoop

MOST_TURNS = 50_000
NOW = "2026-01-31T08:00:00Z"
PATIENT = FixedRestart.model_construct(attempts=100, delay=timedelta(seconds=1))


Outputs: TypeAlias = "tuple[dict[str, list[pl.DataFrame]], dict[str, list[pl.DataFrame]]]"
"""What the world has of a job: committed and prepared output."""


class Crashed(BaseException):
    """The process is no more."""


class MortalLoop(SimulatedLoop):
    """A simulated loop that comes to its end after so many turns."""

    def __init__(self, seed: int, last: int | None = None) -> None:
        super().__init__(seed)
        self.turns = 0
        self.last = last
        self.set_exception_handler(lambda loop, context: None)

    def pass_time(self, seconds: float) -> None:
        """Something has kept everybody waiting."""
        self._now += seconds

    def _run_once(self) -> None:
        self.turns += 1
        if self.last is not None and self.turns > self.last:
            raise Crashed
        assert self.turns < MOST_TURNS, "it does not come to an end"
        super()._run_once()


@dataclass(slots=True)
class Fate:
    """What happens in one life; None: nothing of the kind."""

    last_turn: int | None = None
    """It is killed behind this turn of the loop."""
    last_operation: int | None = None
    """It is killed before this operation of the disk."""
    failing: range = range(0)
    """The operations of the disk that fail."""
    slow_s: float = 0.0
    """How long each takes."""
    stopped_at: float | None = None
    """When somebody asks for the end."""
    drains: bool = False
    """Whether as if time were over."""
    unread: int | None = None
    """What is read so many arrivals on cannot be read, once."""
    restart: Restart = field(default_factory=NoRestart)
    parallelism: int | None = None
    """That of this life; None: as the pipeline says."""
    rescaled: Mapping[float, int] = field(default_factory=dict)
    """When it is rescaled, and to what."""
    saved: Sequence[float] = ()
    """When somebody asks for a checkpoint, which is read then."""

    @classmethod
    def drawn(cls, chance: random.Random) -> Fate:
        """One of the kinds, or two."""
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
class FlakyMemory(Memory):
    """Memory of which something cannot be read, once."""

    unread: int | None = None
    unopened: int = 0
    """So often it cannot be opened."""

    def _source(self, source: nodes.Source, surroundings: Surroundings) -> MemorySource:
        if self.unopened:
            self.unopened -= 1
            raise ConnectorError("the memory is out of order")
        made = Memory._source(self, source, surroundings)
        return _FlakySource(made.source, made.splits, made.rediscover_s, made.ordered, self)


@dataclass(slots=True)
class _FlakySource(MemorySource):
    memory: FlakyMemory

    def reading(self) -> Reading:
        return _FlakyReading(self)


class _FlakyReading(MemoryReading):
    async def next(self) -> Arrival | None:
        arrival = await MemoryReading.next(self)
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
    rhythm: Rhythm = field(default_factory=lambda: Rhythm(every_s=1.0))
    bounds: Bounds = field(default_factory=lambda: Bounds(rows=7))
    aligned: bool = True
    backend: Callable[[], StateBackend] | None = None
    anew: frozenset[str] = frozenset()
    """The steps and sources that forget what is kept of them."""
    disk: MemoryDisk | LocalDisk = field(default_factory=MemoryDisk)
    """Trouble is made of the one in memory."""
    root: str = "/jobs"
    news: list[News] = field(default_factory=list)
    finished: bool = False
    rescaled: list[float] = field(default_factory=list)
    """How long it stood still for each rescale."""
    saved: list[int] = field(default_factory=list)
    """The checkpoints that somebody asked for and got."""
    job: Job | None = None
    _operations: int = 0
    _dead: bool = False
    _left: Outputs | None = None
    """What there is of a dead process."""

    def run(self, seed: int, fate: Fate | None = None) -> Outcome:
        """Run from the newest checkpoint on; raises Crashed."""
        fate = fate or Fate()
        loop = MortalLoop(seed, fate.last_turn)
        self._operations, self._dead, self._left = 0, False, None
        self.memory.unread = fate.unread
        home = Home(self.disk, self.root, "test")
        try:
            with home.held(NOW):
                job = self._job(home, fate)
                self._trouble(lambda operation, path: self._before(loop, fate))
                if fate.stopped_at is not None:
                    loop.call_later(fate.stopped_at, partial(job.stop, drain=fate.drains))
                return loop.run_until_complete(self._controlled(job, fate))
        except (Crashed, AssertionError):
            self._bury(loop)
            raise
        finally:
            self._trouble(_nothing)
            loop.close()

    def end(self, chance: random.Random) -> None:
        """What a crash leaves: perhaps the power went as well."""
        assert isinstance(self.disk, MemoryDisk)
        if chance.random() < 0.5:
            self.disk.kill()
        else:
            self.disk.lose_power(chance)

    async def _controlled(self, job: Job, fate: Fate) -> Outcome:
        """Run it, while somebody asks for this and that."""
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
        with suppress(Refused):
            rescaled = await job.rescale(plan)
            assert job.plan is plan or job.status != "running"
            self.rescaled.append(rescaled.stood_still_s)

    async def _save(self, job: Job) -> None:
        """Have a checkpoint, and look whether it is whole as long as it is wanted."""
        with suppress(Refused):
            number = await job.checkpoint()
            assert job.keeping is not None
            try:
                await asyncio.sleep(3)
                with suppress(SnapshotError, Crashed):
                    there = job.keeping.store.manifests()
                    assert number in there, "it was collected, or never there"
                    self.saved.append(number)
            finally:
                job.release(number)

    def _plan(self, parallelism: int) -> nodes.Plan:
        return plan_of(self.folder, self._text(parallelism), {"memory": self.memory.connector()})

    def _text(self, parallelism: int | None) -> str:
        if parallelism is None:
            return self.text
        said = f"settings: {{parallelism: {parallelism}"
        return re.sub(r"settings: {parallelism: \d+", said, self.text)

    def _trouble(self, before: Callable[[str, str], None]) -> None:
        if isinstance(self.disk, MemoryDisk):
            self.disk.before = before

    def _job(self, home: Home, fate: Fate) -> Job:
        text = self._text(fate.parallelism)
        job = job_of(self.folder, text, self.memory, Bench(), self.bounds, self.backend)
        job.keeping = Keeping(
            home.store(home.job(NOW, lambda: "0" * 32)),
            Restarts(fate.restart),
            self.rhythm,
            aligned=self.aligned,
            tell=self.news.append,
            finish=self._finish,
            note=home.note,
            noted=home.noted,
            time=lambda: NOW,
            anew=self.anew,
        )
        job.keeping.resumed = job.keeping.last_number()
        job.restored = job.keeping.newest(job.plan)
        self.job = job
        return job

    def _before(self, loop: MortalLoop, fate: Fate) -> None:
        """Before an operation of the disk."""
        at, self._operations = self._operations, self._operations + 1
        loop.pass_time(fate.slow_s)
        if at == fate.last_operation:
            loop.last, self._dead = loop.turns, True
            self._left = self._outputs()
        if self._dead or at in fate.failing:
            raise OSError(errno.EIO, "injected")

    def _bury(self, loop: MortalLoop) -> None:
        """Let the tasks of a dead process end; the world does not hear of it."""
        left = self._left or self._outputs()
        self._dead, loop.last, loop.turns = True, None, 0
        loop.run_until_complete(_ended(asyncio.all_tasks(loop)))
        self.memory.outputs, self.memory.prepared = left

    def _outputs(self) -> Outputs:
        outputs = {name: [*frames] for name, frames in self.memory.outputs.items()}
        return outputs, {name: [*frames] for name, frames in self.memory.prepared.items()}

    def _finish(self) -> None:
        self.finished = True


def live(life: Life, fates: Sequence[Fate], chance: random.Random) -> Outcome:
    """One life after the other, until one comes to the end of the job; the last has no trouble."""
    for fate in fates:
        try:
            outcome = life.run(chance.randrange(1000), fate)
            if life.finished:
                return outcome
        except Crashed:
            life.end(chance)
        except SnapshotError as error:
            # It could not be read just now, and the process has ended without touching anything.
            assert fate.failing, error
    return life.run(chance.randrange(1000))


async def _later(at: float, do: Callable[[], Coroutine[None, None, None]]) -> None:
    await asyncio.sleep(at)
    await do()


async def _ended(tasks: Collection[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _nothing(operation: str, path: str) -> None:
    """A disk that works."""
