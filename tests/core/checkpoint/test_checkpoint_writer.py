"""The events by which the writer answers, and its failures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.connectors.memory import InMemoryData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.snapshots import Manifest, RefusedSnapshot, StoreError, UnknownOutcome
from headrace.core.api.splits import Failure, SubtaskId
from headrace.core.checkpoint.checkpoint_writer import CheckpointWriter
from headrace.core.checkpoint.storage import CheckpointStorage
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.coordination.messages import (
    CommitRecorded,
    ManifestFailed,
    ManifestWritten,
    OutputCommitted,
    Snapshot,
    WriteManifest,
)
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.pipeline.settings import NoRestart
from headrace.core.testing.simulated_loop import SimulatedLoop
from headrace.state.storage.local_store import LocalSnapshotStore
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.runtime.memory_pipelines import plan_of

TEXT = """
sources: {s: {memory: {data: in}, schema: {id: bigint}}}
sinks: {out: {from: s, memory: {data: out}}}
"""

WRITE = WriteManifest(1, {SubtaskId(0, 0): Snapshot()}, ())


class FailingStore(LocalSnapshotStore):
    """A store whose commits of manifests raise an error."""

    error: Exception | None = None

    def commit(self, number: int, manifest: Manifest) -> None:
        if self.error is not None:
            raise self.error
        super().commit(number, manifest)


def write(
    folder: Path, message: WriteManifest | OutputCommitted, storage: CheckpointStorage
) -> tuple[list[object], CheckpointWriter]:
    """Return the events and failures that answer a message, and the writer after them."""
    answers: list[object] = []
    is_answered = asyncio.Event()

    def answer(message: object) -> None:
        answers.append(message)
        is_answered.set()

    plan = plan_of(folder, TEXT, {"memory": InMemoryData({}).build_connector()})
    context = RunContext(folder, "0" * 32, KernelExecutor())
    writer = CheckpointWriter(storage, plan, None, context, {}, answer, answer)

    async def main() -> None:
        writer.receive(message)
        await is_answered.wait()
        await writer.close()

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        runner.run(main())
    return answers, writer


@pytest.fixture
def store() -> FailingStore:
    """Return an empty store."""
    store = FailingStore(MemoryDisk(), "/checkpoints", "0" * 32)
    store.prepare()
    return store


def storage_of(store: FailingStore, records: list[str]) -> CheckpointStorage:
    """Return a storage that lists the records it writes."""
    return CheckpointStorage(
        store,
        RestartPolicy(NoRestart()),
        CheckpointSchedule(1.0, timeout_s=5.0),
        write_completion_record=lambda document: records.append("complete"),
        write_commit_record=lambda number: records.append(f"committed {number}"),
    )


def test_a_checkpoint_is_recorded_as_complete_before_it_is_reported(
    tmp_path: Path, store: FailingStore
) -> None:
    records: list[str] = []
    answers, _ = write(tmp_path, WRITE, storage_of(store, records))
    assert (answers, records) == ([ManifestWritten(1)], ["complete"])
    assert store.list_checkpoints() == [1]


def test_commits_are_recorded_before_they_are_reported(tmp_path: Path, store: FailingStore) -> None:
    records: list[str] = []
    answers, _ = write(tmp_path, OutputCommitted(3), storage_of(store, records))
    assert (answers, records) == ([CommitRecorded(3)], ["committed 3"])


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (StoreError("disk is full"), ManifestFailed(1, "disk is full")),
        (UnknownOutcome("gone", "wait"), Failure("gone", "checkpoints", hint="wait")),
        (RefusedSnapshot("is there"), Failure("is there", "checkpoints")),
    ],
)
def test_only_a_store_that_has_not_written_costs_no_more_than_the_checkpoint(
    tmp_path: Path, store: FailingStore, error: Exception, answer: object
) -> None:
    store.error = error
    answers, writer = write(tmp_path, WRITE, storage_of(store, []))
    assert answers == [answer]
    assert writer.permanent_error is (error if isinstance(error, RefusedSnapshot) else None)


def test_a_record_that_cannot_be_written_in_time_fails_the_attempt(
    tmp_path: Path, store: FailingStore
) -> None:
    def write_record(number: int) -> None:
        raise StoreError("disk is full")

    storage = storage_of(store, [])
    storage.write_commit_record = write_record
    answers, writer = write(tmp_path, OutputCommitted(3), storage)
    (failure,) = answers
    assert isinstance(failure, Failure)
    assert (failure.message, failure.step) == ("disk is full", "checkpoints")
    assert writer.permanent_error is None
