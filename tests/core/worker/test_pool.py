"""All that passes between an attempt and its workers is plain data."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import polars as pl

from headrace.connectors.memory import InMemoryData, MemoryEvent
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.state import Document
from headrace.core.api.taps import TapRequest
from headrace.core.checkpoint.storage import CheckpointStorage
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.coordination.messages import CoordinatorEvent, WorkerCommand
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.pipeline.settings import NoRestart
from headrace.core.worker.connectors import OpenConnectors
from headrace.core.worker.pool import WorkerPool, WorkerSpec, start_in_process
from headrace.core.worker.report import WorkerReport
from headrace.state.storage.local_store import LocalSnapshotStore
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.runtime.crashing_jobs import FlakyMemory
from tests.support.runtime.memory_pipelines import job_of, run_simulated

T = TypeVar("T")

TEXT = """
settings: {parallelism: 2}
sources: {s: {memory: {data: in}, schema: {id: bigint}}}
steps: {n: {from: s, key: id, window: {count: 2}, aggregate: {n: count(*)}}}
sinks: {out: {from: n, memory: {data: out}}}
"""


def copy(message: T) -> T:
    """Send a message through bytes."""
    copied: T = pickle.loads(pickle.dumps(message))
    return copied


@dataclass(slots=True)
class RemotePool:
    """A pool whose messages are copied, as those of other processes are."""

    pool: WorkerPool
    report_count: int = 0

    async def receive(self, command: WorkerCommand) -> None:
        await self.pool.receive(copy(command))

    async def cancel(self) -> None:
        await self.pool.cancel()

    def set_taps(self, requests: Sequence[TapRequest]) -> None:
        self.pool.set_taps(copy(requests))

    def collect_reports(self, *, with_splits: bool = True) -> tuple[WorkerReport, ...]:
        self.report_count += 1
        return copy(self.pool.collect_reports(with_splits=with_splits))

    def replace_lost(
        self, descriptions: Mapping[str, Document], migrated_steps: frozenset[str]
    ) -> None:
        """Do nothing: no worker is lost here."""


@dataclass(slots=True)
class RemotePools:
    """A provider that outlives attempts."""

    started: list[RemotePool] = field(default_factory=list)
    events: set[str] = field(default_factory=set)

    async def prepare(self, count: int) -> None:
        """Do nothing: all workers are in this process."""

    async def start_attempt(
        self,
        spec: WorkerSpec,
        connectors: OpenConnectors,
        send: Callable[[CoordinatorEvent], None],
    ) -> WorkerPool:
        def send_copy(event: CoordinatorEvent) -> None:
            self.events.add(type(event).__name__)
            send(copy(event))

        assert spec.attempt == len(self.started) + 1
        pool = RemotePool(await start_in_process(spec, connectors, send_copy))
        self.started.append(pool)
        return pool


def test_a_job_runs_through_copied_messages(tmp_path: Path) -> None:
    rows = pl.DataFrame({"id": [1, 2, 1, 2]})
    events: list[MemoryEvent] = [rows, 10.0, rows]
    memory, pools = InMemoryData({"in": {"a": events, "b": [rows]}}), RemotePools()
    job = job_of(tmp_path, TEXT, memory, KernelExecutor(), ChannelBounds(rows=3))
    store = LocalSnapshotStore(MemoryDisk(), "/checkpoints", "0" * 32)
    store.prepare()
    storage = CheckpointStorage(store, RestartPolicy(NoRestart()), CheckpointSchedule(4.0))
    job.spec = replace(job.spec, storage=storage, workers=pools)
    outcome = run_simulated(job, 1)
    assert outcome.failure is None
    assert outcome.part_counts["n"].rows_in == 12
    assert sum(frame.height for frame in memory.outputs["out"]) == 6
    assert storage.history.completed_count >= 2
    (pool,) = pools.started
    assert pool.report_count >= storage.history.completed_count
    assert {"SnapshotAcknowledged", "SubtaskFinished"} <= pools.events


def test_the_failure_of_a_subtask_is_a_message(tmp_path: Path) -> None:
    pools = RemotePools()
    memory = FlakyMemory({"in": {"a": [pl.DataFrame({"id": [1]})]}}, unread=0)
    job = job_of(tmp_path, TEXT, memory, KernelExecutor(), ChannelBounds())
    job.spec = replace(job.spec, workers=pools)
    failure = run_simulated(job, 1).failure
    assert failure is not None
    assert (failure.message, failure.step) == ("the memory is out of order", "s")
    assert {"SubtaskFailed", "AttemptCancelled"} <= pools.events
