"""Blobs in a bucket that workers in processes of their own put, and their coordinator commits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.api.snapshots import StoreError
from headrace.core.api.storage_url import StorageUrl
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.remote.bucket import Bucket
from headrace.state.storage.remote.checkpoint_repository import own_checkpoints
from headrace.state.storage.remote.store import RemoteSnapshotStore, RemoteWorkerStore
from tests.support.cli.processes import ended, start

NOW = "2026-01-01T00:00:00Z"
ROWS = 24_000
PIPELINE = """\
name: bids
settings:
  workers: 2
  checkpoint: {every: 300ms, dir: PLACE}
  restart: {strategy: fixed, attempts: 50, delay: 100ms}
sources:
  numbers: {generate: {rows: ROWS, rate: 3000/s, columns: {x: id}}}
steps:
  counts: {from: numbers, key: {k: x % 100}, aggregate: {n: count(*)}}
sinks:
  out: {from: counts, files: {path: out}}
"""


@pytest.fixture
def stores(there: Bucket) -> Iterator[tuple[RemoteSnapshotStore, RemoteWorkerStore]]:
    """The stores of a coordinator and of its worker."""
    with own_checkpoints(there, "bids", "home", LocalDisk(), lambda: NOW) as repository:
        job = repository.ensure_job_id(NOW)
        coordinator = repository.open_store(job)
        assert isinstance(coordinator, RemoteSnapshotStore)
        worker = RemoteWorkerStore(there, job, LocalDisk())
        yield coordinator, worker
        worker.close()


def test_a_coordinator_commits_what_its_worker_shares(
    stores: tuple[RemoteSnapshotStore, RemoteWorkerStore],
) -> None:
    coordinator, worker = stores
    blob = worker.put(b"rows")
    manifest = {"states": [blob.to_document()]}
    with pytest.raises(StoreError):
        coordinator.commit(1, manifest)
    worker.share_blobs()
    coordinator.adopt([blob])
    coordinator.commit(1, manifest)
    coordinator.collect([1])
    assert worker.has(blob)
    assert coordinator.read(blob) == b"rows"
    assert coordinator.bytes_written == len(b"rows")


def test_no_manifest_names_a_blob_that_was_removed_after_its_worker_looked(
    stores: tuple[RemoteSnapshotStore, RemoteWorkerStore],
) -> None:
    coordinator, worker = stores
    blob = worker.put(b"rows")
    worker.share_blobs()
    coordinator.adopt([blob])
    coordinator.commit(1, {"states": [blob.to_document()]})
    assert worker.has(blob)
    coordinator.discard(1)
    for _ in range(2):
        coordinator.collect([])
    worker.share_blobs()
    coordinator.adopt([blob])
    with pytest.raises(StoreError, match="not there"):
        coordinator.commit(2, {"states": [blob.to_document()]})

    assert not worker.has(blob)
    assert worker.put(b"rows") == blob
    worker.share_blobs()
    coordinator.adopt([blob])
    coordinator.commit(3, {"states": [blob.to_document()]})
    assert coordinator.read(blob) == b"rows"


def test_adopted_blobs_outlive_a_collect_before_their_commit(
    stores: tuple[RemoteSnapshotStore, RemoteWorkerStore],
) -> None:
    coordinator, worker = stores
    blob = worker.put(b"rows")
    worker.share_blobs()
    coordinator.adopt([blob])
    coordinator.collect([])
    coordinator.commit(1, {"states": [blob.to_document()]})
    assert coordinator.read(blob) == b"rows"


def read_events(process: subprocess.Popen[str], kind: str, count: int) -> list[dict[str, object]]:
    """Read the log until it has this many more events of a kind; return them."""
    assert process.stderr is not None
    found: list[dict[str, object]] = []
    for line in process.stderr:
        event = json.loads(line)
        if event["event"] == kind:
            found.append(event)
        if len(found) == count:
            return found
    raise AssertionError(f"the job ended after {len(found)} of {count} events: {kind}")


def test_killed_workers_and_another_number_of_them_resume_from_a_bucket(
    there: Bucket, place: StorageUrl, tmp_path: Path
) -> None:
    text = PIPELINE.replace("PLACE", str(place)).replace("ROWS", str(ROWS))
    (tmp_path / "p.yaml").write_text(text)
    first = start(tmp_path, "p.yaml", "--log", "json")
    try:
        victim = read_events(first, "worker_started", 2)[1]["pid"]
        read_events(first, "checkpoint", 2)
        assert isinstance(victim, int)
        os.kill(victim, signal.SIGKILL)
        read_events(first, "worker_started", 1)
        read_events(first, "checkpoint", 3)
    finally:
        first.kill()
        ended(first)
    second = start(tmp_path, "p.yaml", "--log", "json", "--workers", "3")
    try:
        read_events(second, "resumed", 1)
    finally:
        _, err = second.communicate(timeout=120)
    assert second.returncode == 0, err
    rows = [
        json.loads(line)
        for part in (tmp_path / "out").glob("*.jsonl")
        for line in part.read_text().splitlines()
    ]
    found = Counter((row["k"], row["n"]) for row in rows)
    assert max(found.values()) == 1
    assert {(k, ROWS // 100) for k in range(100)} <= set(found)
    assert sorted(there.list_objects()) == ["job.json", "owner.json"]
