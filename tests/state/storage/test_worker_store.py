"""Blobs that a worker in a process of its own puts, and its coordinator commits."""

from pathlib import Path

import pytest

from headrace.core.api.snapshots import StoreError
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.local_store import LocalSnapshotStore, WorkerSnapshotStore


def test_a_worker_shares_blobs_that_its_coordinator_commits(tmp_path: Path) -> None:
    coordinator = LocalSnapshotStore(LocalDisk(), str(tmp_path), "a" * 32)
    coordinator.prepare()
    worker = WorkerSnapshotStore(LocalDisk(), str(tmp_path), "a" * 32)
    blob = worker.put(b"rows")
    manifest = {"states": [blob.to_document()]}
    with pytest.raises(StoreError):
        coordinator.commit(1, manifest)
    worker.share_blobs()
    coordinator.adopt([blob])
    coordinator.commit(1, manifest)
    coordinator.collect([1])
    assert coordinator.read(blob) == b"rows"
    assert worker.has(blob)
    assert coordinator.bytes_written == len(b"rows")
    coordinator.discard(1)
    coordinator.collect([])
    assert not worker.has(blob)
