"""Rescaling a running job: the responses to requests, and the return to the old plan."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.connectors.memory import MemoryEvent
from headrace.core.api.failures import ConnectorError
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.coordination.messages import CoordinatorEvent
from headrace.core.job.job import Job
from headrace.core.job.requests import RequestRejected
from headrace.core.plan import nodes
from headrace.core.worker.connectors import OpenConnectors
from headrace.core.worker.pool import InProcessProvider, WorkerPool, WorkerSpec, start_in_process
from tests.support.runtime.crashing_jobs import PATIENT, Fate, FlakyMemory, Life
from tests.support.runtime.memory_pipelines import plan_of

ROWS = 40
PIPELINE = """\
settings: {parallelism: 2}
sources: {rows: {memory: {data: in}, schema: {k: bigint, v: bigint}}}
steps: {totals: {from: rows, key: k, aggregate: {n: count(*), total: sum(v)}}}
sinks: {out: {from: totals, memory: {data: out}}}
"""


@dataclass(slots=True)
class Asked(Life):
    """A job that reads a row a second and receives requests meanwhile."""

    ask: Callable[[Job], Coroutine[Any, Any, None]] | None = None
    answers: list[object] = field(default_factory=list)

    async def _controlled(self, job: Job, fate: Fate) -> Any:
        assert self.ask is not None
        asking = asyncio.create_task(self.ask(job))
        outcome = await job.run()
        await asking
        return outcome

    def plan(self, parallelism: int) -> nodes.Plan:
        """Return the plan at another parallelism."""
        text = PIPELINE.replace("parallelism: 2", f"parallelism: {parallelism}")
        return plan_of(self.folder, text, {"memory": self.memory.build_connector()})

    def totals(self) -> dict[int, tuple[int, int]]:
        """Return the final totals by key."""
        last = pl.concat(self.memory.outputs["out"]).group_by("k").last()
        return {k: (n, total) for k, n, total in last.select("k", "n", "total").rows()}


def asked(folder: Path) -> Asked:
    happenings: list[MemoryEvent] = []
    for i in range(ROWS):
        happenings += [pl.DataFrame({"k": [i % 5], "v": [i]}), 1.0]
    memory = FlakyMemory({"in": {"0": happenings}})
    return Asked(folder, PIPELINE, memory, CheckpointSchedule(interval_s=None))


WHOLE = {k: (ROWS // 5, sum(range(k, ROWS, 5))) for k in range(5)}


def test_a_rescaled_job_emits_every_row_once_and_reports_the_pause(
    tmp_path: Path,
) -> None:
    life = asked(tmp_path)

    async def ask(job: Job) -> None:
        for at, parallelism in ((5.5, 3), (5, 1), (5, 5)):
            await asyncio.sleep(at)
            plan = life.plan(parallelism)
            rescaled = await job.rescale(plan)
            assert job.plan is plan
            assert (job.status, job.attempt_number) == ("running", len(life.answers) + 2)
            life.answers.append(rescaled.downtime_s)

    life.ask = ask
    assert life.run(1).failure is None
    assert life.totals() == WHOLE
    assert len(life.answers) == 3
    assert life.job is not None
    assert life.job.collect_counts()["rows"].rows_out == ROWS


def test_whoever_asks_while_it_is_rescaled_is_refused_and_may_ask_again(tmp_path: Path) -> None:
    life = asked(tmp_path)

    async def ask(job: Job) -> None:
        await asyncio.sleep(5.5)
        both = (job.rescale(life.plan(3)), job.rescale(life.plan(3)))
        answers = await asyncio.gather(*both, return_exceptions=True)
        (refused,) = (each for each in answers if isinstance(each, BaseException))
        assert "being rescaled already" in str(refused)
        await job.rescale(life.plan(4))
        life.answers.append(job.plan.part("totals").parallelism)

    life.ask = ask
    life.run(1)
    assert life.answers == [4]
    assert life.totals() == WHOLE


def test_a_rescale_completes_although_its_request_is_cancelled(tmp_path: Path) -> None:
    for turns in range(0, 60, 3):
        life = asked(tmp_path)

        async def ask(job: Job, life: Asked = life, turns: int = turns) -> None:
            await asyncio.sleep(5.5)
            asking = asyncio.create_task(job.rescale(life.plan(3)))
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await asyncio.sleep(3)
            life.answers.append(job.plan.part("totals").parallelism)
            number = await job.take_checkpoint()
            job.release_checkpoint(number)

        life.ask = ask
        life.run(turns)
        assert life.finished
        assert life.totals() == WHOLE
        assert life.answers[0] in (2, 3)
        assert turns < 57 or life.answers == [3]


def test_a_plan_that_cannot_be_deployed_is_given_up_for_the_one_before(tmp_path: Path) -> None:
    life = asked(tmp_path)

    async def ask(job: Job) -> None:
        await asyncio.sleep(5.5)
        life.memory.unopened = 1
        with pytest.raises(RequestRejected, match="out of order"):
            await job.rescale(life.plan(3))
        assert job.status in ("restoring", "rescaling", "running")
        await asyncio.sleep(3)
        life.answers.append((job.status, job.plan.part("totals").parallelism))

    life.ask = ask
    assert life.run(1).failure is None
    assert life.answers == [("running", 2)]
    assert life.totals() == WHOLE


@dataclass(slots=True)
class FailingProvider(InProcessProvider):
    """Has no more than one worker: others cannot be prepared, or not be used."""

    job: Job
    can_prepare: bool
    calls: list[object] = field(default_factory=list)

    async def prepare(self, count: int) -> None:
        self.calls.append((self.job.status, count))
        await asyncio.sleep(3)
        if count > 1 and not self.can_prepare:
            raise ConnectorError("worker 2 of 2 cannot be started")

    async def start_attempt(
        self,
        spec: WorkerSpec,
        connectors: OpenConnectors,
        send: Callable[[CoordinatorEvent], None],
    ) -> WorkerPool:
        self.calls.append(spec.worker_count)
        if spec.worker_count > 1:
            raise ConnectorError("worker 2 of 2 cannot be started")
        return await start_in_process(spec, connectors, send)


@pytest.mark.parametrize(
    ("can_prepare", "calls", "attempt"),
    [(False, [("running", 2), ("running", 1)], 1), (True, [("running", 2), 2, 1], 3)],
)
def test_workers_that_cannot_be_started_are_given_up_for_those_before(
    tmp_path: Path, can_prepare: bool, calls: list[object], attempt: int
) -> None:
    life = asked(tmp_path)

    async def ask(job: Job) -> None:
        provider = FailingProvider(job, can_prepare)
        job.spec = replace(job.spec, workers=provider)
        await asyncio.sleep(5.5)
        with pytest.raises(RequestRejected, match="cannot be started"):
            await job.rescale(life.plan(3), 2)
        await asyncio.sleep(3)
        life.answers.append((job.status, job.spec.worker_count, job.attempt_number))
        assert provider.calls == calls

    life.ask = ask
    assert life.run(1).failure is None
    assert life.answers == [("running", 1, attempt)]
    assert life.totals() == WHOLE


def test_a_rescale_that_fails_starts_no_workers_for_the_running_attempt(tmp_path: Path) -> None:
    """One may be missing, because it was lost; the attempt's restart replaces it."""
    life = asked(tmp_path)

    async def ask(job: Job) -> None:
        await asyncio.sleep(5.5)
        provider = FailingProvider(job, can_prepare=False)
        job.spec = replace(job.spec, workers=provider, worker_count=2)
        with pytest.raises(RequestRejected, match="cannot be started"):
            await job.rescale(life.plan(3), 3)
        assert provider.calls == [("running", 3), ("running", 1)]
        job.spec = replace(job.spec, worker_count=1)
        life.answers.append(job.status)

    life.ask = ask
    assert life.run(1).failure is None
    assert life.answers == ["running"]


def test_the_end_of_a_job_does_not_wait_for_workers_that_start(tmp_path: Path) -> None:
    life = asked(tmp_path)

    async def ask(job: Job) -> None:
        provider = FailingProvider(job, can_prepare=True)
        job.spec = replace(job.spec, workers=provider)
        await asyncio.sleep(5.5)
        rescaling = asyncio.create_task(job.rescale(life.plan(3), 2))
        await asyncio.sleep(1)
        job.stop()
        with pytest.raises(RequestRejected, match="the job has ended"):
            await rescaling
        assert [call[1] for call in provider.calls if isinstance(call, tuple)] == [2, 1]

    life.ask = ask
    assert life.run(1).is_stopped


@dataclass(slots=True)
class SlowProvider(InProcessProvider):
    """Takes a time to prepare more than one worker."""

    prepare_s: float

    async def prepare(self, count: int) -> None:
        if count > 1:
            await asyncio.sleep(self.prepare_s)


@pytest.mark.parametrize("prepare_s", [3, 1e6])
def test_a_failure_while_workers_start_rejects_the_rescale(
    tmp_path: Path, prepare_s: float
) -> None:
    life = asked(tmp_path)

    async def ask(job: Job) -> None:
        job.spec = replace(job.spec, workers=SlowProvider(prepare_s))
        await asyncio.sleep(5.5)
        life.memory.unread = 0
        with pytest.raises(RequestRejected, match="the job has failed: the memory is out of order"):
            await job.rescale(life.plan(3), 2)
        await asyncio.sleep(5)
        life.answers.append((job.status, job.spec.worker_count))

    life.ask = ask
    assert life.run(1, Fate(restart=PATIENT)).failure is None
    assert life.answers == [("running", 1)]
    assert life.totals() == WHOLE


def test_a_stop_goes_before_a_rescale(tmp_path: Path) -> None:
    life = asked(tmp_path)

    async def ask(job: Job) -> None:
        await asyncio.sleep(5.5)
        asking = asyncio.create_task(job.rescale(life.plan(3)))
        await asyncio.sleep(0)
        job.stop()
        with pytest.raises(RequestRejected):
            await asking

    life.ask = ask
    outcome = life.run(1)
    assert outcome.is_stopped
    assert not life.finished
    assert outcome.checkpoint is not None


def test_a_drain_during_a_rescale_follows_it(tmp_path: Path) -> None:
    drained = 0
    for turns in range(0, 40, 3):
        life = asked(tmp_path)

        async def ask(job: Job, turns: int = turns, life: Asked = life) -> None:
            await asyncio.sleep(5.5)
            asking = asyncio.create_task(job.rescale(life.plan(3)))
            for _ in range(turns):
                await asyncio.sleep(0)
            life.answers.append(job.status)
            job.stop(drain=True)
            await asyncio.gather(asking, return_exceptions=True)

        life.ask = ask
        outcome = life.run(turns)
        assert (outcome.is_stopped, outcome.is_drained) == (True, True)
        drained += life.answers == ["rescaling"]
    assert drained


def test_a_job_that_is_drained_while_it_waits_to_begin_again_is_drained(tmp_path: Path) -> None:
    life = asked(tmp_path)

    async def ask(job: Job) -> None:
        while job.status != "restarting":  # noqa: ASYNC110 - there is nothing else to wait for
            await asyncio.sleep(0.1)
        job.stop(drain=True)

    life.ask = ask
    outcome = life.run(1, Fate(unread=12, restart=PATIENT))
    assert (outcome.failure, outcome.is_stopped, outcome.is_drained) == (None, True, True)


def test_a_checkpoint_requested_before_a_drain_is_not_drained(
    tmp_path: Path,
) -> None:
    for turns in range(0, 30, 2):
        life = asked(tmp_path)

        async def ask(job: Job, turns: int = turns) -> None:
            await asyncio.sleep(5.5)
            both = [asyncio.create_task(job.take_checkpoint()) for _ in range(2)]
            for _ in range(turns):
                await asyncio.sleep(0)
            job.stop(drain=True)
            for asking in both:
                try:
                    number = await asking
                except RequestRejected:
                    continue
                assert job.storage is not None
                assert not job.storage.read_manifest(number)["drained"]
                job.release_checkpoint(number)

        life.ask = ask
        assert life.run(turns).is_drained


def test_the_end_waits_for_whoever_reads_a_checkpoint(tmp_path: Path) -> None:
    life = asked(tmp_path)

    async def ask(job: Job) -> None:
        await asyncio.sleep(ROWS - 0.5)
        number = await job.take_checkpoint()
        await asyncio.sleep(30)
        assert job.storage is not None
        assert number in job.storage.store.list_checkpoints()
        assert not life.finished
        job.release_checkpoint(number)

    life.ask = ask
    assert life.run(1).failure is None
    assert life.finished


def test_requests_to_a_finished_job_are_refused(tmp_path: Path) -> None:
    life = asked(tmp_path)

    async def ask(job: Job) -> None:
        await asyncio.sleep(ROWS + 5)
        assert job.status == "over"
        for asking in (job.take_checkpoint(), job.rescale(life.plan(3))):
            with pytest.raises(RequestRejected, match="over"):
                await asking

    life.ask = ask
    assert life.run(1).failure is None
