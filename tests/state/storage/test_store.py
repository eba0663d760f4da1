"""Snapshot store: what it retains, what it drops, and its errors."""

from __future__ import annotations

import errno
import random

import pytest

from headrace.core.api.snapshots import Blob, StoreError, UnknownOutcome, find_blobs
from headrace.state.storage.local_store import LocalSnapshotStore
from tests.support.state.checkpointing_job import BLOBS, CHECKPOINTS, WORK, Job, Trouble

MANIFESTS = f"{CHECKPOINTS}/manifests"


@pytest.fixture
def job() -> Job:
    """A job that has begun, with a disk that works."""
    job = Job()
    job.arrange(Trouble())
    job.start()
    return job


def store_of(job: Job) -> LocalSnapshotStore:
    assert isinstance(job.store, LocalSnapshotStore)
    return job.store


def killed(job: Job) -> LocalSnapshotStore:
    """The store as the next process opens it."""
    job.arrange(Trouble())
    job.disk.kill()
    return job.start()


def without_power(job: Job, seed: int) -> LocalSnapshotStore:
    """The store as it is opened when the power is back."""
    job.arrange(Trouble())
    job.disk.lose_power(random.Random(seed))
    return job.start()


def failing(job: Job, operation: str, path: str, failures: int = 1) -> None:
    job.arrange(Trouble(fail_on=f"{operation} {path}", failures=failures))


def test_a_blob_is_named_by_its_sha256(job: Job) -> None:
    blob = store_of(job).put(b"abc")
    assert blob == Blob("ba7816bf8f01cfea414140de5dae2223", 3)


def test_blobs_are_found_at_any_depth_of_a_document() -> None:
    one, two = Blob("0" * 32, 1), Blob("f" * 32, 2)
    document = {"a": [{"b": one.to_document()}, 7, [two.to_document()]], "blob": "not one"}
    assert list(find_blobs(document)) == [one, two]
    assert Blob.from_document(one.to_document()) == one


@pytest.mark.parametrize("document", [{"blob": "../lock", "bytes": 1}, {"blob": "0" * 32}, 7, None])
def test_what_is_like_a_blob_names_none(document: object) -> None:
    assert not list(find_blobs(document))


def test_the_same_bytes_are_written_once(job: Job) -> None:
    store = store_of(job)
    assert store.put(b"abc") == store.put(memoryview(b"abc"))
    job.disk.write(f"{WORK}/file", (b"abc",))
    store.put_file(f"{WORK}/file")
    assert store.bytes_written == 3


def test_a_checkpoint_syncs_each_blob_and_three_times_more(job: Job) -> None:
    before = job.disk.sync_count
    for number in range(10):
        job.put(b"%d" % number)
    assert job.disk.sync_count == before
    assert job.commit()
    assert job.disk.sync_count == before + 10 + len(["folder of blobs", "manifest", "its folder"])


def test_a_checkpoint_whose_number_is_taken_is_refused(job: Job) -> None:
    assert job.commit()
    with pytest.raises(StoreError, match="checkpoint 1 is there already"):
        store_of(job).commit(1, {})


def test_a_checkpoint_that_names_what_is_not_there_is_refused(job: Job) -> None:
    missing = Blob("0" * 32, 5)
    with pytest.raises(StoreError, match=f"checkpoint 1 needs .*/{missing.hash}, which is not"):
        store_of(job).commit(1, {"states": [missing.to_document()]})
    assert store_of(job).list_checkpoints() == []


def test_a_blob_whose_file_is_gone_is_put_again(job: Job) -> None:
    job.put(b"abc")
    [blob] = job.blobs
    job.commit()
    job.disk.remove(f"{BLOBS}/{blob.hash}")
    assert not store_of(job).has(blob)
    job.put(b"abc")
    assert job.commit()
    job.read(2)


def test_what_another_process_left_unnamed_is_not_trusted(job: Job) -> None:
    blob = store_of(job).put(b"abc")
    job.commit()
    store = killed(job)
    job.disk.damage(f"{BLOBS}/{blob.hash}", b"abX")
    assert not store.has(blob)
    job.put(b"abc")
    assert job.commit()
    job.read(2)


def test_what_was_put_since_the_last_collect_is_spared_and_dropped_by_the_next(job: Job) -> None:
    store = store_of(job)
    failed, again = store.put(b"for a checkpoint that fails"), store.put(b"to be named again")
    job.commit()
    store.collect([])
    assert store.has(again) and failed.hash in job.disk.list_names(BLOBS)
    store.collect([])
    assert job.disk.list_names(BLOBS) == [again.hash]
    assert not store.has(failed)
    job.blobs = [again]
    assert job.commit()


def test_collect_retains_needed_blobs_and_foreign_files(job: Job) -> None:
    job.disk.write(f"{BLOBS}/a note", (b"",))
    for number in range(1, 5):
        job.put(b"%d" % number)
        job.commit()
    store = store_of(job)
    for _ in range(2):
        store.collect([2, 4])
    assert store.list_checkpoints() == [2, 4]
    kept = {blob.hash for number in (2, 4) for blob in job.named[number]}
    assert set(job.disk.list_names(BLOBS)) == kept | {"a note"}


def test_no_blob_is_removed_while_a_retained_manifest_cannot_be_read(job: Job) -> None:
    job.put(b"abc")
    job.commit()
    store = killed(job)
    job.disk.damage(f"{MANIFESTS}/1.json", b"{}")
    job.disk.kill()
    # A process that finds the checkpoint damaged, and starts from another one.
    store = LocalSnapshotStore(job.disk, CHECKPOINTS, job.id or "")
    store.prepare()
    for _ in range(3):
        store.collect([1])
    assert len(job.disk.list_names(BLOBS)) == 1
    for _ in range(2):
        store.collect([])
    assert job.disk.list_names(BLOBS) == []


def test_a_discarded_checkpoint_is_gone_for_good(job: Job) -> None:
    for _ in range(2):
        job.commit()
    store_of(job).discard(2)
    store_of(job).discard(7)
    job.committed = 1
    for seed in range(10):
        assert without_power(job, seed).list_checkpoints() == [1]


@pytest.mark.parametrize("large", [False, True])
def test_a_full_disk_fails_a_checkpoint_and_the_next_takes_what_was_put(
    job: Job, large: bool
) -> None:
    job.put(b"first")
    job.commit()
    job.disk.capacity = job.disk.measure_used_bytes() + 10
    job.put(b"fits")
    with pytest.raises(StoreError, match=r"cannot write into .*/blobs: no space left on device"):
        job.put(b"does not fit" * (100_000 if large else 1))
    kept, job.blobs = job.blobs, job.blobs
    assert not job.commit()
    assert store_of(job).list_checkpoints() == [1]
    assert not [name for name in job.disk.list_names(BLOBS) if name.endswith(".tmp")]
    job.disk.capacity = None
    store_of(job).collect([1])
    assert all(map(store_of(job).has, kept))
    job.blobs = kept
    assert job.commit()
    without_power(job, 1)


def test_a_file_whose_sync_failed_is_not_linked_again(job: Job) -> None:
    for seed in range(10):
        job.disk.remove(f"{WORK}/file")
        job.disk.write(f"{WORK}/file", (b"abc%d" % seed,))
        job.arrange(Trouble())
        blob = store_of(job).put_file(f"{WORK}/file")
        job.named[job.number + 1] = frozenset([blob])
        job.contents[blob] = b"abc%d" % seed
        temporary = next(name for name in job.disk.list_names(BLOBS) if name.endswith(".tmp"))
        failing(job, "sync", f"{BLOBS}/{temporary}")
        job.blobs = [blob]
        assert not job.commit()
        assert not store_of(job).has(blob)
        job.blobs = [store_of(job).put_file(f"{WORK}/file")]
        assert job.commit()
        without_power(job, seed)


@pytest.mark.parametrize("seed", range(10))
def test_a_folder_of_blobs_that_could_not_be_synced_is_not_trusted(job: Job, seed: int) -> None:
    job.put(b"abc")
    blobs = list(job.blobs)
    failing(job, "sync_folder", BLOBS)
    assert not job.commit()
    assert not store_of(job).has(blobs[0])
    job.put(b"abc")
    assert job.commit()
    without_power(job, seed)


@pytest.mark.parametrize("seed", range(10))
def test_a_manifest_that_is_seen_but_perhaps_not_safe_is_written_again(job: Job, seed: int) -> None:
    failing(job, "sync_folder", MANIFESTS)
    assert job.commit()
    assert without_power(job, seed).list_checkpoints() == [1]


@pytest.mark.parametrize("seed", range(10))
def test_an_unknown_outcome_is_reported_as_such_until_settled(job: Job, seed: int) -> None:
    failing(job, "sync_folder", MANIFESTS, 5)
    with pytest.raises(
        UnknownOutcome, match="checkpoint 1, nor find out whether it is there: injected"
    ):
        job.commit()
    for call in (
        lambda: store_of(job).commit(2, {}),
        lambda: store_of(job).collect([]),
        store_of(job).list_checkpoints,
    ):
        with pytest.raises(UnknownOutcome):
            call()
    assert store_of(job).list_checkpoints() == [1]
    job.committed = 1
    assert without_power(job, seed).list_checkpoints() == [1]


@pytest.mark.parametrize("seed", range(10))
def test_an_unknown_outcome_is_settled_by_the_next_process(job: Job, seed: int) -> None:
    failing(job, "sync_folder", MANIFESTS, 2)
    with pytest.raises(UnknownOutcome):
        job.commit()
    assert killed(job).list_checkpoints() == [1]
    assert without_power(job, seed).list_checkpoints() == [1]


def test_a_manifest_that_could_not_be_named_is_not_there(job: Job) -> None:
    failing(job, "rename", f"{MANIFESTS}/1.json.tmp")
    assert not job.commit()
    assert store_of(job).list_checkpoints() == []
    assert job.disk.list_names(MANIFESTS) == []


def test_a_failing_disk_is_reported_with_reason_and_hint(job: Job) -> None:
    job.arrange(Trouble(fail_at=0, code=errno.EROFS))
    with pytest.raises(StoreError) as caught:
        store_of(job).put(b"abc")
    assert caught.value.message == f"cannot write into {BLOBS}: injected"
    assert "mounted read-only" in caught.value.hint
    assert caught.value.exit_status == 1


def test_a_store_can_be_read_without_holding_the_home(job: Job) -> None:
    job.put(b"abc")
    job.commit()
    job.arrange(Trouble())
    looking = LocalSnapshotStore(job.disk, CHECKPOINTS, job.id or "")
    assert looking.list_checkpoints() == [1]
    [blob] = find_blobs(looking.read_manifest(1))
    assert looking.read(blob) == b"abc"
    assert {line.split()[0] for line in job.trouble.log} == {"read"}
