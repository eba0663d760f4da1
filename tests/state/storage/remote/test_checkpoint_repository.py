"""What holds of every place for checkpoints: a home on a disk, and a bucket of a real S3 server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.core.api.snapshots import (
    Blob,
    DamagedSnapshot,
    Manifest,
    RefusedSnapshot,
    StoreError,
)
from headrace.state.storage.checkpoint_repository import CheckpointRepository, JobSnapshotStore
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.remote.bucket import Bucket
from headrace.state.storage.remote.checkpoint_repository import (
    RemoteCheckpointRepository,
    own_checkpoints,
)
from tests.support.state.checkpointing_job import NOW
from tests.support.state.manifests import build_blob_manifest

Spoil = Callable[[bytes], bytes | None]


@dataclass(frozen=True)
class Where:
    """Storage of checkpoints, as a run opens it and as another process changes its files."""

    begun: Callable[[], AbstractContextManager[CheckpointRepository]]
    read: Callable[[str], bytes]
    """The bytes of a file, by its name below the job's own."""
    write: Callable[[str, bytes | None], None]
    """Put others there, or remove it."""
    address: Callable[[str], str]

    def spoil(self, name: str, spoil: Spoil) -> None:
        """Change a file."""
        self.write(name, spoil(self.read(name)))


def at_home(folder: Path) -> Where:
    """A home on the disk of this machine."""
    home = Home(LocalDisk(), str(folder), "bids")

    @contextmanager
    def begun() -> Iterator[CheckpointRepository]:
        with home.hold(NOW):
            yield home

    def write(name: str, data: bytes | None) -> None:
        path = Path(home.checkpoint_folder) / name
        path.unlink() if data is None else path.write_bytes(data)

    root = Path(home.checkpoint_folder)
    return Where(begun, lambda n: (root / n).read_bytes(), write, lambda n: str(root / n))


def in_bucket(there: Bucket) -> Where:
    """A bucket; what is of a job is below its id."""

    def full(name: str) -> str:
        if name == "job.json":
            return name
        [folder] = {each.partition("/")[0] for each in there.list_objects() if "/" in each}
        return f"{folder}/{name}"

    def read(name: str) -> bytes:
        found = there.read(full(name))
        assert found is not None
        return found.data

    def write(name: str, data: bytes | None) -> None:
        there.remove([full(name)]) if data is None else there.put(full(name), data)

    def begun() -> AbstractContextManager[RemoteCheckpointRepository]:
        return own_checkpoints(there, "bids", "home", LocalDisk(), lambda: NOW)

    return Where(begun, read, write, lambda name: f"{there.address}/{full(name)}")


@pytest.fixture(params=["home", "bucket"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    if request.param == "home":
        return at_home(tmp_path)
    return in_bucket(request.getfixturevalue("there"))


@pytest.fixture
def store(where: Where) -> Iterator[JobSnapshotStore]:
    """The store of a job that has begun."""
    with where.begun() as cabinet:
        yield cabinet.open_store(cabinet.ensure_job_id(NOW))


def names(*blobs: Blob) -> Manifest:
    """A manifest that names them."""
    return build_blob_manifest(blobs)


@pytest.fixture
def kept(where: Where) -> tuple[Blob, Blob, Blob]:
    """Three checkpoints: `a` is of the first two, `b` of the last two, `c` of the last."""
    with where.begun() as cabinet:
        store = cabinet.open_store(cabinet.ensure_job_id(NOW))
        a, b, c = (store.put(data) for data in (b"aaaa", b"bbbb", b"cccc"))
        for number, blobs in enumerate(([a], [a, b], [b, c]), 1):
            store.commit(number, names(*blobs))
    return a, b, c


@contextmanager
def again(where: Where) -> Iterator[JobSnapshotStore]:
    """The store as the next run opens it."""
    with where.begun() as cabinet:
        yield cabinet.open_store(cabinet.ensure_job_id(NOW))


def test_the_same_bytes_are_put_once(store: JobSnapshotStore, tmp_path: Path) -> None:
    blob = store.put(b"abc")
    assert blob == Blob("ba7816bf8f01cfea414140de5dae2223", 3)
    (tmp_path / "file").write_bytes(b"abc")
    assert store.put(memoryview(b"abc")) == store.put_file(str(tmp_path / "file")) == blob
    assert store.bytes_written == 3


@pytest.mark.parametrize("data", [b"", b"abc", bytes(9 << 20)])
def test_what_is_put_comes_back(store: JobSnapshotStore, data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"f" + data)
    blobs = [store.put(data), store.put_file(str(file))]
    file.unlink()
    store.commit(1, names(*blobs))
    assert [store.read(blob) for blob in blobs] == [data, b"f" + data]
    store.fetch(blobs[1], str(file))
    assert file.read_bytes() == b"f" + data


def test_what_is_put_may_be_named_before_it_is_there(store: JobSnapshotStore) -> None:
    blobs = [store.put(b"%d" % number) for number in range(40)]
    assert all(map(store.has, blobs))
    store.commit(1, names(*blobs))
    assert [store.read(blob) for blob in blobs] == [b"%d" % number for number in range(40)]


def test_a_number_that_is_taken_is_refused(store: JobSnapshotStore) -> None:
    store.commit(1, {"a": 1})
    with pytest.raises(StoreError, match="checkpoint 1 is there already"):
        store.commit(1, {"a": 1})
    assert store.list_checkpoints() == [1]


def test_a_checkpoint_that_names_what_is_not_there_is_refused(store: JobSnapshotStore) -> None:
    with pytest.raises(StoreError, match=f"checkpoint 1 needs .*/{'0' * 32}, which is not there"):
        store.commit(1, names(Blob("0" * 32, 5)))
    assert store.list_checkpoints() == []


def test_what_another_run_left_unnamed_is_not_trusted(where: Where) -> None:
    with again(where) as store:
        blob = store.put(b"abc")
        store.commit(1, {})
    where.write(f"blobs/{blob.hash}", b"abX")
    with again(where) as store:
        assert not store.has(blob)
        assert store.put(b"abc") == blob
        store.commit(2, names(blob))
        assert store.read(blob) == b"abc"


def test_what_was_put_since_the_last_collect_is_spared_and_dropped_by_the_next(
    store: JobSnapshotStore,
) -> None:
    failed, later = store.put(b"for a checkpoint that fails"), store.put(b"to be named again")
    store.commit(1, {})
    store.collect([])
    assert store.has(later)
    store.collect([])
    assert store.has(later) and not store.has(failed)
    store.commit(2, names(later))
    assert store.read(later) == b"to be named again"
    with pytest.raises(DamagedSnapshot, match="it is missing"):
        store.read(failed)


def test_collect_retains_blobs_of_retained_manifests(store: JobSnapshotStore) -> None:
    blobs = []
    for number in range(1, 5):
        blobs.append(store.put(b"%d" % number))
        store.commit(number, names(blobs[-1]))
    for _ in range(2):
        store.collect([2, 4])
    assert store.list_checkpoints() == [2, 4]
    assert [store.has(blob) for blob in blobs] == [False, True, False, True]
    assert store.is_whole(2) and store.is_whole(4)


def test_a_blob_that_somebody_removes_is_put_again(where: Where, store: JobSnapshotStore) -> None:
    blob = store.put(b"abc")
    store.commit(1, names(blob))
    where.write(f"blobs/{blob.hash}", None)
    store.collect([1])
    assert not store.has(blob)
    store.commit(2, names(store.put(b"abc")))
    assert store.read(blob) == b"abc"


def test_no_blob_is_removed_while_a_retained_manifest_cannot_be_read(
    where: Where, kept: tuple[Blob, ...]
) -> None:
    where.write("manifests/3.json", b"{}")
    with again(where) as store:
        for _ in range(3):
            store.collect([2, 3])
        assert where.read(f"blobs/{kept[2].hash}") == b"cccc"


def test_a_discarded_checkpoint_is_gone(where: Where, kept: tuple[Blob, ...]) -> None:
    with again(where) as store:
        store.discard(3)
        store.discard(7)
        assert store.list_checkpoints() == [1, 2]
        store.commit(3, names(kept[0]))
    with again(where) as store:
        assert store.list_checkpoints() == [1, 2, 3]


SPOILED: list[tuple[Spoil, str]] = [
    (lambda data: data[:-1], "wanted 4 bytes, got 3"),
    (lambda data: data + b"x", "wanted 4 bytes, got 5"),
    (lambda data: b"", "wanted 4 bytes, got 0"),
    (lambda data: b"X" + data[1:], "its 4 bytes are not those that were written"),
    (lambda data: None, "it is missing"),
]


@pytest.mark.parametrize(("spoil", "said"), SPOILED)
def test_a_damaged_blob_is_named_with_its_checkpoints_and_a_whole_one(
    where: Where, kept: tuple[Blob, ...], spoil: Spoil, said: str, tmp_path: Path
) -> None:
    name = f"blobs/{kept[1].hash}"
    where.spoil(name, spoil)
    with again(where) as store:
        for read in (
            lambda: store.read(kept[1]),
            lambda: store.verify(3),
            lambda: store.fetch(kept[1], str(tmp_path / "file")),
        ):
            with pytest.raises(DamagedSnapshot) as caught:
                read()
            damage = f"{where.address(name)} is damaged: {said}; checkpoints 2 and 3 need it"
            assert caught.value.message == damage
            assert caught.value.hint.startswith("checkpoint 1 is intact: --from-checkpoint 1")
        assert [store.is_whole(number) for number in (1, 2, 3)] == [True, False, False]
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("spoil", [spoil for spoil, _ in SPOILED])
def test_a_damaged_manifest_is_named_and_the_one_before_is_offered(
    where: Where, kept: tuple[Blob, ...], spoil: Spoil
) -> None:
    name = "manifests/3.json"
    where.spoil(name, spoil)
    with again(where) as store:
        with pytest.raises(DamagedSnapshot) as caught:
            store.read_manifest(3)
        assert caught.value.message.startswith(f"{where.address(name)} is damaged: ")
        assert (caught.value.checkpoints, caught.value.whole) == ((3,), 2)
        assert store.read_manifest(2)["number"] == 2


def test_a_manifest_under_another_number_is_refused(where: Where, kept: tuple[Blob, ...]) -> None:
    data = where.read("manifests/3.json")
    where.write("manifests/4.json", data)
    with again(where) as store, pytest.raises(RefusedSnapshot, match="wanted number 4, got 3"):
        store.read_manifest(4)


def test_a_job_keeps_its_id_also_where_it_is_lost(where: Where, kept: tuple[Blob, ...]) -> None:
    with where.begun() as cabinet:
        job = cabinet.ensure_job_id(NOW)
    where.write("job.json", None)
    with where.begun() as cabinet:
        assert cabinet.ensure_job_id(NOW) == job
    where.write("job.json", b"{}")
    with where.begun() as cabinet, pytest.raises(DamagedSnapshot, match=r"job\.json is damaged"):
        cabinet.ensure_job_id(NOW)


def test_a_deleted_job_starts_with_another_id_and_no_checkpoints(
    where: Where, kept: tuple[Blob, ...]
) -> None:
    with where.begun() as cabinet:
        job = cabinet.ensure_job_id(NOW)
        cabinet.delete_job()
        assert cabinet.ensure_job_id(NOW) != job
        assert cabinet.open_store(cabinet.ensure_job_id(NOW)).list_checkpoints() == []


def test_a_job_in_the_place_of_another_has_what_it_was_given(
    where: Where, kept: tuple[Blob, ...]
) -> None:
    with where.begun() as cabinet:
        job = cabinet.ensure_job_id(NOW)
        with pytest.raises(StoreError), cabinet.replace_job(NOW) as renewed:
            renewed.put(b"of one that is given up")
            raise StoreError("no")
        assert (cabinet.ensure_job_id(NOW), cabinet.open_store(job).list_checkpoints()) == (
            job,
            [1, 2, 3],
        )
        with cabinet.replace_job(NOW) as renewed:
            renewed.commit(1, names(renewed.put(b"new")))
        assert cabinet.ensure_job_id(NOW) == renewed.job_id != job
        store = cabinet.open_store(renewed.job_id)
        assert store.list_checkpoints() == [1] and store.is_whole(1)
        looking = cabinet.open_read_only()
        assert looking is not None and (looking.job_id, looking.list_checkpoints()) == (
            renewed.job_id,
            [1],
        )


def test_the_end_of_a_job_is_known_until_it_is_cleared(where: Where) -> None:
    with where.begun() as cabinet:
        assert cabinet.read_finished() is None
        cabinet.mark_finished({"rows": 7})
        cabinet.delete_job()
    with where.begun() as cabinet:
        assert cabinet.read_finished() == {"rows": 7}
        cabinet.clear_finished()
    with where.begun() as cabinet:
        assert cabinet.read_finished() is None


def test_the_commit_record_is_of_this_job(where: Where, kept: tuple[Blob, ...]) -> None:
    with where.begun() as cabinet:
        cabinet.ensure_job_id(NOW)
        assert cabinet.read_commit_record() is None
        cabinet.write_commit_record(3)
    with where.begun() as cabinet:
        cabinet.ensure_job_id(NOW)
        assert cabinet.read_commit_record() == 3
        cabinet.delete_job()
        cabinet.ensure_job_id(NOW)
        assert cabinet.read_commit_record() is None


def test_threads_put_and_ask_while_old_checkpoints_are_collected(store: JobSnapshotStore) -> None:
    with ThreadPoolExecutor(8) as threads:
        for number in range(1, 4):
            data = [b"%d" % (number * 10 + each % 20) for each in range(60)]
            putting = [threads.submit(store.put, each) for each in data]
            store.collect([number - 1])
            blobs = [each.result() for each in putting]
            assert all(threads.map(store.has, blobs))
            store.commit(number, names(*blobs))
            assert [store.read(blob) for blob in blobs] == data
