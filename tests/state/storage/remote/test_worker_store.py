"""Blobs in a bucket that workers in processes of their own put, and their coordinator commits."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.api.snapshots import StoreError
from headrace.core.api.storage_url import StorageUrl
from headrace.state.storage.leftover_files import LeftoverFiles
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.remote.bucket import Bucket, open_bucket
from headrace.state.storage.remote.checkpoint_repository import own_checkpoints
from headrace.state.storage.remote.store import RemoteSnapshotStore, RemoteWorkerStore
from tests.support.cli.processes import ended, start
from tests.support.s3.proxy import Proxy, between
from tests.support.s3.server import Server

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
def stores(
    there: Bucket, tmp_path: Path
) -> Iterator[tuple[RemoteSnapshotStore, RemoteWorkerStore]]:
    """The stores of a coordinator and of its worker."""
    with own_checkpoints(there, "bids", "home", LocalDisk(), lambda: NOW) as repository:
        job = repository.ensure_job_id(NOW)
        coordinator = repository.open_store(job)
        assert isinstance(coordinator, RemoteSnapshotStore)
        leftovers = LeftoverFiles(LocalDisk(), str(tmp_path / "left"))
        worker = RemoteWorkerStore(there, job, LocalDisk(), leftovers)
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


@pytest.fixture
def proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy in front of the server, for processes and for buckets that are opened now."""
    with between(server.port) as proxy:
        for name, value in server.environment(proxy.port).items():
            monkeypatch.setenv(name, value)
        yield proxy


def list_read_blobs(proxy: Proxy) -> list[str]:
    """Return the names of the blobs that were read from the bucket."""
    reads = (each for each in proxy.asked if each.startswith("GET") and "/blobs/" in each)
    return [each.rpartition("/")[2] for each in reads]


def test_a_blob_is_fetched_from_a_leftover_file_only_if_that_is_whole(
    proxy: Proxy, place: StorageUrl, tmp_path: Path
) -> None:
    state, fetched = tmp_path / "state", tmp_path / "fetched"
    for folder in (state / "1" / "db", fetched):
        folder.mkdir(parents=True)
    leftovers = LeftoverFiles(LocalDisk(), str(tmp_path / "left"))
    worker = RemoteWorkerStore(open_bucket(place), "0" * 32, LocalDisk(), leftovers)
    contents = {"1.sst": b"whole", "2.sst": b"wrong", "3.run": b"short", "4.log": b"other"}
    for name, data in contents.items():
        (state / "1" / "db" / name).write_bytes(data)
    blobs = {name: worker.put(data) for name, data in contents.items()}
    worker.share_blobs()
    (state / "1" / "db" / "2.sst").write_bytes(b"WRONG")
    (state / "1" / "db" / "3.run").write_bytes(b"sho")
    leftovers.add(str(state))
    shutil.rmtree(state)
    for name, blob in blobs.items():
        worker.fetch(blob, str(fetched / name), link=True)
        assert (fetched / name).read_bytes() == contents[name]
    assert list_read_blobs(proxy) == [blobs[name].hash for name in ("2.sst", "3.run", "4.log")]
    leftovers.clear()
    worker.fetch(blobs["1.sst"], str(fetched / "again"), link=True)
    assert list_read_blobs(proxy)[3:] == [blobs["1.sst"].hash]
    assert (fetched / "1.sst").read_bytes() == b"whole"
    worker.close()


def count_lines(folder: Path) -> int:
    return sum(len(part.read_text().splitlines()) for part in folder.glob("*.jsonl"))


SPILLED = """\
name: spilled
settings:
  workers: 2
  state: {memory: 4KB}
  checkpoint: {every: 300ms, dir: PLACE}
  restart: {strategy: fixed, attempts: 50, delay: 100ms}
sources:
  numbers: {files: {path: in, watch: 1s}, schema: {x: bigint}}
steps:
  counts: {from: numbers, key: x, aggregate: {n: count(*)}}
sinks:
  out: {from: counts, files: {path: out}}
"""


def test_a_killed_worker_and_those_beside_it_restore_from_files_on_this_machine(
    proxy: Proxy, place: StorageUrl, tmp_path: Path
) -> None:
    (tmp_path / "p.yaml").write_text(SPILLED.replace("PLACE", str(place)))
    (tmp_path / "in").mkdir()
    job = start(tmp_path, "p.yaml", "--log", "json")
    try:
        victim = read_events(job, "worker_started", 2)[1]["pid"]
        for first in range(0, 10_000, 5_000):  # rows move to disk when more of them come
            rows = "".join(f'{{"x": {x}}}\n' for x in range(first, first + 5_000))
            (tmp_path / "in" / f"{first}.jsonl").write_text(rows)
            while count_lines(tmp_path / "out") < first + 5_000:
                read_events(job, "checkpoint", 1)
        proxy.asked.clear()
        assert isinstance(victim, int)
        os.kill(victim, signal.SIGKILL)
        read_events(job, "worker_started", 1)
        read_events(job, "checkpoint", 2)
        job.send_signal(signal.SIGTERM)
    finally:
        _, err = job.communicate(timeout=120)
    assert job.returncode == 0, err
    bucket = open_bucket(place.child("spilled"))
    (newest, *_) = [name for name in bucket.list_objects() if "/manifests/" in name]
    manifest = bucket.read(newest)
    assert manifest is not None
    tables = re.findall(rb'"\d+\.sst":\{"blob":"([0-9a-f]+)"', manifest.data)
    assert tables, manifest.data[1000:]
    assert not {*list_read_blobs(proxy)} & {each.decode() for each in tables}
    assert not [*tmp_path.rglob("worker-*-left")]
    assert count_lines(tmp_path / "out") == 10_000


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
