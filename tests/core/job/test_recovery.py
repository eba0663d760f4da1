"""Commits before an attempt runs: those that fail, and the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace.connectors.memory import InMemoryData, MemorySink
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.splits import Handle
from headrace.core.checkpoint.manifest import RestoredCheckpoint
from headrace.core.checkpoint.storage import CheckpointStorage
from headrace.core.coordination.messages import RestoredState
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.job.recovery import commit_restored_output
from headrace.core.pipeline.settings import NoRestart
from headrace.core.worker.connectors import OpenConnectors
from headrace.state.storage.home import Home
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.state.manifests import build_blob_manifest


@dataclass(slots=True)
class Committing(MemorySink):
    """A sink that records its commits, of which some fail."""

    lost: Sequence[str] = ()
    asked: list[object] = field(default_factory=list)

    async def commit(self, handle: Handle) -> None:
        """Commit a handle, if it is not lost."""
        self.asked.append(handle["key"])
        if handle["key"] in self.lost:
            raise ConnectorError(f"{handle['key']} is lost", final=True)


def test_lost_output_is_reported_and_does_not_block_other_commits() -> None:
    home = Home(MemoryDisk(), "/jobs", "test")
    a, b = Committing(InMemoryData(), "a", ["1", "3"]), Committing(InMemoryData(), "b", ["5"])
    handles = [("a", "1"), ("a", "2"), ("a", "3"), ("b", "4"), ("b", "5")]
    named = tuple((sink, {"key": key}) for sink, key in handles)
    with home.hold("now"):
        store = home.open_store(home.ensure_job_id("now"))
        counts = {"parts": {"a": [2, 3, 0, 0, 0]}, "failed": {}}
        sinks: dict[str, object] = {sink: {"handles": [], "writers": []} for sink in "ab"}
        store.commit(1, build_blob_manifest(sinks=sinks, counts=counts))
        keeping = CheckpointStorage(
            store,
            RestartPolicy(NoRestart()),
            write_commit_record=home.write_commit_record,
            write_completion_record=home.write_completion_record,
        )
        commit = commit_restored_output(
            RestoredCheckpoint(1, False, RestoredState(), named),
            OpenConnectors(sinks={"a": a, "b": b}),
            keeping,
            RunContext(Path(), "0" * 32, KernelExecutor()),
        )
        with pytest.raises(ConnectorError) as raised:
            asyncio.run(commit)
        assert home.read_commit_record() is None
        completed = home.read_completion_record()
    assert completed is not None
    assert (completed["checkpoint"], completed["rows"]) == (1, {"a": 2, "b": 0})
    assert raised.value.message == "1 is lost; a: 3 is lost; b: 5 is lost"
    assert (a.asked, b.asked) == (["1", "2", "3"], ["4", "5"])
