"""A job with worker processes in one simulated loop: coordinator and workers die, stop and return.

Everything is real but the system: processes are those of `actor_loop`, the streams between them
those of `simulated_streams`, the disk is one in memory, and sources and sinks are in memory too.
After each life it is checked that nothing is there twice and that nothing runs on; after the last
one, that everything is there.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache, partial
from pathlib import Path

from headrace.cli.worker_process import rebuild_plan
from headrace.connectors.memory import InMemoryData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.splits import Failure
from headrace.core.checkpoint.storage import CheckpointStorage
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.coordination.events import JobEvent, JobRestarting, RegionsRestarting
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.exchange.control_connection import ControlConnection
from headrace.core.exchange.peer_lost import PeerLost
from headrace.core.job.job import Job, JobOutcome
from headrace.core.job.requests import RequestRejected
from headrace.core.job.spec import JobSpec
from headrace.core.pipeline.loader import LoadedPipeline, load_pipeline
from headrace.core.pipeline.settings import FixedRestart
from headrace.core.plan.nodes import Plan
from headrace.core.processes.messages import AttemptMessage, WorkerSetup
from headrace.core.processes.server import WorkerEnvironment, WorkerServer
from headrace.core.processes.worker_process import EXIT_GRACE_S
from headrace.core.processes.worker_processes import WorkerProcesses
from headrace.core.worker.pool import WorkerProvider
from headrace.state.memory.backend import MemoryBackend
from headrace.state.storage.home import Home
from headrace.state.storage.local_store import WorkerSnapshotStore
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.runtime.actor_loop import Actor, ActorLoop
from tests.support.runtime.crashing_jobs import NOW
from tests.support.runtime.simulated_pipelines import Workload
from tests.support.runtime.simulated_streams import SimulatedEnd, SimulatedStreams

JOB_ID = "0" * 32
LIMIT_S = 600.0
"""The virtual time in which every life ends; no fault lasts longer than two minutes."""
PATIENT = FixedRestart.model_construct(attempts=1000, delay=timedelta(milliseconds=500))
MOST_ROWS = 3000
"""Bounds of channels with room for all rows; with others, slow streams take too long."""
SLOW_DELAYS_S = (0.0, 0.05, 25.0)
"""Delays longer than the coordinator waits for the end of subtasks: messages outlive attempts."""
ORPHAN_S = 2.0
"""The time that a worker may live on without its coordinator."""
EXPECTED_FAILURE = re.compile(
    r"worker \d was lost: it (was killed by SIGKILL|ended with status 0"
    r"|did not end its subtasks, and was killed|was silent for 60 s, and was killed)"
    r"|the connection to worker \d is lost: it "
    r"(has ended( in the middle of a frame)?|was closed there)"
)


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault of one process or stream: at a turn or at a time of a life."""

    kind: str
    worker: int
    turn: int | None
    time_s: float
    seconds: float
    """How long a stopped process stands still."""


@dataclass(slots=True)
class Fate:
    """What comes over a job in one life; nothing by default."""

    workers: int = 2
    parallelism: int = 2
    strikes: Sequence[Strike] = ()
    rescales: Mapping[float, tuple[int, int]] = field(default_factory=dict)
    """The parallelism and the workers of rescales, by time."""
    savepoints: Sequence[float] = ()
    stop_s: float | None = None
    drains: bool = False

    @classmethod
    def drawn(cls, chance: random.Random) -> Fate:
        """Draw what comes over a job in one life."""
        count = chance.choice([1, 2, 3, 6])
        return cls(
            workers=chance.choice([1, 2, 2, 2, 2, 3]),
            parallelism=chance.choice([1, 2, 2, 2, 3, 4]),
            strikes=[draw_strike(chance) for _ in range(count)],
            rescales={
                chance.uniform(0, 4): (chance.choice([1, 2, 3, 4]), chance.choice([1, 2, 2, 3]))
                for _ in range(chance.choice([0, 0, 1, 2]))
            },
            savepoints=[chance.uniform(0, 4) for _ in range(chance.choice([0, 0, 1, 2]))],
            stop_s=chance.choice([None, None, chance.uniform(0, 5)]),
            drains=chance.random() < 0.3,
        )


def draw_strike(chance: random.Random) -> Strike:
    """Draw a fault."""
    kinds = ["kill"] * 5 + ["kill coordinator", "stop", "stop coordinator", "break"]
    turn = chance.choice([None, chance.randrange(1000)])
    seconds = chance.choice([0.1, 3.0, 3.0, 100.0])
    return Strike(
        chance.choice(kinds), chance.choice([1, 1, 2, 2, 3]), turn, chance.uniform(0, 4), seconds
    )


@dataclass(eq=False)
class SimulatedProcess:
    """A worker process, as its coordinator started it."""

    number: int
    pid: int
    control: SimulatedEnd
    actor: Actor
    loop: ActorLoop
    how: str = "it ended with status 0"

    def has_sign(self) -> bool:
        return self.actor.state == "running"

    def kill(self) -> None:
        if self.actor.state in ("running", "stopped"):
            self.how = "it was killed by SIGKILL"
        self.loop.kill(self.actor)

    async def wait(self) -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(EXIT_GRACE_S):
                await self.actor.ended.wait()
        self.kill()
        self.control.close()
        return self.how


class Simulation:
    """The lives of one job."""

    def __init__(self, seed: int, folder: Path, workload: Workload | None = None) -> None:
        self.random = random.Random(seed)
        self.loop = ActorLoop(seed)
        self.streams = SimulatedStreams(self.loop, self.random)
        self.disk = MemoryDisk()
        self.workload = workload or Workload.drawn(self.random)
        self.memory = InMemoryData(self.workload.inputs)
        self.connectors = {"memory": self.memory.build_connector()}
        self.folder = folder
        self.loaded = load(folder, self.workload.text)
        interval_s = (None, 0.05, 1.0)[seed % 3]
        self.bounds = ChannelBounds(
            self.random.choice([1, 6, 20, MOST_ROWS]), marker_interval_s=interval_s
        )
        if self.bounds.rows == MOST_ROWS and self.random.random() < 0.4:
            self.streams.delays_s = SLOW_DELAYS_S
        self.rhythm = CheckpointSchedule(
            self.random.choice([0.1, 0.3, 1.0]), tolerable_failures=1000
        )
        self.home = Home(self.disk, "/jobs", "test")
        self.processes: dict[int, SimulatedProcess] = {}
        """The worker processes of the current life, by number."""
        self.news: list[JobEvent] = []
        self.life = 0
        self.is_finished = False
        self.outcome: JobOutcome | None = None
        self.is_over = False
        """Whether the job of the current life has ended by itself."""
        self.failures: list[Failure] = []
        """The failures after which the job has restarted."""
        self.log: list[str] = []

    def run(self, fates: Iterable[Fate]) -> None:
        """Live these lives up to the end of the job; the last one has no faults."""
        try:
            self.loop.run_until_complete(self._run(fates))
        finally:
            self.loop.bury()
            self.loop.close()

    async def _run(self, fates: Iterable[Fate]) -> None:
        for fate in fates:
            await self._live(fate)
            if self.is_finished:
                break
        while not self.is_finished:
            await self._live(Fate())
            assert self.outcome is not None and self.outcome.failure is None, self.outcome
        self.workload.check(self.memory, whole=True)

    async def _live(self, fate: Fate) -> None:
        self.life += 1
        self.log.append(f"{self.loop.time():.3f} life {self.life}: {fate}")
        self.outcome, self.is_over = None, False
        coordinator = self.loop.start("coordinator", partial(self._coordinate, fate))
        coordinator.on_end.append(partial(self.streams.close_all_of, coordinator))
        for strike in fate.strikes:
            do = partial(self._strike, strike, coordinator)
            if strike.turn is not None:
                self.loop.at_turn(self.loop.turns + strike.turn, do)
            else:
                self.loop.call_later(strike.time_s, do)
        async with asyncio.timeout(LIMIT_S):
            await coordinator.ended.wait()
        if self.outcome is None:
            self.disk.kill()
            for process in [*self.processes.values()]:
                self.loop.call_later(self.random.uniform(0, ORPHAN_S), process.kill)
            await asyncio.sleep(self.random.choice([0.0, 0.0, 1.0, 3.0]))
        self.processes.clear()
        self._check()

    def _check(self) -> None:
        assert not self.loop.errors, self.loop.errors
        self.workload.check(self.memory, whole=False)
        for event in self.news:
            if isinstance(event, JobRestarting | RegionsRestarting):
                check_failure(event.failure)
        self.news.clear()
        if self.outcome is not None and self.outcome.failure is not None:
            check_failure(self.outcome.failure)

    def _strike(self, strike: Strike, coordinator: Actor) -> None:
        if coordinator.state not in ("running", "stopped"):
            return
        self.log.append(f"{self.loop.time():.3f} {strike}")
        process = self.processes.get(strike.worker)
        match strike.kind:
            case "kill coordinator":
                self.loop.kill(coordinator)
            case "stop coordinator":
                self.loop.stop_for(coordinator, strike.seconds)
            case "break":
                self.streams.break_one()
            case "kill" if process is not None:
                process.kill()
            case "stop" if process is not None:
                self.loop.stop_for(process.actor, strike.seconds)

    async def _coordinate(self, fate: Fate, actor: Actor) -> None:
        """Be the coordinator's process."""
        with self.home.hold(NOW):
            async with self._open_workers() as workers:
                outcome = await self._run_job(fate, workers)
            for process in self.processes.values():
                assert process.actor.state == "gone", f"worker {process.number} lives on"
            self.outcome = outcome
        assert not actor.list_tasks(), actor.list_tasks()

    def _open_workers(self) -> WorkerProcesses:
        def build_setup(number: int) -> WorkerSetup:
            return WorkerSetup(
                number,
                self.loaded.inputs,
                JOB_ID,
                "unused",
                self.bounds,
                self.home.checkpoint_folder,
            )

        return WorkerProcesses(build_setup, self._start_process, open_pair=self.streams.open_pair)

    def _start_process(self, number: int, count: int) -> SimulatedProcess:
        ours, theirs = self.streams.open_pair()
        actor = self.loop.start(f"worker {number}", partial(self._serve, theirs))
        theirs.owner = actor
        actor.on_end.append(partial(self.streams.close_all_of, actor))
        process = SimulatedProcess(number, len(self.loop.actors), ours, actor, self.loop)
        self.processes[number] = process
        return process

    async def _serve(self, end: SimulatedEnd, actor: Actor) -> None:
        """Be a worker's process."""
        control = ControlConnection(end, peer="the coordinator")
        try:
            first = (await control.receive()).message
        except PeerLost:
            return
        assert isinstance(first, AttemptMessage)
        assert isinstance(first.message, WorkerSetup)
        setup = first.message
        environment = WorkerEnvironment(
            setup.number,
            self._build_plan,
            self.connectors,
            self._build_run_context(),
            lambda attempt, worker_count: self._build_operator_context(),
            setup.bounds,
            WorkerSnapshotStore(self.disk, str(setup.checkpoint_folder), setup.job_id),
        )
        await WorkerServer(control, environment).serve()
        assert not (self.is_over and actor.list_tasks()), actor.list_tasks()

    async def _run_job(self, fate: Fate, workers: WorkerProvider) -> JobOutcome:
        home = self.home
        plan = self._plan_at(fate.parallelism)
        storage = CheckpointStorage(
            home.open_store(home.ensure_job_id(NOW, lambda: JOB_ID)),
            RestartPolicy(PATIENT),
            self.rhythm,
            on_event=self._record_event,
            on_finished=self._finish,
            write_commit_record=home.write_commit_record,
            read_commit_record=home.read_commit_record,
            write_completion_record=home.write_completion_record,
            read_completion_record=home.read_completion_record,
            time=lambda: NOW,
        )
        storage.resumed_number = storage.find_last_number()
        spec = JobSpec(
            plan,
            self.connectors,
            self._build_run_context(),
            self._build_operator_context(),
            self.bounds,
            storage,
            workers,
            fate.workers,
        )
        job = Job(spec, storage.read_newest(plan), random.Random(self.random.random()))
        requests = [
            asyncio.create_task(later(at, partial(self._rescale, job, *numbers)))
            for at, numbers in fate.rescales.items()
        ]
        requests += [
            asyncio.create_task(later(at, partial(self._save, job))) for at in fate.savepoints
        ]
        if fate.stop_s is not None:
            requests.append(
                asyncio.create_task(
                    later(fate.stop_s, partial(stop, job, fate.drains and self.workload.can_drain))
                )
            )
        outcome = await job.run()
        self.is_over = True
        for each in requests:
            each.cancel()
        for result in await asyncio.gather(*requests, return_exceptions=True):
            assert result is None or isinstance(result, asyncio.CancelledError), result
        return outcome

    async def _rescale(self, job: Job, parallelism: int, workers: int) -> None:
        with suppress(RequestRejected):
            await job.rescale(self._plan_at(parallelism), workers)

    async def _save(self, job: Job) -> None:
        """Request a checkpoint, and check that it exists while it is pinned."""
        with suppress(RequestRejected):
            number = await job.take_checkpoint()
            assert job.storage is not None
            try:
                await asyncio.sleep(1)
                assert number in job.storage.store.list_checkpoints(), f"{number} was collected"
            finally:
                job.release_checkpoint(number)

    def _record_event(self, event: JobEvent) -> None:
        self.news.append(event)
        if isinstance(event, JobRestarting):
            self.failures.append(event.failure)

    def _finish(self) -> None:
        self.is_finished = True

    def _build_run_context(self) -> RunContext:
        return RunContext(self.folder, JOB_ID, KernelExecutor())

    def _build_operator_context(self) -> OperatorContext:
        plan = self._plan_at(1)
        read = frozenset(edge.stream for edge in plan.edges)
        now_us: Callable[[], int] = lambda: int(self.loop.time() * 1e6)  # noqa: E731
        return OperatorContext(now_us, self.folder, read, MemoryBackend())

    def _plan_at(self, parallelism: int) -> Plan:
        return self._build_plan({part: parallelism for part in self.workload.parts})

    def _build_plan(self, parallelism: Mapping[str, int]) -> Plan:
        return build_plan_at(self.folder, self.workload.text, tuple(sorted(parallelism.items())))


def check_failure(failure: Failure) -> None:
    """Check that a failure follows from what has come over the job."""
    assert EXPECTED_FAILURE.fullmatch(failure.message), failure


async def stop(job: Job, drains: bool) -> None:
    """Stop a job."""
    job.stop(drain=drains)


async def later(at: float, do: Callable[[], object]) -> None:
    """Do something after a time."""
    await asyncio.sleep(at)
    done = do()
    if asyncio.iscoroutine(done):
        await done


@lru_cache(None)
def load(folder: Path, text: str) -> LoadedPipeline:
    """Return the pipeline of a text."""
    file = folder / "p.yaml"
    file.write_text(text)
    return load_pipeline(file, {"memory": InMemoryData().build_connector()}, env={})


@lru_cache(None)
def build_plan_at(folder: Path, text: str, parallelism: tuple[tuple[str, int], ...]) -> Plan:
    """Return the plan of a text at a parallelism."""
    return rebuild_plan(load(folder, text), dict(parallelism))


def check_seed(seed: int, folder: Path, lives: int = 4) -> None:
    """Run the lives of a seed, and check them."""
    simulation = Simulation(seed, folder)
    chance = simulation.random
    try:
        simulation.run(Fate.drawn(chance) for _ in range(chance.randint(1, lives)))
    except BaseException:
        print(f"seed {seed}", *simulation.log, sep="\n")
        raise
