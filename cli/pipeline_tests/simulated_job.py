"""A job over memory in virtual time: fed, moved on, killed and restored by its driver."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import field
from typing import TYPE_CHECKING, TypeVar

from headrace.cli.command_group import find_installed_version
from headrace.cli.pipeline_tests.fed_source import FED, FedEvent, FedInput, build_fed_connector
from headrace.cli.pipeline_tests.isolated_plan import MEMORY, Planner, find_sink
from headrace.connectors.memory import InMemoryData
from headrace.connectors.memory_lookup import LookupTableData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.checkpoint.storage import CheckpointStorage
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.coordination.watermark_alignment import REPORT_INTERVAL_S
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.job.job import Job, JobOutcome
from headrace.core.job.requests import RequestRejected
from headrace.core.job.spec import JobSpec
from headrace.core.pipeline.settings import NoRestart
from headrace.core.plan import nodes
from headrace.core.plan.nodes import Plan
from headrace.core.testing.stepped_loop import SETTLING_S, SteppedLoop
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.backend import MemoryBackend
from headrace.state.storage.home import Home
from headrace.state.storage.memory_disk import MemoryDisk

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")

STARTED = "1970-01-01T00:00:00Z"
JOB_ID = "0" * 32
LONGEST_END_S = 3600.0
"""The virtual time after which a job whose inputs have ended is given up."""


class JobStuck(Exception):
    """The job does not do what it should, without a failure."""


@dataclass(slots=True)
class SimulatedJob:
    """A job across its processes; `chance` cuts batches at random, None: they are whole."""

    planner: Planner
    parallelism: int
    inputs: Mapping[str, FedInput]
    tables: Mapping[str, pl.DataFrame]
    wall_s: float
    """The wall clock when the next process starts."""
    seed: int = 0
    chance: random.Random | None = None
    failure: str = ""
    """The message with which the job has failed."""
    memory: InMemoryData = field(init=False)
    _disk: MemoryDisk = field(default_factory=MemoryDisk)
    _savepoints: int = 0
    """The number of savepoints, each of which was restored in a home of its own."""
    _loop: SteppedLoop | None = None
    _job: Job | None = None
    _running: asyncio.Task[JobOutcome] | None = None
    _process: ExitStack = field(default_factory=ExitStack)
    """The end of the process."""

    def __post_init__(self) -> None:
        tables = {step: LookupTableData(rows) for step, rows in self.tables.items()}
        self.memory = InMemoryData(tables=tables)

    @property
    def plan(self) -> Plan:
        """The plan at the present parallelism."""
        return self.planner.plan(self.parallelism)

    def live(self, drive: Callable[[], Coroutine[None, None, T]]) -> T:
        """Start a process from the last checkpoint, drive its job, and kill the process."""
        self.start()
        try:
            return self.run(drive())
        finally:
            self.kill()

    def start(self) -> None:
        """Start a process from the last checkpoint, until its job rests.

        After a savepoint, the process starts from it in another home.
        """
        loop = self._loop = SteppedLoop(self.seed, self.wall_s, choose_settling_s(self.plan))
        home = self._get_home()
        with ExitStack() as process:
            process.callback(loop.close)
            process.callback(self._revive_disk)
            process.enter_context(home.hold(STARTED))
            process.callback(self._kill, loop)
            if self._savepoints and home.open_read_only() is None:
                self._adopt_savepoint(home)
            self._job, self.failure = self._build_job(home, loop), ""
            self.run(self._start_job(self._job))
            self._process = process.pop_all()

    def run(self, driver: Coroutine[None, None, T]) -> T:
        """Run what drives the job of the started process, which stands still otherwise."""
        assert self._loop is not None
        return self._loop.run_until_complete(driver)

    def kill(self) -> None:
        """Kill the process; what it has committed stays."""
        self._process.close()

    async def _start_job(self, job: Job) -> None:
        self._running = asyncio.ensure_future(job.run())
        await self.rest()

    def feed(self, source: str, split: int, events: Sequence[FedEvent]) -> None:
        """Give events to a split of a source."""
        self.inputs[source].feed(split, events)

    async def rest(self) -> None:
        """Wait until the job has done all that it can without time passing."""
        assert self._loop is not None
        await self._loop.rest()
        self._note_end()

    def kill_after(self, turns: int | None) -> None:
        """Kill the process after some turns of its loop; None: not at all."""
        assert self._loop is not None
        self._loop.kill_after(turns)

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        assert self._loop is not None
        await self._loop.advance(seconds)
        self._note_end()

    async def end(self) -> None:
        """End all inputs, and wait for the end of the job. Raises JobStuck."""
        assert self._running is not None and self._loop is not None
        for each in self.inputs.values():
            each.end()
        await self.rest()
        self._loop.free_time()
        await asyncio.wait({self._running}, timeout=LONGEST_END_S)
        if not self._running.done():
            raise JobStuck("the job does not end, though its inputs have ended")
        self._note_end()

    async def take_checkpoint(self) -> None:
        """Take a checkpoint, unless the job is over: then all is visible. Raises JobStuck."""
        job = self._job
        assert job is not None and self._running is not None
        if not self._running.done():
            number = await self._finish(job.take_checkpoint(), "the checkpoint")
            if number is not None:
                job.release_checkpoint(number)

    async def take_savepoint(self) -> None:
        """Take a savepoint, from which the next process starts. Raises JobStuck."""
        from headrace.state.savepoints.creation import take_savepoint

        job = self._job
        assert job is not None
        number = await self._finish(job.take_checkpoint(), "the savepoint")
        if number is not None:
            home, self._savepoints = self._get_home(), self._savepoints + 1
            take_savepoint(home, find_installed_version(), number, self._savepoint_folder)
            job.release_checkpoint(number)

    def _adopt_savepoint(self, home: Home) -> None:
        """Make the last savepoint the first checkpoint of a home."""
        from headrace.cli.savepoint_restore import RestoredSavepoint, adopt_savepoint
        from headrace.state.savepoints.savepoint import open_savepoint

        savepoint = open_savepoint(self._savepoint_folder, self._disk)
        adopt_savepoint(RestoredSavepoint(savepoint), home, lambda: None)

    def _get_home(self) -> Home:
        return Home(self._disk, f"/jobs/{self._savepoints}", str(self.plan.name))

    @property
    def _savepoint_folder(self) -> str:
        return f"/savepoints/{self._savepoints}"

    async def rescale(self, parallelism: int) -> None:
        """Continue at another parallelism. Raises JobStuck."""
        assert self._job is not None
        await self._finish(self._job.rescale(self.planner.plan(parallelism)), "the rescale")
        self.parallelism = parallelism

    def get_rows(self, stream: str) -> list[dict[str, object]]:
        """Return the rows of a stream that are visible, in the order in which they became so."""
        names = self.get_stream(stream).sink_schema.names
        frames = self.memory.outputs.get(stream, [])
        return [row for frame in frames for row in frame.select(names).to_dicts()]

    def get_stream(self, stream: str) -> nodes.Stream:
        """Return a stream as its readers see it."""
        return self.plan.streams[find_sink(self.plan, stream).input]

    def count(self, counter: str) -> int:
        """Return a counter, over all parts."""
        assert self._job is not None
        counts = self._job.collect_counts().values()
        return sum(getattr(each, counter) or 0 for each in counts)

    async def _finish(self, doing: Coroutine[None, None, T], what: str) -> T | None:
        """Wait for a request; None: the job has failed meanwhile."""
        request = asyncio.ensure_future(doing)
        await self.rest()
        if not request.done():
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)
            raise JobStuck(f"{what} is not completed: something waits for time to pass")
        try:
            return request.result()
        except RequestRejected as rejected:
            if not self.failure:
                raise JobStuck(f"{what} was rejected: {rejected}") from None
            return None

    def _note_end(self) -> None:
        """Record the failure of a job that is over."""
        assert self._running is not None
        if not self._running.done() or self.failure:
            return
        error = self._running.exception()
        if error is not None:
            self.failure = f"{error}" or type(error).__name__
        elif (failed := self._running.result().failure) is not None:
            step = f"{failed.step}: " if failed.step else ""
            self.failure = f"{step}{failed.message}"

    def _build_job(self, home: Home, loop: SteppedLoop) -> Job:
        plan = self.plan
        context = RunContext(self.planner.folder, JOB_ID, KernelExecutor(), pipeline_name=plan.name)
        read = frozenset(edge.stream for edge in plan.edges)
        operators = OperatorContext(loop.now_us, self.planner.folder, read, MemoryBackend())
        connectors = {
            FED: build_fed_connector(self.inputs),
            MEMORY: self.memory.build_connector(),
        }
        bounds = (
            ChannelBounds()
            if self.chance is None
            else ChannelBounds(rows=self.chance.choice((1, 2, 5)))
        )
        storage = build_memory_storage(home)
        job = Job(JobSpec(plan, connectors, context, operators, bounds, storage))
        storage.resumed_number = storage.find_last_number()
        job.initial_checkpoint = storage.read_newest(plan)
        return job

    def _kill(self, loop: SteppedLoop) -> None:
        """End the tasks of the process without any effect outside."""
        self.wall_s = loop.wall_s
        outputs = {name: [*frames] for name, frames in self.memory.outputs.items()}
        prepared = {name: [*frames] for name, frames in self.memory.prepared_batches.items()}
        self._disk.before_operation = _fail
        loop.free_time()
        end_tasks(loop)
        self.memory.outputs, self.memory.prepared_batches = outputs, prepared

    def _revive_disk(self) -> None:
        """Let the disk work again, without what was not synced."""
        self._disk.before_operation = ignore_operation
        self._disk.kill()


def choose_settling_s(plan: Plan) -> float:
    """Return how far timers may be off that fire before a job rests.

    Splits that are paused, because they are ahead of others, resume when those report.
    """
    watermarks = (part.watermark for part in plan if isinstance(part, nodes.Source))
    has_drift = any(each is not None and each.max_drift for each in watermarks)
    return 3 * REPORT_INTERVAL_S if has_drift else SETTLING_S


def build_memory_storage(home: Home) -> CheckpointStorage:
    """Build the storage of a job that takes checkpoints on request only, and never restarts."""
    return CheckpointStorage(
        home.open_store(home.ensure_job_id(STARTED, lambda: JOB_ID)),
        RestartPolicy(NoRestart()),
        write_commit_record=home.write_commit_record,
        read_commit_record=home.read_commit_record,
        write_completion_record=home.write_completion_record,
        read_completion_record=home.read_completion_record,
        time=lambda: STARTED,
    )


def end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the tasks of a loop that was left by an exception, and run it until they have ended.

    If what it ran had come to its end in the last turn, its callback is still to be called, and
    stops the loop once.
    """
    ending = loop.create_task(_cancel_tasks(asyncio.all_tasks(loop)))
    while not ending.done():
        with suppress(RuntimeError):
            loop.run_until_complete(ending)


async def _cancel_tasks(tasks: Collection[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def ignore_operation(operation: str, path: str) -> None:
    """Let an operation of the disk pass."""


def _fail(operation: str, path: str) -> None:
    """Fail an operation of the disk: the process is dead."""
    raise OSError(errno.EIO, "the process was killed")
