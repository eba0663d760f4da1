"""Files of a home that are cut short, changed or gone: which, whose, and where else to start."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.core.api.snapshots import Blob, DamagedSnapshot, RefusedSnapshot, StoreError
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.local_store import LocalSnapshotStore
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.state.checkpointing_job import NOW, Trouble
from tests.support.state.manifests import build_blob_manifest

Spoil = Callable[[Path], object]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def remove(path: Path) -> None:
    path.unlink()


SPOILED = pytest.mark.parametrize("spoil", [cut, empty, flip, remove])


class Kept:
    """Three checkpoints: `a` is of the first two, `b` of the last two, `c` of the last."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(LocalDisk(), str(folder), "bids")
        self.folder = folder / "bids" / "checkpoints"
        with self.home.hold(NOW):
            self.job = self.home.ensure_job_id(NOW)
            store = self.home.open_store(self.job)
            self.a, self.b, self.c = (store.put(data) for data in (b"aaaa", b"bbbb", b"cccc"))
            for number, blobs in enumerate(([self.a], [self.a, self.b], [self.b, self.c]), 1):
                store.commit(number, build_blob_manifest(blobs))

    def path(self, blob: Blob) -> Path:
        return self.folder / "blobs" / blob.hash

    def manifest(self, number: int) -> Path:
        return self.folder / "manifests" / f"{number}.json"

    def opened(self) -> LocalSnapshotStore:
        """As the next run opens it."""
        with self.home.hold(NOW):
            return self.home.open_store(self.home.ensure_job_id(NOW))

    def files(self) -> dict[Path, str]:
        """All that is there, by the hash of its bytes."""
        paths = [path for path in self.folder.rglob("*") if path.is_file()]
        return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


@SPOILED
def test_a_damaged_blob_is_named_with_its_checkpoints_and_a_whole_one(
    kept: Kept, spoil: Spoil
) -> None:
    path = kept.path(kept.b)
    spoil(path)
    before = kept.files()
    with pytest.raises(DamagedSnapshot) as caught:
        kept.opened().read(kept.b)
    assert caught.value.message.startswith(f"{path} is damaged: ")
    assert caught.value.message.endswith("; checkpoints 2 and 3 need it")
    assert caught.value.hint == "checkpoint 1 is intact: --from-checkpoint 1 resumes from it"
    assert (caught.value.file, caught.value.checkpoints, caught.value.whole) == (
        str(path),
        (2, 3),
        1,
    )
    assert caught.value.exit_status == 3
    assert kept.files() == before


@SPOILED
def test_a_damaged_manifest_is_named_and_the_one_before_is_offered(
    kept: Kept, spoil: Spoil
) -> None:
    spoil(kept.manifest(3))
    before = kept.files()
    with pytest.raises(DamagedSnapshot) as caught:
        kept.opened().read_manifest(3)
    assert caught.value.message.startswith(f"{kept.manifest(3)} is damaged: ")
    assert caught.value.message.endswith("; checkpoint 3 needs it")
    assert caught.value.whole == 2
    assert kept.files() == before
    store = kept.opened()
    assert store.read_manifest(2)["number"] == 2
    assert [store.read(kept.a), store.read(kept.b)] == [b"aaaa", b"bbbb"]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (cut, "wanted 4 bytes, got 3"),
        (empty, "wanted 4 bytes, got 0"),
        (flip, "its 4 bytes are not those that were written"),
        (remove, "it is missing"),
    ],
)
def test_damage_of_a_file_is_described(kept: Kept, spoil: Spoil, said: str) -> None:
    spoil(kept.path(kept.a))
    with pytest.raises(DamagedSnapshot, match=f"is damaged: {said}; "):
        kept.opened().read(kept.a)


def test_threads_put_and_ask_while_old_checkpoints_are_collected(kept: Kept) -> None:
    with kept.home.hold(NOW), ThreadPoolExecutor(8) as threads:
        store = kept.home.open_store(kept.job)
        for number in range(4, 10):
            data = [b"%d" % (number * 10 + each % 50) for each in range(200)]
            putting = [threads.submit(store.put, each) for each in data]
            store.collect([number - 1])
            blobs = [each.result() for each in putting]
            assert all(threads.map(store.has, blobs))
            store.commit(number, build_blob_manifest(blobs))
            assert [store.read(blob) for blob in blobs] == data
        for _ in range(2):
            store.collect([9])
        assert len(list((kept.folder / "blobs").iterdir())) == 50


def test_only_a_checkpoint_that_is_whole_is_offered(kept: Kept) -> None:
    flip(kept.path(kept.c))
    flip(kept.path(kept.a))
    with pytest.raises(DamagedSnapshot) as caught:
        kept.opened().read(kept.c)
    assert caught.value.whole is None
    assert caught.value.hint.startswith("no other checkpoint is intact: --fresh starts from")


def test_every_bit_of_a_manifest_is_held_by_its_checksum(kept: Kept) -> None:
    path = kept.manifest(3)
    data = path.read_bytes()
    store = kept.opened()
    for at in range(0, len(data) * 8, 3):
        changed = bytearray(data)
        changed[at // 8] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises(DamagedSnapshot):
            store.read_manifest(3)
    path.write_bytes(data)
    assert store.read_manifest(3)["number"] == 3


@SPOILED
@pytest.mark.parametrize("link", [False, True])
def test_a_damaged_blob_is_not_fetched(
    kept: Kept, spoil: Spoil, link: bool, tmp_path: Path
) -> None:
    target = tmp_path / "000001.sst"
    store = kept.opened()
    store.fetch(kept.a, str(target), link=link)
    assert target.read_bytes() == b"aaaa"
    target.unlink()
    spoil(kept.path(kept.a))
    with pytest.raises(DamagedSnapshot):
        store.fetch(kept.a, str(target), link=link)
    assert not target.exists()


def test_a_manifest_of_another_format_is_refused_and_is_no_damage(kept: Kept) -> None:
    rest = kept.manifest(3).read_bytes()[47:].replace(b'"format":1', b'"format":2')
    checksum = hashlib.sha256(rest).hexdigest()[:32].encode()
    kept.manifest(3).write_bytes(b'{"checksum":"' + checksum + b'",' + rest)
    with pytest.raises(RefusedSnapshot, match=r"3\.json: wanted format 1, got 2") as caught:
        kept.opened().read_manifest(3)
    assert not isinstance(caught.value, DamagedSnapshot)
    assert caught.value.exit_status == 3


def test_a_manifest_of_another_job_is_refused(kept: Kept, tmp_path: Path) -> None:
    other = Kept(tmp_path / "other")
    other.manifest(3).rename(kept.manifest(3))
    with pytest.raises(RefusedSnapshot, match=f"wanted job {kept.job}, got {other.job}"):
        kept.opened().read_manifest(3)


def test_a_manifest_under_another_number_is_refused(kept: Kept) -> None:
    kept.manifest(3).rename(kept.manifest(4))
    with pytest.raises(RefusedSnapshot, match=r"4\.json: wanted number 4, got 3"):
        kept.opened().read_manifest(4)


@SPOILED
def test_a_damaged_job_id_is_refused_or_read_from_the_checkpoints(kept: Kept, spoil: Spoil) -> None:
    path = kept.folder / "job.json"
    spoil(path)
    if path.exists():
        with pytest.raises(DamagedSnapshot, match=r"job\.json is damaged") as caught:
            kept.opened()
        assert "remove it" in caught.value.hint
        path.unlink()
    kept.opened()
    with kept.home.hold(NOW):
        assert kept.home.ensure_job_id(NOW) == kept.job
    assert path.exists()


def test_no_new_job_id_is_made_over_unreadable_manifests(kept: Kept) -> None:
    (kept.folder / "job.json").unlink()
    flip(kept.manifest(3))
    assert kept.opened().read_manifest(2)["job"] == kept.job
    (kept.folder / "job.json").unlink()
    for number in (1, 2):
        flip(kept.manifest(number))
    with pytest.raises(DamagedSnapshot, match=r"3\.json is damaged, and no other has the job"):
        kept.opened()


def test_a_sector_that_cannot_be_read_is_damage() -> None:
    disk = MemoryDisk()
    home = Home(disk, "/jobs", "bids")
    with home.hold(NOW):
        store = home.open_store(home.ensure_job_id(NOW))
        blob = store.put(b"abc")
        store.commit(1, build_blob_manifest([blob]))
        path = f"/jobs/bids/checkpoints/blobs/{blob.hash}"
        disk.before_operation = Trouble(fail_on=f"read {path}", failures=9)
        with pytest.raises(DamagedSnapshot, match="the disk cannot read it; checkpoint 1 needs it"):
            store.read(blob)
        disk.before_operation = Trouble(fail_on=f"read {path}", failures=9, code=errno.EACCES)
        with pytest.raises(StoreError, match=f"cannot read {path}"):
            store.read(blob)
